"""`--exact`: near the threshold the shingles themselves decide, wherever the kept page is."""

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

from streamer.analysis.trial import select
from streamer.errors import SettingsError
from streamer.index.codec import SHINGLES
from streamer.model import SIMILARITY_ONE
from streamer.stored.deep_check import check_index
from streamer.stored.store import Store
from tests.helpers.commands import run

WIDTH = 5
WORDS = 400


@pytest.fixture(autouse=True)
def _key(key_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have all indexes made with one key: under each, other estimates are in doubt."""
    monkeypatch.setenv("STREAMER_KEY_FILE", str(key_file))


def judged(folder: Path, name: str, lines: list[str], *options: str) -> list[dict[str, Any]]:
    """Return the verdicts on pages, by the index in the folder."""
    pages, out = folder / f"{name}.jsonl", folder / f"{name}.verdicts.jsonl"
    pages.write_text("".join(lines))
    run("replay", pages, "--verdicts", out, "--index", folder / "index", *options)
    return [json.loads(line) for line in out.read_text().splitlines()]


def page(url: str, words: list[str], **fields: Any) -> str:
    return json.dumps({"url": url, "body": " ".join(words), **fields}) + "\n"


def resemblance(one: list[str], other: list[str]) -> float:
    sets = [
        {tuple(each[i : i + WIDTH]) for i in range(len(each) - WIDTH + 1)} for each in (one, other)
    ]
    return len(sets[0] & sets[1]) / len(sets[0] | sets[1])


def near_pairs(count: int) -> list[tuple[list[str], list[str]]]:
    """Return pairs of pages of which half are a little above the threshold and half below."""
    draw, pairs = Random(4), []
    for number in range(count):
        one = [f"w{number}x{i}" for i in range(WORDS)]
        other = list(one)
        edits = 8 + (
            number % 2
        )  # each takes five of 396 shingles: 0.817 and 0.796 of them are left
        for place in draw.sample(range(1, WORDS // 20 - 1), edits):
            other[20 * place + 7] = f"new{number}x{place}"
        pairs.append((one, other))
    return pairs


def test_near_the_threshold_exact_resemblance_decides(tmp_path: Path) -> None:
    pairs = near_pairs(60)
    first = [page(f"a{i}", one) for i, (one, _) in enumerate(pairs)]
    second = [page(f"b{i}", other) for i, (_, other) in enumerate(pairs)]
    judged(tmp_path, "first", first, "--exact", "--head-pages", "1")
    found = judged(tmp_path, "second", second, "--exact")
    exact = [resemblance(*pair) for pair in pairs]
    assert {round(each, 2) for each in exact} == {0.8, 0.82}
    compared = [(verdict, share) for verdict, share in zip(found, exact, strict=True)]
    for verdict, share in compared:
        if share < 0.8:
            assert verdict["verdict"] == "unique"
            assert "exact" not in verdict
    said = [(v, share) for v, share in compared if v["verdict"] == "duplicate"]
    assert len(said) >= 25  # banding misses one or two
    exactly = [(v["similarity"], share) for v, share in said if v["exact"]]
    assert len(exactly) >= 20  # of the others the sketches leave no doubt
    assert all(
        reported == int(share * SIMILARITY_ONE) / SIMILARITY_ONE for reported, share in exactly
    )


def sets_on_disk(index: Path) -> int:
    """Return how many sets of shingles the store has, empty ones left out."""
    store = Store.open(index / "store", writable=False)
    try:
        assert store.meta is not None
        slots = range(store.meta.first_slot, store.meta.next_slot)
        found = store._database._families[SHINGLES].get(  # type: ignore[union-attr]  # noqa: SLF001 - none may be left that nobody names
            [SHINGLES + slot.to_bytes(8, "big") for slot in slots]
        )
        return sum(bool(each) for each in found)
    finally:
        store.close()


def test_shingles_go_with_the_rows_that_expire_or_are_forgotten(tmp_path: Path) -> None:
    for part in range(4):
        lines = [
            page(
                f"u{part}x{n}",
                [f"w{part}x{n}x{i}" for i in range(30)],
                fetched_at=1000 + 100 * part,
            )
            for n in range(10)
        ]
        judged(tmp_path, f"part{part}", lines, "--exact", "--expire-after", "150s")
    left = sets_on_disk(tmp_path / "index")
    assert 20 <= left <= 30
    run("forget", tmp_path / "index", "--url", "u3x7")
    assert sets_on_disk(tmp_path / "index") == left - 1
    assert not any(finding.damage for finding in check_index(tmp_path / "index"))


def test_an_evaluation_runs_methods_with_shingles_and_without() -> None:
    [(name, signature, index), (_, plain, _)] = select(["minhash:exact", "minhash"])
    assert (name, signature.exact, index.exact) == ("minhash:exact", True, True)
    assert not plain.exact
    with pytest.raises(SettingsError, match="--exact does not go with the method simhash"):
        select(["minhash+simhash:exact"])


def test_a_deep_check_names_shingles_that_are_missing(tmp_path: Path) -> None:
    judged(tmp_path, "pages", [page("a", [f"w{i}" for i in range(30)])], "--exact")
    store = Store.open(tmp_path / "index" / "store")
    store._to_write().delete(SHINGLES, [(0, 1)])  # noqa: SLF001 - nothing else removes one
    store.close()
    found = {finding.part: finding.damage for finding in check_index(tmp_path / "index")}
    assert found["shingles"] == ["block 0 of its shingles is missing"]


def test_explain_and_compare_decide_as_the_index_does(tmp_path: Path) -> None:
    pairs = near_pairs(2)
    judged(tmp_path, "pages", [page(f"a{i}", one) for i, (one, _) in enumerate(pairs)], "--exact")
    for number, pair in enumerate(pairs):
        share = int(resemblance(*pair) * SIMILARITY_ONE) / SIMILARITY_ONE
        files = [tmp_path / f"{name}{number}.txt" for name in "ab"]
        for file, words in zip(files, pair, strict=True):
            file.write_text(" ".join(words))
        reported = json.loads(run("explain", files[1], "--index", tmp_path / "index", "--json"))
        near = reported["nearest"]
        assert (near["url"], near["similarity"], near["exact"]) == (f"a{number}", share, True)
        assert reported["verdict"] == ("duplicate" if share >= 0.8 else "unique")
        options = ("--method", "minhash", "--method", "simhash", "--json")
        said = json.loads(run("compare", *files, "--exact", *options))["methods"]
        assert (said[0]["similarity"], said[0]["exact"], said[1]["exact"]) == (share, True, False)
        assert said[0]["duplicate"] == (share >= 0.8)
