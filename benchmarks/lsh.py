"""Query and insert in a large index: ours on disk beside the peers' in memory, equal documents.

Each system runs in a process of its own, so that its peak memory is its own. It signs the documents
by its own means, which is not timed; then each is looked up, and inserted where nothing like it is
there. Only the last fifth is timed, with all others in the index. Ours is flushed before these, and
after them within their time, so that the time holds all that they caused to be written.

    python -m benchmarks.lsh result.json --peer "rensa RMinHashLSH" --documents 1000000 --folder X
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from benchmarks.lsh_documents import batches
from benchmarks.machine import ROOT
from benchmarks.peers.peer import INDEX_PEERS, NOT_INSTALLED, Absent, Entry, IndexPeer
from benchmarks.resident import resident

if TYPE_CHECKING:
    from collections.abc import Sequence

DOCUMENTS = 1_000_000
TIMED_ONE_IN = 5  # six flushes of ours: what the last one holds up is spread over these
BATCH = 2_000
MEMORY_MAX_BYTES = 8 << 30
FILL_SECONDS_MAX = 600.0
RATIO_TARGET = 1.0  # not slower than an index in memory


class IndexTime(msgspec.Struct, frozen=True):
    """A system's time for query and insert of a document, in microseconds.

    Attributes:
        indexed: documents that it was given before the timed ones.
        us: by the clock on the wall; `cpu_us` is CPU time, with the store's own threads.
        duplicates: of the timed documents, by the system's own judgement.
        ratio: how many times ours `us` is; 0 until it is known.
        sentence: why `indexed` is less than was asked for.
    """

    name: str
    indexed: int
    timed: int
    us: float
    cpu_us: float
    duplicates: int
    peak_rss_bytes: int
    ratio: float = 0.0
    sentence: str | None = None


class Lsh(msgspec.Struct, frozen=True):
    """The comparison; ours is the first of `systems`."""

    documents: int
    systems: list[IndexTime]
    absent: list[Absent]
    target: float = RATIO_TARGET


def measure(folder: Path, documents: int = DOCUMENTS) -> Lsh:
    """Time every system, one after the other, in processes of their own; work in `folder`.

    Raises:
        subprocess.CalledProcessError: a process failed; it has said why on standard error.
    """
    results = [_in_a_process(folder, entry, documents) for entry in INDEX_PEERS]
    measured = [result for result in results if isinstance(result, IndexTime)]
    ours = measured[0]
    assert ours.name == INDEX_PEERS[0].name, ours
    return Lsh(
        documents,
        [msgspec.structs.replace(one, ratio=one.us / ours.us) for one in measured],
        [result for result in results if isinstance(result, Absent)],
    )


def _in_a_process(folder: Path, entry: Entry[IndexPeer], documents: int) -> IndexTime | Absent:
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="lsh-", dir=folder.absolute()) as scratch:
        result = Path(scratch) / "result.json"
        subprocess.run(
            [
                sys.executable, "-m", "benchmarks.lsh", str(result), "--peer", entry.name,
                "--documents", str(documents), "--folder", scratch,
            ],
            cwd=ROOT,
            check=True,
        )  # fmt: skip
        found = msgspec.json.decode(result.read_bytes(), type=IndexTime | None)
        return Absent(entry.name, NOT_INSTALLED) if found is None else found


def timed(name: str, peer: IndexPeer, documents: int) -> IndexTime:
    """Fill an empty index with four fifths of the documents, and time the last fifth."""
    window = max(1, documents // TIMED_ONE_IN)
    indexed, sentence = _fill(peer, documents - window)
    peer.settle()
    signed = [peer.sign(texts) for texts in batches(indexed, indexed + window, BATCH)]
    begin, cpu_begin = time.perf_counter(), time.process_time()
    duplicates = peer.judge(signed)
    peer.settle()
    seconds, cpu_seconds = time.perf_counter() - begin, time.process_time() - cpu_begin
    return IndexTime(
        name,
        indexed,
        window,
        us=1e6 * seconds / window,
        cpu_us=1e6 * cpu_seconds / window,
        duplicates=duplicates,
        peak_rss_bytes=resident().peak_bytes,
        sentence=sentence,
    )


def _fill(peer: IndexPeer, documents: int) -> tuple[int, str | None]:
    """Give a system its first documents; return how many, and why these are not all."""
    begin, indexed = time.monotonic(), 0
    for texts in batches(0, documents, BATCH):
        peer.judge([peer.sign(texts)])
        indexed += len(texts)
        if resident().total_bytes > MEMORY_MAX_BYTES:
            return indexed, f"its memory passed {MEMORY_MAX_BYTES >> 30} GiB"
        if time.monotonic() - begin > FILL_SECONDS_MAX:
            return indexed, f"filling took more than {FILL_SECONDS_MAX:.0f} s"
    return indexed, None


def main(arguments: Sequence[str] | None = None) -> None:
    """Time one system as the command line says; write the result as JSON, null if it is absent."""
    parser = argparse.ArgumentParser(description="Time query and insert of one system.")
    parser.add_argument("result", type=Path, help="where the result goes, as JSON")
    parser.add_argument("--peer", required=True, choices=[entry.name for entry in INDEX_PEERS])
    parser.add_argument("--documents", type=int, default=DOCUMENTS, help="in all")
    parser.add_argument("--folder", type=Path, required=True, help="an empty folder to work in")
    asked = parser.parse_args(arguments)
    entry = next(entry for entry in INDEX_PEERS if entry.name == asked.peer)
    peer = entry.load(asked.folder)
    result = None if peer is None else timed(entry.name, peer, asked.documents)
    asked.result.write_bytes(msgspec.json.encode(result))


if __name__ == "__main__":
    main()
