"""Verdicts of a test next to those that it expects: what differs, page by page."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import streamer

if TYPE_CHECKING:  # they import msgspec and numpy
    from streamer import Verdict
    from streamer.model import Location

SHOWN = 5  # differences, of as many as there are
VERDICTS, DEAD_LETTERS, INDEX = "verdicts.jsonl", "dead_letters.jsonl", "index"


class ReplayVerdicts(list["Verdict"]):
    """The verdicts of a replay, in their order.

    Attributes:
        dead_letters: the records that could not be judged.
        index_folder: the index, for `streamer explain` and others; it has the key.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(streamer.read_verdicts(folder / VERDICTS))
        self.index_folder = folder / INDEX
        import msgspec  # noqa: PLC0415 - nothing but pytest is imported with the plugin

        decode = msgspec.json.Decoder(streamer.DeadLetter).decode
        lines = (folder / DEAD_LETTERS).read_bytes().splitlines()
        self.dead_letters = [decode(line) for line in lines]


class GoldenVerdicts:
    """The fixture `streamer_golden`: compare verdicts with those in a file next to the test.

    `path` is the file without another name; with `update` it is written.
    """

    def __init__(self, path: Path, *, update: bool) -> None:
        self._path, self._update = path, update

    def __call__(self, verdicts: Iterable[Verdict], name: str | None = None) -> None:
        """Compare with the file `name` next to the test, by default that of the test's own name.

        Raises:
            AssertionError: the verdicts differ, or there is no such file.
        """
        __tracebackhide__ = True
        path = self._path.with_name(name) if name else self._path
        got = list(verdicts)
        if self._update:
            path.write_text("".join(f"{_line(verdict)}\n" for verdict in got), encoding="utf-8")
        remedy = "`pytest --streamer-update-golden` writes it."
        if not path.exists():
            raise AssertionError(f"There is no golden file {path}. {remedy}")
        if difference := _difference(got, list(streamer.read_verdicts(path))):
            raise AssertionError(f"{difference}\nThe golden file is {path}. {remedy}")


def assert_same_verdicts(got: Iterable[Verdict], expected: Iterable[Verdict]) -> None:
    """Compare verdicts by their pages, in any order: a reader of verdicts upserts them.

    Raises:
        AssertionError: they differ; it shows the first pages with what was expected and given.
    """
    __tracebackhide__ = True
    if difference := _difference(list(got), list(expected)):
        raise AssertionError(difference)


def check_same_files(killed: Path, quiet: Path) -> None:
    """Compare the bytes of a replay that was killed with those of one that was not.

    Raises:
        AssertionError: they differ.
    """
    __tracebackhide__ = True
    for name in (VERDICTS, DEAD_LETTERS):
        if (killed / name).read_bytes() != (quiet / name).read_bytes():
            found, expected = ReplayVerdicts(killed), ReplayVerdicts(quiet)
            said = _difference(found, expected) or f"{name} has other bytes."
            raise AssertionError(f"Replays that were killed and resumed give others:\n{said}")


def _difference(got: list[Verdict], expected: list[Verdict]) -> str:
    """Return what differs as lines of text; "" where nothing does."""
    mine, theirs = _group_by_page(got), _group_by_page(expected)
    all_pages = {**theirs, **mine}
    pages = [page for page in all_pages if mine.get(page) != theirs.get(page)]
    if not pages:
        return ""
    lines = [f"The verdicts on {len(pages)} of {len(all_pages)} pages differ."]
    for page in pages[:SHOWN]:
        shown = [" and ".join(each.get(page, ["no verdict"])) for each in (theirs, mine)]
        lines += ["", f"expected: {shown[0]}", f"got:      {shown[1]}"]
    lines += ["", f"... and {len(pages) - SHOWN} more."] if len(pages) > SHOWN else []
    return "\n".join(lines)


def _group_by_page(verdicts: list[Verdict]) -> dict[Location, list[str]]:
    """Return the different verdicts on each page as lines; a page has one, or that is an error."""
    found: dict[Location, list[str]] = {}
    for verdict in verdicts:
        on_page, line = found.setdefault(verdict.page, []), _line(verdict)
        on_page += [line] if line not in on_page else []
    return found


def _line(verdict: Verdict) -> str:
    """Return a verdict in the bytes of a replay."""
    import msgspec  # noqa: PLC0415 - as above

    return msgspec.json.encode(verdict).decode()
