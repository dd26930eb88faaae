"""What the page on near-duplicates says of similarities is so: formulas, passage, sample crawl."""

import re
from functools import cache
from pathlib import Path

import pytest

from streamer.analysis.exact import Comparison, compare_words
from streamer.analysis.sample.crawl import Crawl, Planted
from streamer.analysis.sample.reference import page_text, read_page
from streamer.text.words import canonical_words

PAGE = Path(__file__).parents[2] / "docs" / "near-duplicates.md"
SECTION = PAGE.read_text("utf-8").partition("## Similarity\n")[2].partition("\n## ")[0]
WIDTH = 5
PASSAGE = canonical_words(" ".join(re.findall(r"^> (.*)$", SECTION, re.MULTILINE)))
RECORDS = 250


def table(head: str) -> list[list[str]]:
    """Return the rows of the table whose first column has this head."""
    lines = SECTION.partition(f"| {head} |")[2].splitlines()[2:]
    rows = []
    for line in lines:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows


def number(cell: str) -> float:
    return float(cell.removesuffix("%").strip())


@pytest.mark.parametrize("row", table("similarity"), ids=lambda row: row[0])
def test_the_edits_that_lead_to_a_similarity_are_those_of_the_formulas(row: list[str]) -> None:
    similarity, words = float(row[0]), 20_000
    text = [f"w{i}" for i in range(words)]
    every = int(row[1].removeprefix("1 of "))
    scattered = [f"x{i}" if i % every == 0 else word for i, word in enumerate(text)]
    assert compare_words(text, scattered, WIDTH).jaccard == pytest.approx(similarity, abs=0.006)
    piece = round(words * number(row[2]) / 100)
    other = [*(f"x{i}" for i in range(piece)), *text[piece:]]
    assert compare_words(text, other, WIDTH).jaccard == pytest.approx(similarity, abs=0.005)
    more = [*text, *(f"x{i}" for i in range(round(words * number(row[3]) / 100)))]
    assert compare_words(text, more, WIDTH).jaccard == pytest.approx(similarity, abs=0.005)


EDITS = {
    "two words more": [("was there", "was there last night")],
    "`Nobody opens": [("nobody reads", "nobody opens")],
    "`each boat": [("each ship", "each boat"), ("nobody reads", "nobody opens")],
    "these two": [
        ("each ship", "each boat"),
        ("nobody reads", "nobody opens"),
        ("wall broken", "wall fallen"),
    ],
}


def test_the_passage_has_as_many_words_as_is_said() -> None:
    assert f"A passage of {len(PASSAGE)} words" in SECTION


@pytest.mark.parametrize("row", table("what another page says instead"), ids=lambda row: row[0])
def test_the_edited_passage_is_as_similar_as_is_said(row: list[str]) -> None:
    (edits,) = (edits for begin, edits in EDITS.items() if row[0].startswith(begin))
    text = " ".join(PASSAGE)
    for before, after in edits:
        assert text.count(before) == 1
        assert after.split()[-1] in row[0] or row[0].startswith("these two")
        text = text.replace(before, after)
    found = compare_words(PASSAGE, text.split(), WIDTH).jaccard
    assert f"{found:.2f}" == row[1]


@cache
def records() -> list[Planted]:
    return list(Crawl().records(RECORDS))


def pair(lines: str) -> Comparison:
    one, other = (records()[int(line)] for line in lines.split(", "))
    assert (one.origin and one.origin.ordinal) == other.ordinal
    pages = [read_page(each.line) for each in (one, other)]
    texts = [(page_text(page) if page else None) or "" for page in pages]
    first, second = map(canonical_words, texts)
    return compare_words(first, second, WIDTH)


@pytest.mark.parametrize("row", table("offsets"), ids=lambda row: row[0])
def test_pairs_of_the_sample_crawl_are_as_similar_as_is_said(row: list[str]) -> None:
    lines, _made, words, similarity, bag, covered = row
    found = pair(lines)
    assert words == " and ".join(str(n + WIDTH - 1) for n in found.shingles)
    assert (similarity, bag) == (f"{found.jaccard:.2f}", f"{found.bag:.2f}")
    assert covered == " and ".join(f"{share:.0%}".replace("%", " %") for share in found.covered)


def test_every_table_of_the_section_is_looked_at() -> None:
    heads = [line for line in SECTION.splitlines() if line.startswith("|---")]
    assert [
        len(table(head)) for head in ("similarity", "what another page says instead", "offsets")
    ] == [4, 4, 6]
    assert len(heads) >= 3
