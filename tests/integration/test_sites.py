"""`--site-memory` as its users meet it: what a site repeats is no article, in whatever process."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from streamer import AnyPage, Deduplicator, Verdict, read_verdicts
from streamer.errors import SettingsError, StoreDamaged, StoreMismatch
from streamer.run.site_store import NOTE_KEY, part_key
from streamer.stored.store import Store
from streamer.testing import KILL, Replayer
from streamer.testing.replays import KEY, KillMarker
from tests.helpers.added import added
from tests.helpers.commands import run
from tests.integration.test_main_text import FLOOD, STRIKE

WORDS = (
    "river", "dam", "council", "night", "bridge", "water", "school", "month", "house", "street",
    "tower", "market", "field",
)  # fmt: skip
SITES: dict[str, Any] = {
    "text": "main", "site_memory": "1MiB", "threshold": 0.65, "bands": 24, "rows": 4,
}  # fmt: skip
PAGES, LONG = 40, 12


def sentences(rng: Random, count: int) -> str:
    each = (" ".join(rng.choices(WORDS, k=rng.randint(9, 16))) for _ in range(count))
    return " ".join(f"{one.capitalize()}, he said." for one in each)


def crawl(pages: int = PAGES) -> list[tuple[str, str]]:
    """Return articles of two sites, each above notes: long ones, then short; some are there twice.

    The notes are in the cells of a table, which look like text to the model for single pages.
    """
    rng, notes = Random(1), {"one": [*FLOOD, *STRIKE], "two": [*STRIKE, *FLOOD]}
    found: list[tuple[str, str]] = []
    for number in range(pages):
        host = rng.choice(list(notes))
        article = [sentences(rng, 1) for _ in range(2 if number > LONG else 20)]
        if number % 5 == 4:
            found.append((f"http://{host}.example/again/{number}", found[-1][1]))
            continue
        text = "".join(f"<p>{each}</p>" for each in article)
        cells = "".join(f"<tr><td>{each[:90]}<tr><td>{each[90:180]}" for each in notes[host])
        body = f"<ul><li><a href=/>Home</a></ul><h1>{sentences(rng, 1)}</h1><div>{text}</div>"
        found.append((f"http://{host}.example/{number}", f"{body}<table>{cells}</table>"))
    return found


@pytest.fixture(autouse=True, scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Have each index made with the key that replays of tests have."""
    path = tmp_path_factory.mktemp("key") / "key"
    path.write_text(KEY)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STREAMER_KEY_FILE", str(path))
        yield


@pytest.fixture(scope="module")
def verdicts() -> list[Verdict]:
    with Deduplicator(**SITES) as dedup:
        return list(added(dedup, crawl()))


def reported(each: list[Verdict]) -> list[tuple[object, ...]]:
    return [
        (v.url, v.verdict, v.similarity, v.representative and v.representative.url) for v in each
    ]


def test_what_a_site_repeats_makes_no_duplicates(verdicts: list[Verdict]) -> None:
    without = {name: value for name, value in SITES.items() if name != "site_memory"}
    with Deduplicator(**without) as dedup:
        alike = sum(each.is_duplicate for each in added(dedup, crawl()))
    again = {url for url, _ in crawl() if "/again/" in url}
    assert {each.url for each in verdicts if each.is_duplicate} == again
    assert alike > len(again)


def test_within_scopes_of_hosts_verdicts_are_those_of_each_host_alone() -> None:
    pages = crawl()
    pages[7:7] = [("http://three.example/", pages[0][1])]
    with Deduplicator(**SITES, scope="host") as dedup:
        asked, found = [], []
        for page in pages:
            asked.append(dedup.check(page))
            found += list(added(dedup, [page]))
    assert reported(asked) == reported(found)
    for host in ("one", "two", "three"):
        own = [page for page in pages if f"//{host}." in page[0]]
        with Deduplicator(**SITES) as dedup:
            alone = reported(list(added(dedup, own)))
        assert [each for each in reported(found) if f"//{host}." in str(each[0])] == alone


@pytest.mark.parametrize("threads", [1, 3])
def test_a_killed_replay_has_the_bytes_of_a_quiet_one(
    streamer_replay: Replayer, verdicts: list[Verdict], threads: int
) -> None:
    pages = crawl()
    killed: list[AnyPage | bytes | KillMarker] = [*pages[:8], KILL, *pages[8:18], KILL, *pages[18:]]
    assert reported(list(streamer_replay(killed, threads=threads, **SITES))) == reported(verdicts)


@pytest.mark.parametrize("what", ["note", "part"])
def test_a_part_that_is_missing_is_refused(tmp_path: Path, what: str) -> None:
    with Deduplicator(tmp_path / "index", **SITES) as dedup:
        list(added(dedup, crawl(4)))
    store = Store.open(tmp_path / "index" / "store")
    keys = [NOTE_KEY] if what == "note" else [part_key(0, number) for number in range(1024)]
    for key in filter(store.note, keys):
        store.put_note(key, b"")
    store.close()
    with pytest.raises(StoreDamaged, match="of what it knows of sites is missing"):
        Deduplicator(tmp_path / "index", **SITES)


def test_an_index_has_one_table_of_one_size(tmp_path: Path) -> None:
    with Deduplicator(tmp_path / "index", **SITES) as dedup:
        list(added(dedup, crawl(4)))
    for size in ("2MiB", "0"):
        with pytest.raises(StoreMismatch, match="--site-memory is 1048576 there"):
            Deduplicator(tmp_path / "index", **{**SITES, "site_memory": size})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"site_memory": "64MiB"}, "Give --text main"),
        ({**SITES, "site_memory": 1000}, "must be 1MiB or more"),
        ({**SITES, "scope": "tenant"}, "does not go with --scope tenant"),
    ],
)
def test_settings_that_exclude_others_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        Deduplicator(**options)


def test_commands_know_the_table_and_show_what_a_site_repeats(tmp_path: Path) -> None:
    pages, index, out = (tmp_path / name for name in ("pages.jsonl", "index", "v.jsonl"))
    early, late = crawl()[: PAGES // 2], crawl()[PAGES // 2 :]
    lines = [json.dumps({"url": url, "body": body}) + "\n" for url, body in early]
    pages.write_text("".join(lines))
    same = [pages, "--verdicts", out, "--index", index]
    made = ["--preset", "balanced", "--site-memory", "1MiB"]
    run("replay", *same, *made)
    run("verify", *same)
    pages.write_text(
        "".join([*lines, *(json.dumps({"url": u, "body": b}) + "\n" for u, b in late)])
    )
    run("replay", *same, *made)
    with Deduplicator(**SITES) as dedup:
        wanted = reported(list(added(dedup, crawl())))
    assert sorted(reported(list(read_verdicts(out))), key=str) == sorted(wanted, key=str)
    both = [tmp_path / "one.jsonl", tmp_path / "other.jsonl"]
    for path, line in zip(both, pages.read_text().splitlines()[-3:-1], strict=True):
        path.write_text(line)
    shown, method = tmp_path / "both.html", ("--method", "minhash")
    run("compare", *both, *method, "--index", index, "--html", shown)
    assert re.search(
        r"\(also on \d+ other pages of the site; left out because of that\)", shown.read_text()
    )
    run("compare", *both, *method, "--text", "main", "--html", shown, "--overwrite")
    assert "left out" not in shown.read_text()
    with pytest.raises(SettingsError, match="own canonical form and text"):
        run("compare", *both, "--index", index, "--text", "main")
