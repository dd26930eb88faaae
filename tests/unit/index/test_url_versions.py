"""Versions of URLs: distinguished, stored with a flush or not at all, gone once they expired."""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from streamer.cli.main import app
from streamer.index.forgetting import BEFORE, HOST, URL
from streamer.index.messages import Forget, IndexSettings, Pages, Term, config_record
from streamer.index.url_versions import CHANGE_NAMES, split_changes, url_keys, url_of
from streamer.run.judge import Judge
from streamer.sketch.resemblance import similarity
from streamer.stored.deep_check import check_index
from streamer.stored.forget import forget
from streamer.stored.store import Store
from tests.helpers.shard_cases import FAR, SAME, apart, shares
from tests.helpers.signed_pages import BANDS, Sketch, made_pages, opened

TRACKED = IndexSettings(track_changes=True)
HOUR = 3_600_000  # of the first day of 1970, of which each date is believed
runner = CliRunner()


def score(one: Sketch, other: Sketch) -> int:
    """Return the similarity of two sketches; of unlike ones it is hardly 0."""
    return similarity(np.array(one, np.uint64), np.array(other, np.uint64))


UNLIKE = score(SAME, FAR[2])


def page(number: int, url: bytes, content: int, sketch: Sketch, hour: float = 1) -> Pages:
    """Return a page of a URL, of a content by its number, and of an hour."""
    made = made_pages([[*shares(*[0] * BANDS)[:BANDS], content]], [sketch], first_ref=number)
    made.urls, made.times[:] = [url], int(hour * HOUR)
    return made


def change(judge: Judge, pages: Pages, **found: Any) -> tuple[str, int] | None:
    """Judge a page; return its change and the similarity, None where there is none."""
    number = int(pages.refs[0])
    [block] = judge.judge(0, number, number + 1, pages, **found)
    if block.changes is None:
        return None
    codes, scores = split_changes(block.changes)
    return CHANGE_NAMES[codes[0]], int(scores[0])


@pytest.fixture
def judge(tmp_path: Path) -> Iterator[Judge]:
    with contextlib.closing(opened(tmp_path / "index", TRACKED)) as made:
        yield made


def versions_in(store: Store) -> list[bytes]:
    return [url_of(version) for _, version in store.scan_urls()]


# ---- the rule -----------------------------------------------------------------------------------


def test_a_version_is_compared_with_the_one_before_it(judge: Judge, flush: bool) -> None:
    steps = [
        (page(0, b"a", 1, SAME), ("new", -1)),
        (page(1, b"b", 1, SAME), ("new", -1)),  # a duplicate of the other URL's page
        (page(2, b"b", 1, SAME), ("unchanged", 10_000)),
        (page(3, b"b", 2, apart(136)), ("edited", 8007)),
        (page(4, b"a", 3, apart(137)), ("replaced", 7993)),
        (page(5, b"b", 4, FAR[2]), ("replaced", score(FAR[2], apart(136)))),
        (page(6, b"b", 1, SAME), ("replaced", UNLIKE)),  # as it was before, but not the time before
        (page(7, b"a", 5, apart(137)), ("edited", 10_000)),  # its words in another order
        (page(8, b"", 5, SAME), ("new", -1)),
    ]
    for pages, expected in steps:
        assert change(judge, pages) == expected, pages.refs
        if flush:
            judge.flush(b"")


def test_what_is_judged_without_the_setting_is_not_known(judge: Judge) -> None:
    shard = judge.shard
    change(judge, page(0, b"a", 1, SAME))
    shard.apply(config_record(IndexSettings(), 1))
    assert change(judge, page(1, b"a", 2, FAR[1])) is None
    shard.apply(config_record(TRACKED, 2))
    assert change(judge, page(2, b"a", 1, SAME)) == ("unchanged", 10_000)


# ---- look-ups and flushes -----------------------------------------------------------------------


def test_a_flush_is_due_when_many_versions_came_though_no_page_was_kept(tmp_path: Path) -> None:
    with contextlib.closing(opened(tmp_path / "index", TRACKED, head_pages=8)) as judge:
        change(judge, page(0, b"url", 1, SAME))
        for number in range(1, 8):
            assert not judge.flush_is_due, number
            change(judge, page(number, b"url%d" % number, 1, SAME))
        assert judge.flush_is_due
        judge.flush(b"")
        assert not judge.flush_is_due


def test_keys_of_urls_depend_on_the_secret() -> None:
    one, other, again = url_keys([b"a", b"b", b"a"], b"1")
    assert one == again
    assert len({one, other, *url_keys([b"a"], b"2"), *url_keys([b"a"], b"")}) == 4


def test_a_url_with_the_key_of_one_is_new(judge: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamer.stored.lookup.url_keys", lambda urls, _: [7] * len(urls))
    assert change(judge, page(0, b"a", 1, SAME)) == ("new", -1)
    assert change(judge, page(1, b"ba", 1, SAME)) == ("new", -1)
    assert change(judge, page(2, b"ba", 1, SAME)) == ("unchanged", 10_000)


# ---- expiry -------------------------------------------------------------------------------------


def test_space_of_versions_that_have_expired_comes_back(tmp_path: Path) -> None:
    rules = TRACKED.model_copy(update={"expire_after_ms": 10 * HOUR})
    counts, generations = [], []
    with contextlib.closing(opened(tmp_path / "index", rules)) as judge:
        for number in range(60):
            change(judge, page(number, b"url%d" % number, number, SAME, 1 + number))
            judge.flush(b"")
            assert judge.store.meta is not None
            counts.append(len(versions_in(judge.store)))
            generations.append(len(judge.store.meta.generations))
    assert max(generations) <= 6
    assert 10 <= min(counts[20:]) <= max(counts[20:]) <= 16
    with contextlib.closing(opened(tmp_path / "index", rules)) as judge:  # a start goes on there
        reported = [
            change(judge, page(60 + place, b"url%d" % known, known, SAME, 60))
            for place, known in enumerate((59, 50, 48))
        ]
    assert reported == [("unchanged", 10_000), ("unchanged", 10_000), ("new", -1)]


# ---- forgetting, and what looks at an index -----------------------------------------------------


@pytest.fixture
def crawled(tmp_path: Path) -> Path:
    """Return an index of pages of two hosts; those of the second are duplicates."""
    with contextlib.closing(opened(tmp_path / "index", TRACKED)) as judge:
        for number, url in enumerate((b"https://a.example/1", b"https://b.example/2")):
            change(judge, page(number, url, 1, SAME, 1 + number))
        judge.flush(b"")
    return tmp_path / "index"


@pytest.mark.parametrize(
    ("wanted", "left"),
    [
        ([(URL, b"https://b.example/2")], [b"https://a.example/1"]),
        ([(HOST, b".b.example")], [b"https://a.example/1"]),
        ([(BEFORE, 2 * HOUR)], [b"https://b.example/2"]),
        ([(HOST, b"c.example")], [b"https://a.example/1", b"https://b.example/2"]),
    ],
)
def test_forgetting_leaves_no_version(crawled: Path, wanted: list[Term], left: list[bytes]) -> None:
    with contextlib.closing(Store.open(crawled / "store")) as store:
        forget(store, Forget(wanted), dry_run=True)
        assert len(versions_in(store)) == 2
        forget(store, Forget(wanted), dry_run=False)
        assert sorted(versions_in(store)) == left
    held = b"".join(path.read_bytes() for path in crawled.rglob("*") if path.is_file())
    for url in (b"https://a.example/1", b"https://b.example/2"):
        assert (url in held) == (url in left)
    assert not any(finding.damage for finding in check_index(crawled))


def test_a_deep_check_reads_versions(crawled: Path) -> None:
    [finding] = [each for each in check_index(crawled) if each.part == "versions of URLs"]
    assert finding.size == 2 * (17 + 296 + 19)
    assert not finding.damage


def test_a_replay_tells_changes_and_counts_them(tmp_path: Path) -> None:
    words = [f"word{i}" for i in range(100)]
    texts = [words, words, [*words[:50], "other", *words[51:]], [*map(str, range(100))]]
    lines = [
        json.dumps({"url": "https://a.example/", "body": " ".join(each)}) + "\n" for each in texts
    ]
    (tmp_path / "pages.jsonl").write_text("".join(lines))
    command = ["replay", str(tmp_path / "pages.jsonl"), "--index", str(tmp_path / "index")]
    command += ["--verdicts", str(tmp_path / "out"), "--summary", str(tmp_path / "summary")]
    done = runner.invoke(app, [*command, "--track-changes"])
    assert done.exit_code == 0, done.output
    found = [json.loads(line) for line in (tmp_path / "out").read_text().splitlines()]
    reported = [(each["change"], each["change_similarity"]) for each in found]
    assert reported[:2] == [("new", None), ("unchanged", 1.0)]
    assert reported[2] == ("edited", found[2]["similarity"])
    assert reported[3] == ("replaced", 0.0)
    summary = json.loads((tmp_path / "summary").read_text())
    assert summary["changes"] == {"new": 1, "unchanged": 1, "edited": 1, "replaced": 1}
    assert summary["total"]["changes"] == summary["changes"]
    report = json.loads(runner.invoke(app, ["inspect", str(tmp_path / "index"), "--json"]).output)
    assert (report["url_versions"], report["settings"]["track_changes"]) == (1, True)
