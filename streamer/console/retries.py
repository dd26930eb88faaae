"""Dead letters that a person chooses to have judged again, one or all of a code.

The console judges nothing: what a record needs is most often another mapping, which a run has, and
only one process may write to an index. So for files the chosen dead letters are appended to a file,
and `streamer replay` judges that with the index and the verdicts that it has. A dead letter is
appended once, and a replay judges each line of a file once, also when the file has grown. What
fails again becomes a dead letter of that file, so nothing goes round in circles. Dead letters of
workers are sent again.
"""

from __future__ import annotations

import asyncio
import shlex
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Protocol

import msgspec

from streamer.console.inputs import CutOff, has_letters, lines_in
from streamer.console.view import QueryTooLong
from streamer.errors import InputError, SettingsError, StoreUnavailable
from streamer.kafka.connection import Connection
from streamer.model import DeadLetter, Location
from streamer.pages.files import CDX, format_by_name, is_of_messages
from streamer.run.appending import appending
from streamer.run.explanation import place_name

_decode = msgspec.json.Decoder(DeadLetter).decode
SUFFIX = ".dead.jsonl"  # by which a replay knows dead letters


class RetriedLetters(msgspec.Struct, frozen=True):
    """What became of dead letters that were chosen.

    Attributes:
        sent: those that will be judged again.
        before: those that were chosen before.
        cut: those that do not have all of their record, which stay dead letters.
        too_often: those that were sent as often as is allowed.
    """

    sent: int = 0
    before: int = 0
    cut: int = 0
    too_often: int = 0


class RetryState(msgspec.Struct, frozen=True):
    """What is to be judged again so far.

    Attributes:
        target: the file that dead letters are added to, or the topic that they are sent to.
        chosen: how many these are.
        command: what judges them; '' where workers do.
    """

    target: str
    chosen: int
    command: str


class Retries(Protocol):
    """Where chosen dead letters go."""

    @property
    def state(self) -> RetryState:
        """Return what was chosen so far."""
        ...

    def choose(self, code: str, place: str, seconds: float) -> RetriedLetters:
        """Have the dead letters of a code judged again, or with `place` the one there.

        Raises:
            QueryTooLong: it takes longer than that.
            StreamerError: they cannot be read or written.
        """
        ...


class FileRetries:
    """Appends chosen dead letters of files to another one.

    Raises:
        SettingsError: `out` is not named as dead letters are.
        InputError: `out` has something else.
    """

    def __init__(self, out: Path, files: Sequence[Path], index: Path | None) -> None:
        self._out, self._index = out, index
        self._files = [path for path in files if path.resolve() != out.resolve()]
        if not out.name.endswith(SUFFIX):
            raise SettingsError(
                f"--retry-file {out} must end in {SUFFIX}, by which a replay knows dead letters."
            )
        self._seen = (0, 0)  # size and time of `out` as it was read
        self._whole, self._places = 0, set[str]()  # bytes of whole lines, and what these are of
        self._read()

    @property
    def state(self) -> RetryState:
        """Return what is chosen, and the command that judges it.

        Raises:
            StoreUnavailable: the file cannot be read now.
        """
        with unusable_now():
            self._read()
        verdicts = [path for path in self._files if path.exists() and not has_letters(path)]
        given = {
            "--index": self._index or "INDEX",
            "--verdicts": verdicts[0] if len(verdicts) == 1 else "VERDICTS",
            "--dead-letters": self._out.with_name(f"again.{self._out.name}"),
        }
        options = [part for name, value in given.items() for part in (name, str(value))]
        command = shlex.join(["streamer", "replay", str(self._out), *options])
        return RetryState(str(self._out), len(self._places), command)

    def choose(self, code: str, place: str, seconds: float) -> RetriedLetters:
        """Append the dead letters of a code, or with `place` the one there.

        Raises:
            QueryTooLong: reading all dead letters takes longer; nothing is appended then.
            InputError: a file cannot be read or written.
        """
        self._read()
        deadline, before, cut = time.monotonic() + seconds, 0, 0
        lengths: dict[str, int] = {}  # of the lines that are chosen, by place
        with tempfile.TemporaryFile() as chosen:
            for letter in self._found(code, place, deadline):
                at = place_name(letter.page)
                if at in self._places or at in lengths:
                    before += 1
                elif letter.truncated or not _is_whole(letter):
                    cut += 1
                else:
                    lengths[at] = chosen.write(msgspec.json.encode(letter) + b"\n")
            chosen.seek(0)
            sent = self._append(chosen, lengths)
        return RetriedLetters(sent, before + len(lengths) - sent, cut)

    def _read(self) -> None:
        """Read the places of what is chosen, unless the file is as it was.

        An end that is not whole does not count: it is being written, or a kill has cut it short.
        """
        found = self._out.stat() if self._out.is_file() else None
        seen = (found.st_size, found.st_mtime_ns) if found else (0, 0)
        if seen == self._seen:
            return
        whole, places = 0, set[str]()
        for line, letter in _letters_in(self._out) if found else ():
            if not line.endswith(b"\n"):
                break
            whole += len(line)
            places |= {place_name(letter.page)} if letter else set()
        self._seen, self._whole, self._places = seen, whole, places

    def _found(self, code: str, place: str, deadline: float) -> Iterator[DeadLetter]:
        for path in filter(has_letters, self._files):
            for _, letter in _letters_in(path):
                if time.monotonic() > deadline:
                    raise QueryTooLong
                if letter and letter.code == code and place in {"", place_name(letter.page)}:
                    yield letter
                    if place:
                        return

    def _append(self, chosen: BinaryIO, lengths: Mapping[str, int]) -> int:
        """Append the lines of places that are not there yet, and return how many these are.

        Another console may have chosen the same; so what is there is read when nobody else writes.
        """
        sent = 0
        try:
            with appending(self._out) as file:
                self._read()
                file.cut(self._whole)
                for at, length in lengths.items():
                    line = chosen.read(length)
                    if at not in self._places:
                        file.write(line)
                        sent += 1
        except OSError as error:
            raise InputError(
                f"{self._out}: {error.strerror or error}; free space or give another --retry-file"
            ) from error
        return sent


@contextmanager
def unusable_now() -> Iterator[None]:
    """Say of a file that it cannot be used now, which is no fault of a query or form.

    Raises:
        StoreUnavailable: in place of InputError.
    """
    try:
        yield
    except InputError as error:
        raise StoreUnavailable(f"{error}.") from error


def _letters_in(path: Path) -> Iterator[tuple[bytes, DeadLetter | None]]:
    """Yield the whole lines of a file with their dead letters, None for a blank line.

    Raises:
        InputError: the file cannot be read, or a line is no dead letter.
    """
    number = 0
    try:
        with suppress(CutOff):  # a run is writing it
            for line in lines_in(path, 0):
                number += 1
                yield line, _decode(line) if line.strip() else None
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}; check the path") from error
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"{path}:{number}: not a dead letter ({error}); mend the line") from error


def _is_whole(letter: DeadLetter) -> bool:
    """Return whether a dead letter has all that is needed to judge its record."""
    source = letter.page.topic
    return is_of_messages(source) and format_by_name(source) is not CDX


class TopicRetries:
    """Sends chosen dead letters of workers to the topic of pages again, as `dead-letters retry`.

    What was sent since the start is not sent again; a record that fails again is sent three times
    at most.
    """

    def __init__(self, connection: Connection, topic: str, index_name: str) -> None:
        self._connection, self._topic, self._index_name = connection, topic, index_name
        self._sent: set[Location] = set()

    @property
    def state(self) -> RetryState:
        """Return how many were sent."""
        return RetryState(self._topic.removesuffix("-dlt"), len(self._sent), "")

    def choose(self, code: str, place: str, seconds: float) -> RetriedLetters:
        """Send the dead letters of a code, or with `place` the one of the message there.

        Raises:
            QueryTooLong: it takes longer; what has arrived is not sent again.
            StreamerError: the brokers cannot be reached, or refuse.
        """
        from streamer.kafka.retry import Which, send_again  # noqa: PLC0415 - Kafka's client
        from streamer.kafka.topic_input import parse_wanted  # noqa: PLC0415 - as above

        one = _location(place) if place else None
        which = Which(frozenset({code}), self._index_name, place=one, sent=self._sent)
        sending = send_again(
            self._connection, self._topic, parse_wanted(None, None, None), which, dry_run=False
        )
        try:
            done = asyncio.run(asyncio.wait_for(sending, seconds))
        except TimeoutError as error:
            raise QueryTooLong from error
        return RetriedLetters(done.sent, done.before, done.cut, done.too_often)


def _location(place: str) -> Location:
    """Return a place of a topic, which is written as SOURCE:NUMBER or SOURCE/PARTITION:NUMBER."""
    source, _, offset = place.rpartition(":")
    topic, slash, partition = source.rpartition("/")  # a topic's name has no slash
    try:
        return Location(topic if slash else source, int(partition) if slash else 0, int(offset))
    except ValueError as error:
        raise InputError(f"{place} is no place of a topic.") from error
