"""Replays for tests: each is a process of its own, with a new index and a key that never changes.

Their verdicts are put next to those that a test expects: what differs, page by page.

The key and the settings are all that verdicts depend on besides the pages. So a replay reads no
settings from the environment, and names a file as seen from its own folder: the same pages get the
same bytes on each machine.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import streamer

if TYPE_CHECKING:  # they import msgspec and numpy
    from streamer import AnyPage, Verdict
    from streamer.model import Location

SHOWN = 5  # differences, of as many as there are
VERDICTS, DEAD_LETTERS, INDEX = "verdicts.jsonl", "dead_letters.jsonl", "index"

KEY = b"streamer.testing".hex() * 2
"""The secret of all hashes in a test, as a key file has it."""

_CACHE = "STREAMER_CACHE_DIR"  # the one variable that is no setting of a replay


class KillMarker(Enum):
    """What is between two pages where the replay is to be killed."""

    KILL = "KILL"


KILL = KillMarker.KILL
Pages = list["AnyPage | bytes | KillMarker"]
"""Pages as `Deduplicator.add` takes them, records as bytes, and kill markers, in their order."""


class Replayer:
    """The fixture `streamer_replay`: judge pages with a new index, and return the verdicts."""

    def __init__(self, new_folder: Callable[[], Path]) -> None:
        self._new_folder = new_folder

    def __call__(
        self,
        pages: str | os.PathLike[str] | Iterable[AnyPage | bytes | KillMarker] | None = None,
        *,
        topic: str | None = None,
        order_of: str | None = None,
        **options: Any,
    ) -> ReplayVerdicts:
        """Judge a file, a folder of files, a list of pages, or a topic of the `brokers`.

        With `order_of`, an index's name, verdicts are those of its worker, whose `key_file` is to
        be given. Options are settings by their names, as `threshold=0.9`; paths among them are
        `Path`, or absolute.

        With KILL among the pages, they are judged twice: once without a kill, and once by a process
        that is killed at each marker and started again.

        Raises:
            AssertionError: the replay failed, with what it printed; or a kill changed a byte.
            TypeError: pages and a topic are given, or none of them.
        """
        __tracebackhide__ = True
        if (pages is None) == (topic is None):
            raise TypeError("Give pages or topic=, one of the two.")
        folder, where, kills = self._new_folder(), None, []
        if topic is not None:
            source = ["--from-topic", topic, *(["--order-of", order_of] if order_of else [])]
        elif isinstance(pages, str | os.PathLike):
            path = Path(pages).absolute()
            source, where = ["--complete", path.name], path.parent
        else:
            kills = _write_pages(folder / "pages.jsonl", pages or ())
            source = ["--complete", "pages.jsonl"]
        quiet, killed = folder / "quiet", folder / "killed"
        _prepare(quiet, options)
        _run(quiet, source, where or folder)
        if kills:
            _prepare(killed, {"head_pages": 1, **options})
            for at in (*kills, None):
                _run(killed, source, folder, at)
            check_same_files(killed, quiet)
        return ReplayVerdicts(quiet)


def _run(own: Path, source: Sequence[str], where: Path, kill_at: int | None = None) -> None:
    """Run a replay in `where`, with all that it writes in its `own` folder."""
    __tracebackhide__ = True
    environment = {  # without settings of the replay
        name: value
        for name, value in os.environ.items()
        if name == _CACHE or not name.upper().startswith("STREAMER_")
    }
    program = ["streamer"] if kill_at is None else ["streamer.testing.child", str(kill_at)]
    done = run_module(
        [
            *program, "replay", *source,
            "--config", str(own / "settings.toml"), "--index", str(own / INDEX),
            "--verdicts", str(own / VERDICTS), "--dead-letters", str(own / DEAD_LETTERS),
        ],
        cwd=where, environment=environment,
    )  # fmt: skip
    expected = 0 if kill_at is None else -signal.SIGKILL
    if done.returncode != expected:
        said = f"The replay ended with exit code {done.returncode}, not {expected}"
        raise AssertionError(f"{said}:\n{done.stdout}{done.stderr}")
    sys.stdout.write(done.stdout + done.stderr)


def run_module(
    command: Sequence[str], *, cwd: Path, environment: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run a module with arguments in a process of its own; return what it printed."""
    # -P: a folder of tests may have modules of any name.
    return subprocess.run(
        [sys.executable, "-P", "-m", *command], cwd=cwd, env=environment,
        stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", check=False,
    )  # fmt: skip


def _prepare(folder: Path, options: Mapping[str, Any]) -> None:
    """Write the settings of a replay, and the key of its index."""
    key = folder / INDEX / "secret.key"
    key.parent.mkdir(parents=True)
    key.touch(0o600)
    key.write_text(Path(options["key_file"]).read_text() if "key_file" in options else KEY)
    lines = [f"{k} = {_toml(v)}\n" for k, v in options.items() if k != "key_file"]
    (folder / "settings.toml").write_text("".join(lines), encoding="utf-8")


def _toml(value: object) -> str:
    """Return a setting's value as TOML has it, which is JSON for strings, numbers and lists."""
    return json.dumps(value, ensure_ascii=False, default=lambda path: str(path.absolute()))


def _write_pages(path: Path, pages: Iterable[AnyPage | bytes | KillMarker]) -> list[int]:
    """Write pages as JSON lines; return at which records the replay is to be killed."""
    from streamer.pages.program_pages import MessageWriter  # noqa: PLC0415 - imports numpy

    writer = MessageWriter()
    kills, count = [], 0
    with path.open("wb") as file:
        for page in pages:
            if isinstance(page, KillMarker):
                kills.append(count)
                continue
            record = page if isinstance(page, bytes) else writer.message(page)
            if b"\n" in record:
                raise TypeError(f"A record is one line, without its end: {record[:80]!r}")
            file.write(record + b"\n")
            count += 1
    return kills


# ---- verdicts ------------------------------------------------------------------------------------


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
