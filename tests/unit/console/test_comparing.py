from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer import Deduplicator
from streamer.console import comparing
from streamer.console.answers import ConsoleData
from streamer.console.comparing import CompareAnswer, CompareQuery, TextPiece, align, compare
from streamer.console.index import IndexReader, PageTexts
from streamer.console.view import QueryTooLong
from tests.helpers.verdict_lines import duplicate, unique
from tests.unit.console.conftest import folded, texts_of
from tests.unit.console.test_server import ask
from tests.unit.test_deduplicator import text_of
from tests.unit.text.test_main_text import PAGE

MENU = "<nav><ul><li><a href=/a>One</a></li><li><a href=/b>Two</a></li></ul></nav>"
PAGES = [
    {"url": "https://a.example/", "body": f"<html>{MENU}<p>first {text_of(1)}</p>"},
    {"url": "https://b.example/", "body": f"<html>{MENU}<p>other {text_of(1)}</p>"},
    {"url": "https://c.example/", "body": text_of(2)},
]  # fmt: skip
VERDICTS = [unique(0, "https://a.example/"), duplicate(1, of=0, url="https://b.example/")]
BOTH = CompareQuery("pages.jsonl:0", "https://b.example/")


@pytest.fixture
def data(tmp_path: Path) -> Iterator[ConsoleData]:
    with folded(tmp_path, *VERDICTS) as found:
        yield replace(found, texts=texts_of(tmp_path / "pages.jsonl", *PAGES))


def figures(answer: CompareAnswer) -> dict[str, str]:
    return {row.name: row.value for row in answer.figures}


def both_texts(answer: CompareAnswer) -> list[str]:
    sides = [row.one for row in answer.rows], [row.other for row in answer.rows]
    return ["".join(piece.text for row in side for piece in row) for side in sides]


def test_two_pages_have_their_verdicts_and_what_their_texts_share(data: ConsoleData) -> None:
    answer = compare(data, BOTH)
    one, other = answer.pages
    assert [page.judged and page.judged.place for page in (one, other)] == [
        "pages.jsonl:0", "pages.jsonl:1",
    ]  # fmt: skip
    shared = [(row.one[0].text, row.other[0].text) for row in answer.rows if row.alike]
    assert [one for one, _ in shared] == [other for _, other in shared]
    assert [("first" in one, text_of(1)[-20:] in one) for one, _ in shared] == [(False, True)]
    assert ["first" in text for text in both_texts(answer)] == [True, False]
    assert figures(answer)["shared fragments"] == "1"
    assert answer.notes == []


def test_the_text_of_another_fetch_is_said_so(data: ConsoleData, tmp_path: Path) -> None:
    (tmp_path / "pages.jsonl").write_bytes(b"\n".join(map(msgspec.json.encode, PAGES[::-1])))
    answer = compare(data, BOTH)
    (note,) = answer.notes
    assert note.startswith("pages.jsonl:0: the text is of ")
    assert note.endswith("pages.jsonl:2, which is another fetch.")
    assert "first" in both_texts(answer)[0]


def test_no_texts_are_read_where_there_are_none(data: ConsoleData) -> None:
    answer = compare(replace(data, texts=PageTexts()), BOTH)
    assert (answer.notes, answer.figures) == ([comparing.NO_FILES], [])
    assert answer.rows == []
    missing = compare(data, CompareQuery("nowhere", "pages.jsonl:0"))
    assert missing.notes == ["nowhere: its text is in none of the files of --pages."]
    assert missing.pages[0].judged is None


def test_hidden_texts_leave_the_figures(data: ConsoleData) -> None:
    answer = compare(replace(data, shows_text=False), BOTH)
    assert answer.notes == [comparing.HIDDEN]
    assert answer.rows == []
    assert figures(answer)["shared fragments"] == "1"
    assert text_of(1)[:20] not in msgspec.json.encode(answer).decode()


def test_the_head_of_texts_is_compared(data: ConsoleData, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparing, "TEXT_CHARACTERS_MAX", 50)
    answer = compare(data, BOTH)
    assert answer.notes == ["Only the first 50 characters of each text are compared."]
    assert [len(text) <= 50 for text in both_texts(answer)] == [True] * 2


def test_reading_files_ends_in_time(data: ConsoleData) -> None:
    data.view.stopped.set()
    with pytest.raises(QueryTooLong):
        compare(data, BOTH)


def test_the_index_says_how_pages_are_compared(data: ConsoleData, tmp_path: Path) -> None:
    folder = tmp_path / "index"
    with Deduplicator(folder, threshold=0.95) as dedup:
        list(dedup.add(PAGES))
    answer = compare(replace(data, index=IndexReader(folder)), BOTH)
    assert answer.similarity is not None
    assert (answer.similarity.source, answer.similarity.threshold) == ("verdict", 0.95)


def test_a_verdict_on_main_text_has_the_rest_in_grey(tmp_path: Path) -> None:
    bodies = [PAGE, PAGE.replace("Terms", "Imprint")]
    lines = [{"url": f"https://{n}.example/", "body": body} for n, body in enumerate(bodies)]
    (tmp_path / "main").mkdir()
    verdict = unique(0, "https://0.example/", text="main")
    with folded(tmp_path / "main", verdict) as found:
        texts = texts_of(tmp_path / "articles.jsonl", *lines)
        query = CompareQuery("https://0.example/", "https://1.example/")
        answer = compare(replace(found, texts=texts), query)
    assert figures(answer)["Jaccard similarity"] == "1.0000"
    sides = [row.one for row in answer.rows], [row.other for row in answer.rows]
    aside = ["".join(p.text for row in side for p in row if not p.counts) for side in sides]
    assert [("Terms" in text, "Imprint" in text) for text in aside] == [
        (True, False), (False, True),
    ]  # fmt: skip


def piece(text: str, group: int | None = None, *, first: bool = True) -> TextPiece:
    return TextPiece(text, group, first and group is not None, counts=True)


@given(st.permutations(range(8)), st.permutations(range(8)))
def test_aligned_texts_are_whole_and_rows_alike_are_equal(one: list[int], other: list[int]) -> None:
    rows = align([piece(str(n), n) for n in one], [piece(str(n), n) for n in other])
    assert "".join(p.text for row in rows for p in row.one) == "".join(map(str, one))
    assert "".join(p.text for row in rows for p in row.other) == "".join(map(str, other))
    alike = [row.one[0].group for row in rows if row.alike]
    assert alike == [row.other[0].group for row in rows if row.alike]
    longest = max(
        size
        for size in range(9)
        if any(kept in set(combinations(other, size)) for kept in combinations(one, size))
    )
    assert len(alike) == longest


def test_a_pair_has_one_similarity_and_what_says_it(data: ConsoleData) -> None:
    found = compare(data, BOTH).similarity
    assert found is not None
    assert (found.value, found.source, found.exact) == (0.9, "verdict", False)
    assert found.measured is not None
    assert abs(found.measured - 0.97) < 0.03
    unrelated = compare(data, CompareQuery("pages.jsonl:0", "https://c.example/")).similarity
    assert unrelated is not None
    assert (unrelated.source, unrelated.method, unrelated.threshold) == ("texts", "minhash", 0.8)
    without = compare(replace(data, texts=PageTexts()), BOTH).similarity
    assert without is not None
    assert (without.value, without.threshold, without.measured) == (0.9, None, None)
    page = " ".join(ask(data, "/compare?page=pages.jsonl:0&with=pages.jsonl:1").text.split())
    assert "<strong>0.9000</strong> similar, estimated by the index, when it judged them." in page
    assert f"they share {found.measured:.4f} of their shingles: the estimate is" in page
