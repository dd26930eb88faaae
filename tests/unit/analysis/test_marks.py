from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.analysis.marks import MarkFile, PageOfPair, PairMark, read_marks
from streamer.errors import InputError, SettingsError, StoreUnavailable
from streamer.model import Location

A, B, C = (
    PageOfPair("https://a.example/", "p.jsonl:1"),
    PageOfPair("b", "p.jsonl:2"),
    PageOfPair("c"),
)


def test_marks_are_read_back_and_the_last_one_counts(tmp_path: Path) -> None:
    path = tmp_path / "marks.tsv"
    marks = MarkFile(path)
    assert (len(marks), marks.label_of(A, B)) == (0, "")
    for one, other, label in (
        (A, B, "same"), (A, C, "different"), (B, A, "different"), (C, B, "same"), (B, C, ""),
    ):  # fmt: skip
        marks.append(PairMark(one, other, label))
    assert read_marks(path) == [PairMark(A, C, "different"), PairMark(B, A, "different")]
    for found in (marks, MarkFile(path)):
        labels = [found.label_of(*pair) for pair in ((A, B), (B, A), (C, A), (B, C))]
        assert labels == ["different", "different", "different", ""]
    assert len(marks) == 2
    path.unlink()
    assert len(marks) == 0


def test_a_pair_marked_by_its_urls_is_known(tmp_path: Path) -> None:
    path = tmp_path / "truth_pairs.tsv"
    path.write_text(f"url_a\turl_b\tlabel\tjaccard5\nb\t{A.url}\tplagiarised\t0.9", "utf-8")
    marks = MarkFile(path)
    assert marks.label_of(A, B) == "plagiarised"
    before = path.read_text("utf-8")
    with pytest.raises(InputError, match="no columns place_a and place_b"):
        marks.append(PairMark(B, C, "different"))
    with pytest.raises(InputError, match="no columns place_a and place_b"):
        marks.check()
    assert path.read_text("utf-8") == before


HEAD = "url_a\turl_b\tlabel\tplace_a\tplace_b\n"
LINE = "a\tb\tsame\tp.jsonl:1\tp.jsonl:2\n"


@pytest.mark.parametrize(
    "cut", ["c\td\tdiff", "c\td\tdifferent\tp.jsonl:3\tp.json", '"c""x\td', "\xff"]
)
def test_a_mark_that_was_cut_short_is_none(tmp_path: Path, cut: str) -> None:
    path = tmp_path / "marks.tsv"
    path.write_bytes((HEAD + LINE + cut).encode("latin-1"))
    marks = MarkFile(path)
    assert (len(marks), len(read_marks(path))) == (1, 1)
    marks.append(PairMark(A, C, "different"))
    marks.append(PairMark(B, C, "same"))
    assert [mark.label for mark in read_marks(path)] == ["same", "different", "same"]


@pytest.mark.parametrize("size", range(len(HEAD) + 1))
def test_a_first_line_that_was_cut_short_is_written_again(tmp_path: Path, size: int) -> None:
    path = tmp_path / "marks.tsv"
    path.write_text(HEAD[:size], "utf-8")
    MarkFile(path).append(PairMark(A, C, "same"))
    assert path.read_text("utf-8") == f"{HEAD}{A.url}\tc\tsame\tp.jsonl:1\t\n"


@pytest.mark.parametrize("label", ["Different", "different ", " DIFFERENT"])
def test_a_label_may_have_capitals_and_spaces(tmp_path: Path, label: str) -> None:
    path = tmp_path / "marks.tsv"
    path.write_text(f"url_a\turl_b\tlabel\r\na\tb\t{label}\r\nc\td\t{label}", "utf-8-sig")
    assert [mark.is_same for mark in read_marks(path)] == [False, False]


@pytest.mark.parametrize(
    ("head", "label"), [(HEAD, "diffrent"), (HEAD, "yes"), ("url_a\turl_b\tlabel\n", "Diff")]
)
def test_a_label_that_is_not_known_is_refused(tmp_path: Path, head: str, label: str) -> None:
    path = tmp_path / "marks.tsv"
    path.write_text(f"{head}{LINE if head == HEAD else ''}a\tb\t{label}\n", "utf-8")
    number = 3 if head == HEAD else 2
    with pytest.raises(InputError, match=f"line {number} has the label '{label}'"):
        read_marks(path)


def test_a_mark_with_places_replaces_the_one_of_the_urls(tmp_path: Path) -> None:
    path = tmp_path / "marks.tsv"
    for label in ("different", ""):
        path.write_text(f"{HEAD}b\t{A.url}\tsame\t\t\n", "utf-8")
        marks = MarkFile(path)
        assert marks.label_of(A, B) == "same"
        marks.append(PairMark(A, B, label))
        assert marks.label_of(A, B) == label
        assert {mark.label for mark in read_marks(path)} == {label} - {""}
    taken_back = f"{A.url}\tb\t\t{A.place}\t{B.place}\n"
    path.write_text(f"{HEAD}{taken_back}b\t{A.url}\tsame\t\t\n", "utf-8")
    assert MarkFile(path).label_of(A, B) == ""  # what is said of the two pages wins


def test_a_file_that_was_emptied_has_no_marks(tmp_path: Path) -> None:
    path = tmp_path / "marks.tsv"
    marks = MarkFile(path)
    marks.append(PairMark(A, B, "same"))
    assert len(marks) == 1
    path.write_text("", "utf-8")
    assert (len(marks), marks.label_of(A, B)) == (0, "")


@pytest.mark.parametrize(
    "text", ["one\tother\na\tb\n", "{}\n", "\n"], ids=["other", "json", "none"]
)
def test_a_file_of_something_else_is_left_alone(tmp_path: Path, text: str) -> None:
    path = tmp_path / "marks.tsv"
    path.write_text("", "utf-8")
    marks = MarkFile(path)
    path.write_text(text, "utf-8")
    with pytest.raises(InputError, match="its columns are url_a, url_b, label"):
        marks.append(PairMark(A, B, "same"))
    assert path.read_text("utf-8") == text


def test_a_file_that_cannot_be_written_is_said_so(tmp_path: Path) -> None:
    marks = MarkFile(tmp_path / "none" / "marks.tsv")
    with pytest.raises(StoreUnavailable, match=r"Cannot write .*: No such file .*another --marks"):
        marks.append(PairMark(A, B, "same"))
    with pytest.raises(SettingsError, match=r"Cannot write .*: No such file"):
        marks.check()


@given(
    st.lists(
        st.text(st.characters(codec="utf-8"), min_size=1),
        min_size=3,
        max_size=3,
        unique=True,
    )
)
def test_whatever_a_url_is_it_comes_back(
    tmp_path_factory: pytest.TempPathFactory, urls: list[str]
) -> None:
    path = tmp_path_factory.mktemp("marks") / "marks.tsv"
    pages = [PageOfPair(url, f"{url}:{n}") for n, url in enumerate(urls)]
    marks = [PairMark(pages[0], pages[1], "same"), PairMark(pages[2], pages[0], "different")]
    file = MarkFile(path)
    for mark in marks:
        file.append(mark)
    escaped = [mark._replace(one=mark.one.escaped, other=mark.other.escaped) for mark in marks]
    assert read_marks(path) == escaped
    assert [file.label_of(mark.one, mark.other) for mark in marks] == ["same", "different"]
    assert pages[0].location == Location(urls[0], 0, 0)
