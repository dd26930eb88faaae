"""The product's own stages in one process, as a replay and a worker drive them, for campaigns."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

import numpy as np

from streamer.errors import StreamerError
from streamer.index.messages import IndexSettings
from streamer.model import SIMILARITY_ONE
from streamer.pages.chunk import Chunk, Ending, PageBatch
from streamer.pages.files import Source
from streamer.pages.mapping import FieldMapping
from streamer.pages.parse import PageParser
from streamer.run.index_folder import IndexFolder
from streamer.run.judge import replay_judge
from streamer.run.stages import sign
from streamer.sketch.settings import SignatureSettings
from streamer.sketch.signer import NativeSigner
from streamer.text.visible import ESCAPED
from tests.helpers.chunks import all_chunks

ROOT = Path(__file__).parents[2]
MAPPING = FieldMapping.model_validate(
    {"content_encoding": "/content_encoding", "status": "/status", "base64": "try"}
)
SETTINGS = SignatureSettings()
THRESHOLD = IndexSettings().threshold


class Said(NamedTuple):
    """What a verdict says of a page: `similarity` is None for a unique one."""

    similarity: float | None
    representative: int | None


def check_batch(batch: PageBatch, records: int) -> None:
    """Check that each of the records is in exactly one place, and what later stages rely on.

    Raises:
        AssertionError: it is not so.
    """
    dead = [letter.sequence for letter in batch.dead]
    placed = sorted(batch.sequences + dead)
    assert placed == sorted(set(placed)), placed
    assert all(batch.start <= sequence < batch.end for sequence in placed), placed
    assert len(placed) + batch.skipped.total() == records, (len(placed), batch.skipped, records)
    assert dead == sorted(dead), dead
    columns = (batch.message_keys, batch.urls, batch.bodies, batch.flags, batch.carried)
    assert {len(column) for column in columns} == {len(batch)}, columns
    for url, body, flags, carried in zip(*columns[1:], strict=True):
        assert url.decode(), url
        assert b"\n" not in url, url
        if flags & ESCAPED:
            json.loads(b'"' + bytes(body).decode(errors="replace").encode() + b'"')
        else:
            # What a source gives for UTF-8 need not be: the kernels take any bytes.
            assert bytes(body).decode(errors="replace").strip(" \t\r\n\f\v"), bytes(body)
        assert carried == b"" or isinstance(json.loads(carried), dict), carried


class Judge:
    """An index of its own under one secret; pages are numbered in the order in which they come."""

    def __init__(self, folder: Path, secret: bytes) -> None:
        folder.mkdir(parents=True)
        key_file = folder / "key"
        key_file.write_text(secret.hex())
        key_file.chmod(0o600)
        self._folder = IndexFolder.open(folder / "index", SETTINGS, key_file)
        self._judge = replay_judge(self._folder, IndexSettings())
        self._signer = NativeSigner(SETTINGS, secret)
        self._next = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._judge.close()

    @property
    def judged(self) -> int:
        """Return how many pages have come: the number of the next one."""
        return self._next

    def texts(self, texts: Sequence[str]) -> list[Said]:
        """Judge plain texts in their order."""
        start, end = self._next, self._next + len(texts)
        batch = PageBatch(
            start, end, list(range(start, end)), [None] * len(texts), [b"u"] * len(texts),
            [text.encode() for text in texts], [0] * len(texts), [b""] * len(texts),
            [0] * len(texts),
        )  # fmt: skip
        return self.batch(batch)

    def batch(self, batch: PageBatch) -> list[Said]:
        """Judge a parsed batch as if it came behind the last one; one verdict a page.

        Raises:
            AssertionError: there is a page without a verdict, or one with two.
        """
        start, shift = self._next, self._next - batch.start
        self._next = batch.end + shift
        pages = sign(self._signer, 0, batch)
        pages.refs = (pages.refs.view(np.int64) + shift).view(np.uint64)
        said: list[Said] = []
        for block in self._judge.judge(0, start, self._next, pages):
            for similarity, other in zip(
                block.similarities.tolist(), block.representative_refs.tolist(), strict=True
            ):
                unique = similarity < 0
                said.append(Said(*(None, None) if unique else (similarity / SIMILARITY_ONE, other)))
        assert len(said) == len(batch), (len(said), len(batch))
        return said

    def source(self, source: Source, parser: PageParser, *, careful: bool = True) -> Read:
        """Read, check and judge all records of a source, as a replay does.

        With `careful` each batch is held against what later stages rely on, which costs time and
        memory of its own.

        Raises:
            AssertionError: a record is not in exactly one place.
        """
        read = Read()
        for chunk in _until_refused(source, read):
            assert chunk.start == read.records, (chunk.start, read.records)
            read.records = chunk.end
            batch = parser.parse(chunk)
            if careful:
                check_batch(batch, chunk.end - chunk.start)
            read.urls += batch.urls
            read.dead.update(letter.code for letter in batch.dead)
            read.skipped += batch.skipped
            read.pages += len(self.batch(batch))
        assert read.pages + read.dead.total() + read.skipped.total() == read.records, read
        return read


def _until_refused(source: Source, read: Read) -> Iterator[Chunk]:
    """Yield the chunks of a source; note why it is read no further."""
    try:
        yield from all_chunks(source, ending := Ending())
        read.refused = ending.damage
    except StreamerError as error:
        read.refused = str(error)


@dataclass(slots=True)
class Read:
    """What became of a source's records; `refused` says why its end could not be read."""

    records: int = 0
    pages: int = 0
    dead: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)
    urls: list[bytes] = field(default_factory=list)
    refused: str = ""


def reset_peak() -> None:
    """Let `peak_bytes` begin again at what this process takes now."""
    Path("/proc/self/clear_refs").write_text("5")


def peak_bytes() -> int:
    """Return the most memory that this process has taken since `reset_peak`."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split(maxsplit=1)[0]) * 1024


def watch(arguments: Sequence[str], folder: Path, seconds_stuck: float) -> Died | bytes:
    """Run a module in a process of its own; return its output, or how and where it died.

    It writes the number of what it does to the file `at` in `folder`; where that does not change
    for `seconds_stuck`, it is ended.
    """
    at, out, errors = folder / "at", folder / "out", folder / "errors"
    with out.open("wb") as to, errors.open("wb") as wrong:
        child = subprocess.Popen(
            [sys.executable, "-m", *arguments, str(folder)],
            cwd=ROOT, stdout=to, stderr=wrong,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
        )  # fmt: skip
        stuck = _wait(child, at, seconds_stuck)
    if child.returncode == 0:
        return out.read_bytes()
    last = errors.read_text(errors="replace").strip().splitlines()[-1:]
    how = "is stuck" if stuck else f"died with {child.returncode}"
    return Died(_number(at), f"the reader {how}: {' '.join(last)[:200]}")


def watched(
    arguments: Sequence[str], count: int, folder: Path, seconds_stuck: float
) -> Iterator[Died | bytes]:
    """Yield what `watch` says of a module that does `count` things, from the first or another on.

    Where it dies it goes on with the next one, but not before the first.
    """
    first = 0
    while first < count:
        here = folder / f"from-{first}"
        here.mkdir()
        answer = watch([*arguments, str(first)], here, seconds_stuck)
        yield answer
        if isinstance(answer, bytes) or answer.at < 0:
            return
        first = answer.at + 1


class Died(NamedTuple):
    """A process that did not come to its end: at which number (-1: before the first), and how."""

    at: int
    how: str


def _number(path: Path) -> int:
    return int(path.read_bytes() or b"-1") if path.exists() else -1


def _wait(child: subprocess.Popen[bytes], at: Path, seconds_stuck: float) -> bool:
    """Wait for a process; end it and return True where its number has not changed for long."""
    last, since = -2, time.monotonic()
    while True:
        try:
            child.wait(0.2)
        except subprocess.TimeoutExpired:
            now = _number(at)
            if now != last:
                last, since = now, time.monotonic()
            elif time.monotonic() - since > seconds_stuck * (10 if now < 0 else 1):
                child.kill()
                child.wait()
                return True
        else:
            return False
