"""A small crawl, folded: what the tests of answers and of the server look at."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from streamer.console.answers import ConsoleData
from streamer.console.fold import Fold
from streamer.console.index import PageTexts
from streamer.console.view import VerdictView
from streamer.model import DeadLetter, NearestKept, Verdict
from streamer.run.reading import PageReader
from tests.helpers.verdict_lines import duplicate, letter, place, unique, url_of, written

LINES: tuple[Verdict | DeadLetter, ...] = (
    unique(0),
    unique(
        1, nearest=NearestKept(place(0), url_of(0), similarity=0.7412), nearest_min=0.65,
    ),
    *(duplicate(n, of=0, similarity=round(0.8 + n / 100, 2)) for n in range(2, 17)),
    duplicate(17, of=1, similarity=0.95),
    unique(
        18, url_of(0), text="main", change="replaced", change_similarity=0.5,
        nearest=None, nearest_min=0.65,
    ),
    *(letter(n) for n in range(20, 24)),
    letter(24, "invalid_json", b"\xff<script>alert(1)</script>"),
)  # fmt: skip


@contextmanager
def folded(folder: Path, *lines: Verdict | DeadLetter) -> Iterator[ConsoleData]:
    view = VerdictView(folder / "view")
    fold = Fold(view, [written(folder / "v.jsonl", *lines)])
    fold.go_on()
    yield ConsoleData(view, seconds=5, fold=fold.state)
    fold.close()
    view.close()


def texts_of(path: Path, *pages: Mapping[str, str]) -> PageTexts:
    """Write pages to a file; return what reads their texts."""
    path.write_bytes(msgspec.json.Encoder().encode_lines(pages))
    reader = PageReader()
    return PageTexts(reader, reader.open([str(path)]))


@pytest.fixture
def data(tmp_path: Path) -> Iterator[ConsoleData]:
    with folded(tmp_path, *LINES) as found:
        yield found
