"""The fold in a process of its own: it computes all the time, and answers wait for no interpreter.

The process gets its task as a line of JSON on its standard input, and ends when that does: with the
console, also where that is killed. So it ends at any moment; the batch in hand is undone. On its
standard output it reports how far it is, a line for each change. It gives way to runs and workers
on the same machine. One that ended all by itself, for want of memory, say, is started again.
"""

# In a thread of a lower priority the fold held the interpreter's lock while it had no core, and
# checks waited: p99 104 ms next to a worker at half load, 16 ms now.

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from streamer.console.fold import Fold, FoldState
from streamer.console.view import VerdictView
from streamer.errors import StreamerError

if TYPE_CHECKING:
    from streamer.kafka.connection import Connection
    from streamer.kafka.topics import Names

_NICE = 10  # a tenth of what a worker has: under load, the view lags behind
_LOCK = "fold.lock"
_TELL_SECONDS = 0.1
_AGAIN_SECONDS = 1.0  # until a fold that has ended is started again
_log = logging.getLogger("streamer")


class FoldTask(msgspec.Struct, frozen=True):
    """What is folded into the view in `folder`: files; or, with a connection, an index's topics.

    `connection` has the fields of a `Connection`, and `topics` those of `Names`.
    """

    folder: str
    files: Sequence[str] = ()
    connection: Mapping[str, str | None] = {}
    topics: Mapping[str, str | bool] = {}

    @classmethod
    def of_topics(cls, folder: Path, connection: Connection, names: Names) -> FoldTask:
        """Return the task of folding the topics of an index."""
        given = {name: value and str(value) for name, value in asdict(connection).items()}
        return cls(str(folder), (), given, asdict(names))

    def fold(self, view: VerdictView) -> Fold:
        """Return the fold of this task.

        Raises:
            StoreUnavailable: the view cannot be opened.
        """
        if not self.connection:
            return Fold(view, [*map(Path, self.files)])
        # Without these, a fold of files begins with 26 MB instead of 151.
        from streamer.console.topic_fold import TopicFold  # noqa: PLC0415
        from streamer.kafka.connection import Connection  # noqa: PLC0415
        from streamer.kafka.topics import Names  # noqa: PLC0415

        connection = Connection(**self.connection)  # type: ignore[arg-type]  # its own fields
        return TopicFold(view, connection, Names(**self.topics))  # type: ignore[arg-type]  # as above


class FoldProcess:
    """Runs the fold of a view in another process, until `close`.

    That process gets little time on a busy machine, so nothing waits for its start.

    Attributes:
        state: what the fold has reported last.
        process: where it runs.
    """

    def __init__(self, task: FoldTask) -> None:
        self.state = FoldState(lags=[] if task.connection else None)  # as of a fold that begins
        self._task = msgspec.json.encode(task) + b"\n"
        self._ends = threading.Event()
        self.process: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._run, name="fold")
        self._thread.start()

    def close(self) -> None:
        """End the fold."""
        self._ends.set()
        if self.process:
            self.process.kill()
        self._thread.join()

    def _run(self) -> None:
        """Start the fold, and start it again where it has ended by itself."""
        while not self._ends.is_set():
            code = self._fold()
            if not self._ends.is_set():
                said = self.state.refused or (
                    f"The fold has ended (exit code {code}), and is started again. If it goes on "
                    "like this, see whether the machine has memory for it."
                )
                self.state = msgspec.structs.replace(self.state, trouble=said)
                _log.error("%s", said)
            self._ends.wait(_AGAIN_SECONDS)

    def _fold(self) -> int:
        """Run the fold, note what it reports, and return its exit code."""
        process = self.process = subprocess.Popen(  # noqa: S603 - this program itself
            [sys.executable, "-m", __name__], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            start_new_session=True,  # what a terminal sends is for the console alone
        )  # fmt: skip
        # Where it was killed, nobody reads the task, and the last line may be cut off.
        with suppress(BrokenPipeError, msgspec.DecodeError), process:
            assert process.stdin
            assert process.stdout
            if self._ends.is_set():  # since before there was something to end
                process.kill()
            process.stdin.write(self._task)
            process.stdin.flush()
            for line in process.stdout:
                self.state = msgspec.json.decode(line, type=FoldState)
        return process.returncode


# ---- in the other process ------------------------------------------------------------------------


def main() -> None:
    """Fold what the first line asks for, until the end of standard input."""
    # Take a core only where runs, workers and answers leave one.
    os.nice(_NICE)
    with suppress(OSError):  # Linux shares cores between sessions first, if it is set to
        Path("/proc/self/autogroup").write_text(str(_NICE), "ascii")
    # What fails is raised, and reported in the state; of a topic that was deleted the client writes
    # lines without end, and the fold would wait for whoever reads them.
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    task = msgspec.json.decode(sys.stdin.buffer.readline(), type=FoldTask)
    try:
        fold = task.fold(VerdictView(Path(task.folder), _LOCK))
    except StreamerError as error:
        _say(FoldState(refused=str(error)))
        sys.exit(1)
    threading.Thread(target=_end_with_input, daemon=True).start()
    threading.Thread(target=_tell, args=(fold,), daemon=True).start()
    fold.run()


def _end_with_input() -> None:
    sys.stdin.buffer.read()
    os._exit(0)


def _tell(fold: Fold) -> None:
    """Say how far the fold is, when it is another state."""
    before = None
    while True:
        state = fold.state()
        if state != before:
            _say(state)
        before = state
        time.sleep(_TELL_SECONDS)


def _say(state: FoldState) -> None:
    with suppress(BrokenPipeError):  # the console was killed
        sys.stdout.buffer.write(msgspec.json.encode(state) + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
