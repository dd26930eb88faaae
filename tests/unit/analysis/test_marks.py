from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.analysis.marks import MarkFile, PageOfPair, PairMark, read_marks
from streamer.errors import InputError
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
    marks.append(PairMark(B, C, "different"))  # behind a line that was cut short
    assert path.read_text("utf-8").splitlines()[1:] == [
        f"b\t{A.url}\tplagiarised\t0.9", "b\tc\tdifferent\t",
    ]  # fmt: skip
    assert [mark.is_same for mark in read_marks(path)] == [True, False]


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
    with pytest.raises(InputError, match="No such file"):
        MarkFile(tmp_path / "none" / "marks.tsv").append(PairMark(A, B, "same"))


@given(
    st.lists(
        st.text(st.characters(codec="utf-8", exclude_characters="\r"), min_size=1),
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
    assert read_marks(path) == marks
    assert pages[0].location == Location(urls[0], 0, 0)
