"""What the memory of a run is made of, taken from its open judge.

The base is what a process has that has imported everything and loaded the kernels, measured in one
of its own. On top of it come the arrays that the judge can be seen to hold, found by walking its
objects, so that a new array is counted without a change here; then what RocksDB says of itself. The
rest is pages on their way, what allocators keep, and what no one accounts for.

    python -m benchmarks.memory
"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter, deque
from importlib import import_module
from mmap import mmap
from types import FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from benchmarks.figures import Figure, figures_table, mebibytes
from benchmarks.machine import ROOT
from benchmarks.resident import Resident, resident
from streamer.run.warm import warm_kernels

if TYPE_CHECKING:
    from rich.table import Table

    from streamer.run.judge import Judge

PEAK_TARGET_BYTES = 2 << 30
# What RocksDB can be asked, by the name that it has in a table here.
ROCKSDB = {
    "RocksDB: indexes of open files": "rocksdb.estimate-table-readers-mem",
    "RocksDB: memtables": "rocksdb.cur-size-all-mem-tables",
}
BASE = "interpreter, libraries, kernels"
REST = "the rest"
ARRAYS = 8  # how many of the judge's largest arrays are named
_COUNTED = (bytes, bytearray, str, int, float, dict, list, tuple, set)
_LEAVES = (ModuleType, FunctionType, MethodType, type, np.dtype)


class Part(msgspec.Struct, frozen=True):
    """A part of the memory by name."""

    name: str
    size_bytes: int


class Memory(msgspec.Struct, frozen=True):
    """The parts, which add up to `resident.total_bytes`; `arrays` are the judge's largest.

    The rest may be below zero, where a part is allocated and was never touched.
    """

    resident: Resident
    kept_pages: int
    parts: list[Part]
    arrays: list[Part]
    peak_target_bytes: int = PEAK_TARGET_BYTES


def base_bytes() -> int:
    """Return what a process takes that has imported everything, loaded the kernels and not begun.

    Raises:
        subprocess.CalledProcessError: it failed; it has said why on standard error.
    """
    command = [sys.executable, "-m", "benchmarks.memory"]
    done = subprocess.run(
        command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=True
    )
    return int(done.stdout)


def measure(judge: Judge, base: int | None = None) -> Memory:
    """Return what this process' memory is made of; `judge` is open, `base` as of `base_bytes`.

    Raises:
        subprocess.CalledProcessError: as `base_bytes`, where it is not given.
    """
    now = resident()
    arrays = array_bytes(judge)
    parts = {BASE: base_bytes() if base is None else base}
    for path, size in arrays.items():
        parts[_kind(path)] = parts.get(_kind(path), 0) + size
    parts |= _rocksdb_bytes(judge)
    parts[REST] = now.total_bytes - sum(parts.values())
    return Memory(
        now,
        judge.shard.next_row,
        [Part(*item) for item in parts.items()],
        [Part(path.lstrip("."), size) for path, size in arrays.most_common(ARRAYS)],
    )


def array_bytes(owner: object) -> Counter[str]:
    """Return the bytes of all arrays, strings and numbers below `owner`, by attribute path.

    What is in a container goes under the container's path with `[]`. An object that is reached
    twice is counted once, and a view as the array that it is a view of.
    """
    sizes: Counter[str] = Counter()
    seen: set[int] = set()
    waiting: deque[tuple[str, Any]] = deque([("", owner)])
    while waiting:
        path, value = waiting.popleft()  # the shortest path first
        while isinstance(value, np.ndarray) and isinstance(value.base, np.ndarray):
            value = value.base
        if id(value) in seen or isinstance(value, _LEAVES):
            continue
        seen.add(id(value))
        if isinstance(value, np.ndarray):
            sizes[path] += value.nbytes
        elif isinstance(value, mmap):
            sizes[path] += len(value)
        elif (members := _members(value)) is not None:
            waiting += [(f"{path}{name}", member) for name, member in members]
        if isinstance(value, _COUNTED):
            sizes[path] += sys.getsizeof(value)
    return sizes


def _members(value: Any) -> list[tuple[str, Any]] | None:  # noqa: ANN401 - any object
    """Return what an object refers to and how its path goes on; None for what has no parts."""
    if isinstance(value, dict):
        return [("[]", member) for pair in value.items() for member in pair]
    if isinstance(value, list | tuple | set | frozenset | deque):
        return [("[]", member) for member in value]
    names = {*getattr(value, "__dict__", ()), *getattr(type(value), "__slots__", ())}
    return [(f".{name}", getattr(value, name, None)) for name in sorted(names)] or None


def _kind(path: str) -> str:
    """Return to which part of the memory an attribute path of a judge belongs."""
    if ".memtable" in path:
        return "memtable"
    if ".table." in path:
        return "key table"
    return "look-up tables and state"


def _rocksdb_bytes(judge: Judge) -> dict[str, int]:
    """Return what RocksDB says that it holds; a property that it does not know is left out."""
    database = judge.store._database  # noqa: SLF001 - only RocksDB knows its memory
    if database is None:
        return {}
    parts = database._opened, *database._families.values()  # noqa: SLF001 - as above
    reported = {n: [each.property_int_value(key) for each in parts] for n, key in ROCKSDB.items()}
    return {name: sum(sizes) for name, sizes in reported.items() if None not in sizes}


def table(memory: Memory) -> Table:
    """Return the parts as a table, then the largest arrays."""
    now, pages = memory.resident, max(1, memory.kept_pages)
    lines = [Figure(part.name, _size(part, pages)) for part in memory.parts]
    lines += [
        Figure("resident at the end", mebibytes(now.total_bytes)),
        Figure("  of it anonymous", mebibytes(now.anonymous_bytes)),
        Figure("peak", mebibytes(now.peak_bytes), mebibytes(memory.peak_target_bytes)),
    ]
    lines += [Figure(f"array {part.name}", _size(part, pages)) for part in memory.arrays]
    return figures_table(f"memory of a process with {memory.kept_pages:,} kept pages", lines)


def _size(part: Part, pages: int) -> str:
    return f"{mebibytes(part.size_bytes)}, {part.size_bytes / pages:,.0f} bytes a kept page"


def main() -> None:
    """Print what a process takes that has begun nothing."""
    import_module("streamer.cli.replay")  # all that the command needs
    warm_kernels()
    print(resident().total_bytes)


if __name__ == "__main__":
    main()
