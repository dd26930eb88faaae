"""A process that forks one off for each replay of a test: modules and kernels are loaded once.

A request is a line of JSON on standard input, with the arguments of `_replay` by their names. The
answer on standard output is the exit code, negative for a signal.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Sequence
from unittest import mock

from streamer.cli import replay as _  # noqa: F401 - what a fork needs is imported before it
from streamer.cli.main import run
from streamer.pages.chunk import Chunk
from streamer.pages.parse import PageParser
from streamer.run.replay import Prepared, Replay
from streamer.run.stages import sign
from streamer.run.warm import compile_kernels
from streamer.sketch.method_signer import make_signer
from streamer.sketch.settings import SignatureSettings


def main() -> None:
    """Answer requests until there are no more."""
    compile_kernels()
    _load_kernels()
    for line in sys.stdin:
        if not (child := os.fork()):
            _replay(**json.loads(line))
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        sys.stdout.write(f"{code}\n")
        sys.stdout.flush()


def _load_kernels() -> None:
    """Load most kernels, without a store: its threads would not be there in a fork."""
    message = b'{"url": "u", "body": "<p>a b c d e f g"}'
    page = PageParser().parse(Chunk(0, 1, messages=[(0, None, message)]))
    sign(make_signer(SignatureSettings(), bytes(32)), 0, page)


def _replay(
    *, arguments: Sequence[str], folder: str, output: str, cut: int, kill_at: int | None
) -> None:
    """Run a replay in a folder, with what it prints in a file; end the process.

    With `cut`, so many records are judged at a time. With `kill_at`, SIGKILL ends the process
    before that record, counted from 0, or before the last flush where there is none.
    """
    os.chdir(folder)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND), 1)
    os.dup2(1, 2)
    sys.argv = ["streamer", "replay", *arguments]
    if cut:
        mock.patch("streamer.pages.lines.CHUNK_RECORDS_MAX", cut).start()
        mock.patch("streamer.pages.lines.SMALL_RECORDS_MAX", 0).start()  # else they are one chunk
    if kill_at is not None:
        _die_at(kill_at)
    run()


def _die_at(record: int) -> None:
    """Have this process killed once all before a record is written, and flushed if that is due."""
    judge, flush = Replay._judge_new, Replay._flush

    def die(replay: Replay) -> None:
        replay._see_written(0)
        replay._judge.finish()
        os.kill(os.getpid(), signal.SIGKILL)

    def judge_or_die(replay: Replay, chunk: Chunk, prepared: Prepared) -> None:
        if record < chunk.end:
            die(replay)
        judge(replay, chunk, prepared)

    def flush_or_die(replay: Replay, *, sweep: bool = False) -> None:
        if sweep:  # at the end of a run
            die(replay)
        flush(replay)

    mock.patch.multiple(Replay, _judge_new=judge_or_die, _flush=flush_or_die).start()
