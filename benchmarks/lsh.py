"""Query and insert in a large index: ours on disk next to the peers' in memory, equal documents.

Each system runs in a process of its own, so that its peak memory is its own. It signs the documents
by its own means, which is not timed; then each is looked up, and inserted where nothing like it is
there. Only the last fifth is timed, with all others in the index. Ours is flushed before these, and
after them within their time, so that the time holds all that they caused to be written. The systems
take turns over several rounds, since a run is short and the machine's speed moves; one that is many
times slower has one.

What an index does with a signature does not depend on how long the document was, so these have 64
random words. One in five is a copy of any earlier one that is none: a third of those exact, the
others with one word replaced (resemblance 0.85). Each is a function of its number, as in corpus.py,
so memory stays flat.

    python -m benchmarks.lsh result.json --peer "rensa RMinHashLSH" --documents 1000000 --folder X
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import numpy.typing as npt

from benchmarks.corpus import SEED, U64, mixed
from benchmarks.figures import empty_table, mebibytes
from benchmarks.machine import ROOT
from benchmarks.peers.peer import (
    INDEX_PEERS,
    INDEXES_LEFT_OUT,
    NOT_INSTALLED,
    Absent,
    Entry,
    IndexPeer,
)
from benchmarks.resident import resident

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.table import Table

DOCUMENTS = 1_000_000
TIMED_ONE_IN = 5  # six flushes of ours: what the last one holds up is spread over these
BATCH = 2_000
ROUNDS = 5
SLOW_TIMES = 5.0  # a system that takes so many times ours has one round: its run is long
MEMORY_MAX_BYTES = 8 << 30
FILL_SECONDS_MAX = 600.0
RATIO_TARGET = 1.0  # not slower than an index in memory
WORDS = 64
WORD_BYTES = 4  # written as hexadecimal digits
COPY_ONE_IN = 5
EXACT_ONE_IN = 3  # of the copies


class IndexTime(msgspec.Struct, frozen=True):
    """A system's time for query and insert of a document, in microseconds.

    Attributes:
        indexed: documents that it was given before the timed ones.
        us: by the clock on the wall; `cpu_us` is CPU time, with the store's own threads. Medians of
            the rounds.
        duplicates: of the timed documents, by the system's own judgement.
        peak_rss_bytes: the greatest of the rounds.
        disk_bytes, memory_bytes: a document that was inserted: what the system has in its folder,
            and how far its process has grown since it was empty; of the last round.
        sentence: why `indexed` is less than was asked for.
        rounds: in how many it was timed.
        ratio: how many times ours `us` is, the median of the rounds; `ratio_least` and
            `ratio_greatest` are of single ones. 0 until they are known.
    """

    name: str
    indexed: int
    timed: int
    us: float
    cpu_us: float
    duplicates: int
    peak_rss_bytes: int
    sentence: str | None = None
    rounds: int = 1
    disk_bytes: float = 0.0
    memory_bytes: float = 0.0
    ratio: float = 0.0
    ratio_least: float = 0.0
    ratio_greatest: float = 0.0


class Lsh(msgspec.Struct, frozen=True):
    """The comparison; ours is the first of `systems`."""

    documents: int
    systems: list[IndexTime]
    absent: list[Absent]
    target: float = RATIO_TARGET


def measure(folder: Path, documents: int = DOCUMENTS, rounds: int = ROUNDS) -> Lsh:
    """Time every system in each round, in processes of their own; work in `folder`.

    Raises:
        subprocess.CalledProcessError: a process failed; it has said why on standard error.
    """
    found: dict[str, list[IndexTime]] = {entry.name: [] for entry in INDEX_PEERS}
    ours = found[INDEX_PEERS[0].name]
    absent: dict[str, Absent] = {}
    for number in range(rounds):
        for entry in INDEX_PEERS:
            runs = found[entry.name]
            if entry.name in absent or (number and runs[0].us > SLOW_TIMES * ours[0].us):
                continue
            result = _in_a_process(folder, entry, documents)
            if isinstance(result, Absent):
                absent[entry.name] = result
            else:
                runs.append(result)
    systems = [over_rounds(runs, ours) for runs in found.values() if runs]
    return Lsh(documents, systems, [*absent.values(), *INDEXES_LEFT_OUT])


def over_rounds(runs: Sequence[IndexTime], ours: Sequence[IndexTime]) -> IndexTime:
    """Return a system's time over its rounds, of which each is held against ours in the same."""
    ratios = [one.us / our.us for one, our in zip(runs, ours, strict=False)]
    return msgspec.structs.replace(
        runs[-1],
        us=statistics.median(one.us for one in runs),
        cpu_us=statistics.median(one.cpu_us for one in runs),
        peak_rss_bytes=max(one.peak_rss_bytes for one in runs),
        rounds=len(runs),
        ratio=statistics.median(ratios),
        ratio_least=min(ratios),
        ratio_greatest=max(ratios),
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


def timed(name: str, peer: IndexPeer, documents: int, folder: Path) -> IndexTime:
    """Fill an empty index with four fifths of the documents, and time the last fifth.

    The peer has `folder` to work in.
    """
    window = max(1, documents // TIMED_ONE_IN)
    memory = resident().total_bytes
    indexed, found, sentence = _fill(peer, documents - window)
    peer.settle()
    inserted = indexed - found
    memory_bytes = (resident().total_bytes - memory) / inserted
    disk_bytes = sum(each.stat().st_size for each in folder.rglob("*") if each.is_file()) / inserted
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
        disk_bytes=disk_bytes,
        memory_bytes=memory_bytes,
    )


def _fill(peer: IndexPeer, documents: int) -> tuple[int, int, str | None]:
    """Give a system its first documents; return how many, duplicates, and why these are not all."""
    begin, indexed, found = time.monotonic(), 0, 0
    for texts in batches(0, documents, BATCH):
        found += peer.judge([peer.sign(texts)])
        indexed += len(texts)
        if resident().total_bytes > MEMORY_MAX_BYTES:
            return indexed, found, f"its memory passed {MEMORY_MAX_BYTES >> 30} GiB"
        if time.monotonic() - begin > FILL_SECONDS_MAX:
            return indexed, found, f"filling took more than {FILL_SECONDS_MAX:.0f} s"
    return indexed, found, None


def tables(result: Lsh) -> Iterator[Table | str]:
    """Yield the systems' times a document for query and insert."""
    table = empty_table(
        f"query and insert, the last of {result.documents:,} documents, {result.target:g} or more"
        " times ours is the target",
        "index", "rounds", "us", "CPU us", "times ours", "documents before", "duplicates",
        "peak memory", "memory a document", "disk a document",
    )  # fmt: skip
    for one in result.systems:
        table.add_row(
            one.name,
            str(one.rounds),
            f"{one.us:.1f}",
            f"{one.cpu_us:.1f}",
            f"{one.ratio:.2f} ({one.ratio_least:.2f} to {one.ratio_greatest:.2f})",
            f"{one.indexed:,}",
            f"{one.duplicates:,} of {one.timed:,}",
            mebibytes(one.peak_rss_bytes),
            f"{one.memory_bytes:,.0f} bytes",
            f"{one.disk_bytes:,.0f} bytes" if one.disk_bytes else "",
        )
    yield table
    for one in result.systems:
        if one.sentence:
            yield f"{one.name} was given {one.indexed:,} documents only: {one.sentence}."
    yield from map(str, result.absent)


def batches(begin: int, end: int, size: int) -> Iterator[list[bytes]]:
    """Yield the documents [begin, end) in batches; a copy's original may be before `begin`."""
    for start in range(begin, end, size):
        numbers = np.arange(start, min(end, start + size), dtype=np.uint64)
        words = _words(numbers, np.uint64(SEED))
        yield [row.tobytes().hex(" ", WORD_BYTES).encode() for row in words]


def is_copy(numbers: U64) -> npt.NDArray[np.bool_]:
    """Return which documents are copies: the last of each five."""
    last: npt.NDArray[np.bool_] = numbers % np.uint64(COPY_ONE_IN) == COPY_ONE_IN - 1
    return last


def _words(numbers: U64, seed: np.uint64) -> npt.NDArray[np.uint32]:
    """Return the words of documents, one row each."""
    draws = mixed(numbers + (~seed << np.uint64(40)))
    copies = is_copy(numbers)
    origins = numbers.copy()
    origins[copies] = draws[copies] % numbers[copies]
    origins -= is_copy(origins) & copies  # the document before a copy is none
    first = (origins + (seed << np.uint64(40))) * np.uint64(WORDS)
    words = mixed(np.add.outer(first, np.arange(WORDS, dtype=np.uint64))).astype(np.uint32)
    exact = (draws >> np.uint64(40)) % np.uint64(EXACT_ONE_IN) == 0
    edited = np.flatnonzero(copies & ~exact)
    words[edited, draws[edited] >> np.uint64(58)] ^= np.uint32(0x5A5A5A5A)
    return words


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
    result = None if peer is None else timed(entry.name, peer, asked.documents, asked.folder)
    asked.result.write_bytes(msgspec.json.encode(result))


if __name__ == "__main__":
    main()
