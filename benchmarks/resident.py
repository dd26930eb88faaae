"""The memory of a process as the system counts it: now, of that anonymous, and at most so far."""

import re
from pathlib import Path

import msgspec


class Resident(msgspec.Struct, frozen=True):
    """Bytes of a process that are in memory: now, of these anonymous ones, and at most so far."""

    total_bytes: int
    anonymous_bytes: int
    peak_bytes: int


def resident(process: int | str = "self") -> Resident:
    """Return the memory of a process, by its id.

    Not by getrusage: its peak outlives an exec, and so may be the parent's.
    """
    status = Path(f"/proc/{process}/status").read_text(encoding="utf-8")
    found = dict(re.findall(r"(VmRSS|RssAnon|VmHWM):\s+(\d+) kB", status))
    total, anonymous, peak = (int(found[name]) << 10 for name in ("VmRSS", "RssAnon", "VmHWM"))
    return Resident(total, anonymous, max(total, peak))  # counted apart, they differ by some pages
