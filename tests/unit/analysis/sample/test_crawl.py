import csv
import hashlib
import math
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest

from streamer.analysis.sample.crawl import (
    COLUMNS,
    PAGES_FILE,
    TRUTH_FILE,
    Crawl,
    Kind,
    read_kinds,
    write_crawl,
)
from streamer.analysis.sample.reference import TextShingler, page_text, read_page, resemblance
from streamer.errors import InputError

NO_PAGES = {Kind.INVALID_JSON, Kind.MISSING_BODY, Kind.NOT_TEXT}
EQUAL = {Kind.EXACT_COPY, Kind.SESSION_MIRROR, Kind.RECODED, Kind.TOO_SHORT_COPY}


@pytest.fixture(scope="module")
def crawl(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("crawl")
    write_crawl(folder, 1000)
    return folder


class Written(NamedTuple):
    """The lines of both files of a crawl."""

    truth: list[dict[str, str]]
    pages: list[bytes]


@pytest.fixture(scope="module")
def written(crawl: Path) -> Written:
    with (crawl / TRUTH_FILE).open(encoding="utf-8") as file:
        truth = list(csv.DictReader(file, dialect="excel-tab"))
    return Written(truth, (crawl / PAGES_FILE).read_bytes().splitlines())


def test_a_seed_gives_these_bytes_on_every_machine() -> None:
    digest = hashlib.sha256()
    for planted in Crawl().records(200):
        digest.update(planted.line + b"\n")
    assert digest.hexdigest() == "c332a2c4141263343cf0e8e33d48be697f67800de57248947671d1c0e70074bf"


def test_a_shorter_crawl_is_the_beginning_of_a_longer_one() -> None:
    assert list(Crawl().records(30)) == list(Crawl().records(90))[:30]


def test_another_seed_gives_other_pages() -> None:
    first, other = ({p.line for p in Crawl(seed).records(50)} for seed in (1, 2))
    assert not first & other


def test_truth_has_one_line_for_each_line_of_pages(written: Written) -> None:
    assert tuple(written.truth[0]) == COLUMNS
    assert [int(row["ordinal"]) for row in written.truth] == list(range(1000))
    assert len(written.pages) == 1000


def test_all_kinds_are_planted_about_as_often_as_stated(written: Written) -> None:
    counts = Counter(row["kind"] for row in written.truth)
    for kind in Kind:
        assert abs(counts[kind.value] - kind.per_mille) < 4 * math.sqrt(kind.per_mille), kind
        assert counts[kind.value], kind


def test_an_origin_is_an_earlier_page_with_that_url(written: Written) -> None:
    copies = [row for row in written.truth if row["origin"]]
    assert len(copies) > 300
    for row in copies:
        origin = written.truth[int(row["origin"])]
        assert int(row["origin"]) < int(row["ordinal"])
        assert origin["url"] == row["origin_url"]


def test_truth_has_the_exact_resemblance_of_the_written_pages(written: Written) -> None:
    shingler = TextShingler()

    def exact(ordinal: str) -> object:
        page = read_page(written.pages[int(ordinal)])
        return shingler.exact((page and page_text(page)) or "")

    for row in [row for row in written.truth if row["origin"]][::5]:
        found = resemblance(exact(row["ordinal"]), exact(row["origin"]))  # type: ignore[arg-type]
        assert float(row["resemblance"]) == pytest.approx(found, abs=1e-6), row


PLANTED = {
    **dict.fromkeys(EQUAL, (1.0, 1.0)),
    Kind.PRINT_VIEW: (0.3, 0.99), Kind.RECRAWL: (0.8, 0.99), Kind.REPLACED_01: (0.88, 0.99),
    Kind.REPLACED_02: (0.8, 0.98), Kind.REPLACED_05: (0.55, 0.92), Kind.REPLACED_20: (0.1, 0.8),
    Kind.INSERTED_02: (0.8, 0.98), Kind.DELETED_02: (0.8, 0.98), Kind.MOVED_20: (0.85, 1.0),
}  # fmt: skip


@pytest.mark.parametrize("kind", sorted(PLANTED))
def test_a_kind_of_copy_resembles_its_origin_as_planted(written: Written, kind: Kind) -> None:
    copies = [row for row in written.truth if row["kind"] == kind and row["origin"]]
    assert copies
    least, most = PLANTED[kind]
    assert all(least <= float(row["resemblance"]) <= most for row in copies)


def test_records_that_are_no_pages_cannot_be_read_as_text(written: Written) -> None:
    for row, line in zip(written.truth, written.pages, strict=True):
        page = read_page(line)
        readable = page is not None and page_text(page) is not None
        assert readable == (row["kind"] not in NO_PAGES), row


def test_memory_of_origins_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamer.analysis.sample.crawl.ORIGINS_MAX", 10)
    copies = [r.origin for r in Crawl().records(800) if r.origin and r.ordinal >= 400]
    late = [origin for origin in copies if not origin.is_bare]
    assert len(late) > 120
    assert len({origin.url for origin in late}) < 40


def test_a_folder_that_cannot_be_made_is_an_input_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="choose another folder"):
        write_crawl(tmp_path / "file", 1)


@pytest.mark.parametrize(
    "text", ["a\tb\n1\t2\n", "ordinal\tkind\nx\ty\n", "ordinal\tkind\n1\n\xff"]
)
def test_a_file_that_is_no_truth_file_is_an_input_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / "truth.tsv"
    path.write_text(text, encoding="latin-1")
    with pytest.raises(InputError, match="truth"):
        read_kinds(path)
