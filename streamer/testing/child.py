"""A replay that SIGKILL ends at a record: `python -m streamer.testing.child RECORD replay ...`.

RECORD is counted from 0. All earlier records have been judged and written by then, and flushed if
that was due. Where there is no such record, the process ends before the last flush.
"""

import os
import signal
import sys
from collections.abc import Sequence
from unittest import mock

from streamer.cli.main import run
from streamer.run.engine import Prepared
from streamer.run.replay import Replay
from streamer.run.small_files import Parsed


def _die_at(record: int) -> None:
    """Kill this process before it judges a record; records are judged one at a time."""
    judge, flush = Replay._judge_chunk, Replay._flush

    def die(replay: Replay) -> None:
        replay._see_written(0)
        replay._judge.finish()
        os.kill(os.getpid(), signal.SIGKILL)

    def judge_or_die(replay: Replay, prepared: Prepared, parsed: Sequence[Parsed]) -> None:
        if record < prepared.chunk.end:
            die(replay)
        judge(replay, prepared, parsed)

    def flush_or_die(replay: Replay, *, sweep: bool = False) -> None:
        if sweep:  # at the end of a run
            die(replay)
        flush(replay)

    mock.patch("streamer.pages.chunk.CHUNK_RECORDS_MAX", 1).start()
    mock.patch("streamer.pages.lines.SMALL_RECORDS_MAX", 0).start()  # else they are one chunk
    mock.patch.multiple(Replay, _judge_chunk=judge_or_die, _flush=flush_or_die).start()


def main() -> None:
    """Run the command line; end this process at the record that the first argument is."""
    _die_at(int(sys.argv.pop(1)))
    run()


if __name__ == "__main__":
    main()
