"""Streamer as a stream of verdicts: the command `replay` under a key drawn from the seed."""

from __future__ import annotations

import io
import tempfile
import time
from contextlib import redirect_stdout
from pathlib import Path
from random import Random

from streamer.cli.replay import replay
from streamer.run.warm import warm_kernels
from streamer.sketch.settings import SECRET_BYTES


class StreamerStream:
    """Judge pages by the default settings."""

    def __init__(self) -> None:
        warm_kernels()  # else the first judgement would be timed with their compilation

    def judge(self, pages: Path, verdicts: Path, threshold: float, seed: int) -> float:
        """Write the verdicts of a file of pages; return the seconds from JSON lines to verdicts."""
        with tempfile.TemporaryDirectory() as scratch, redirect_stdout(io.StringIO()):
            key_file = Path(scratch) / "key"
            key_file.write_text(Random(seed).randbytes(SECRET_BYTES).hex(), encoding="ascii")
            begin = time.perf_counter()
            replay([str(pages)], verdicts=str(verdicts), threshold=threshold, key_file=key_file)
            return time.perf_counter() - begin
