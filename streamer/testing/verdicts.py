"""Verdicts of a test beside those that it expects: what differs, page by page, and why."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import streamer

if TYPE_CHECKING:  # they import msgspec and numpy
    from streamer import DeadLetter, Verdict
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
        self.dead_letters = _read_dead_letters(folder / DEAD_LETTERS)


class GoldenVerdicts:
    """The fixture `streamer_golden`: compare verdicts with those in a file beside the test.

    `path` is the file without another name; with `update` it is written.
    """

    def __init__(self, path: Path, *, update: bool) -> None:
        self._path = path
        self._update = update

    def __call__(self, verdicts: Iterable[Verdict], name: str | None = None) -> None:
        """Compare with the file `name` next to the test, by default that of the test's own name.

        Raises:
            AssertionError: the verdicts differ, or there is no such file.
        """
        __tracebackhide__ = True
        path = self._path.with_name(name) if name else self._path
        got = verdicts if isinstance(verdicts, list) else list(verdicts)
        if self._update:
            _write(path, got)
        remedy = "`pytest --streamer-update-golden` writes it."
        if not path.exists():
            raise AssertionError(f"There is no golden file {path}. {remedy}")
        if difference := _difference(got, list(streamer.read_verdicts(path))):
            raise AssertionError(f"{difference}\nThe golden file is {path}. {remedy}")


def assert_same_verdicts(got: Iterable[Verdict], expected: Iterable[Verdict]) -> None:
    """Compare verdicts by their pages, in any order: a reader of verdicts upserts them.

    Raises:
        AssertionError: they differ; it tells of the first pages what was expected and what was
            given, and why, as `streamer explain` does: of a unique page from the index of the
            replay, so only where `got` is what `streamer_replay` returned.
    """
    __tracebackhide__ = True
    if difference := _difference(got if isinstance(got, list) else list(got), list(expected)):
        raise AssertionError(difference)


def check_same_files(killed: Path, quiet: Path) -> None:
    """Compare the bytes of a replay that was killed with those of one that was left in peace.

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
    mine, theirs = _by_page(got), _by_page(expected)
    all_pages = {**theirs, **mine}
    pages = [page for page in all_pages if mine.get(page) != theirs.get(page)]
    if not pages:
        return ""
    lines = [f"The verdicts on {len(pages)} of {len(all_pages)} pages differ."]
    for page in pages[:SHOWN]:
        lines += ["", *_of_page(mine.get(page, []), theirs.get(page, []), got)]
    lines += ["", f"... and {len(pages) - SHOWN} more."] if len(pages) > SHOWN else []
    return "\n".join(lines)


def _by_page(verdicts: list[Verdict]) -> dict[Location, list[Verdict]]:
    """Return the different verdicts on each page; a page has one, or something is wrong."""
    found: dict[Location, list[Verdict]] = {}
    for verdict in verdicts:
        on_page = found.setdefault(verdict.page, [])
        on_page += [verdict] if verdict not in on_page else []
    return found


def _of_page(got: list[Verdict], expected: list[Verdict], all_got: list[Verdict]) -> list[str]:
    """Return the lines about one page."""
    one = (expected or got)[0]
    said = [" and ".join(map(_said, each)) or "no verdict" for each in (expected, got)]
    lines = [f"{_name(one.page)} {one.url}", f"  expected: {said[0]}", f"  got:      {said[1]}"]
    if said[0] == said[1]:
        for field in one.__struct_fields__:
            wanted, own = getattr(expected[0], field), getattr(got[0], field)
            lines += [f"  {field}: expected {wanted!r}, got {own!r}"] if own != wanted else []
    reason = _reason(one.page, got, all_got)
    return [*lines, f"  {reason}"] if reason else lines


def _said(verdict: Verdict) -> str:
    """Return the decision of a verdict in a few words."""
    if (other := verdict.representative) is None:
        near = verdict.nearest or None
        most = f", nearest to {_name(near.page)} {near.url} by {near.similarity}" if near else ""
        if inside := verdict.contained_in or None:
            most += f", {inside.containment} of it in {_name(inside.page)} {inside.url}"
        return f"{verdict.verdict} ({verdict.basis}{most})"
    what = f"{verdict.verdict} of {_name(other.page)} {other.url}"
    if worse := verdict.supersedes or None:
        what += f", supersedes {_name(worse.page)} {worse.url}"
    return f"{what} ({verdict.basis}, similarity {verdict.similarity})"


def _reason(page: Location, got: list[Verdict], all_got: list[Verdict]) -> str:
    """Return why a page was judged so, or was not; "" where nobody knows."""
    from streamer.run.explanation import KeptIndex, why_duplicate  # noqa: PLC0415 - imports numba

    if got and got[0].is_duplicate:
        return why_duplicate(got[0].basis)
    if not isinstance(all_got, ReplayVerdicts):
        return ""
    if not got:
        codes = [each.code for each in all_got.dead_letters if each.page == page]
        return f"It is a dead letter: {codes[0]}." if codes else ""
    try:
        with closing(KeptIndex(all_got.index_folder)) as kept:
            explained = kept.explain_kept(kept.find(_name(page)))
    except streamer.StreamerError:
        return ""  # as of a page that the index has forgotten
    if (near := explained.nearest) is None:
        return explained.why
    threshold = explained.settings.threshold
    return f"{explained.why} {near.page.url}: {near.similarity:.4f}, threshold {threshold:g}."


def _name(page: Location) -> str:
    from streamer.run.explanation import place_name  # noqa: PLC0415 - imports numba

    return place_name(page)


def _read_dead_letters(path: Path) -> list[DeadLetter]:
    import msgspec  # noqa: PLC0415 - nothing but pytest is imported with the plugin

    decode = msgspec.json.Decoder(streamer.DeadLetter).decode
    return [decode(line) for line in path.read_bytes().splitlines()]


def _write(path: Path, verdicts: list[Verdict]) -> None:
    """Write verdicts as JSON lines, in the bytes of a replay."""
    import msgspec  # noqa: PLC0415 - as above

    path.write_bytes(b"".join(msgspec.json.encode(verdict) + b"\n" for verdict in verdicts))
