"""The console over ten million verdicts: `python -m benchmarks.console --verdicts 10000000`.

Verdicts are made, not judged: lines as `streamer replay` writes them, of which a fifth are
duplicates. Few hosts have most pages, and few clusters most duplicates. A console of its own folds
them; then every view is asked for, each with so many different pages, clusters and hosts.
"""

from __future__ import annotations

import argparse
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec
import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.kafka_rate import cpu_seconds
from benchmarks.resident import resident

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

VERDICTS = 10_000_000
ROUNDS = 20
FIRST_VIEW_TARGET_S, VIEW_TARGET_S, MEMORY_TARGET_BYTES = 2.0, 0.3, 512 << 20
_HOSTS_SHARE = 200  # pages a host, in the mean
_DUPLICATES_SHARE = 5  # one page in so many is one
_QUIET_SHARE = 0.3  # of a processor; a fold takes more
_PART = 100_000
_LINE = (
    '{"page":{"topic":"crawl.jsonl","partition":0,"offset":%d},"url":"%s","verdict":"%s",'
    '"basis":"%s","similarity":%s,"representative":%s,"same_url":false,"text_bytes":%d,'
    '"index":"ce5818334e80ba49","carried":{},"schema":"streamer.verdict/1"}\n'
)
_OTHER = '{"page":{"topic":"crawl.jsonl","partition":0,"offset":%d},"url":"%s"}'


class View(msgspec.Struct, frozen=True):
    """Seconds from asking for a view to its last byte: in the middle, and the longest."""

    path: str
    median_s: float
    longest_s: float


class ConsoleSpeed(msgspec.Struct, frozen=True):
    """What was measured; memory is that of the console at most, fold included."""

    verdicts: int
    fold_cpu_s: float
    first_view_s: float
    views: list[View]
    peak_bytes: int
    view_bytes: int


def both_of(console: int) -> list[int]:
    """Return the processes of a console: itself, and its fold."""
    threads = Path(f"/proc/{console}/task").iterdir()  # one of them has started the fold
    return [console, *(int(p) for one in threads for p in (one / "children").read_text().split())]


def url_of(page: int, hosts: int) -> str:
    """Return the URL of a page; the share of a host falls with its number."""
    spread = (page * 0x9E3779B97F4A7C15 >> 11) % (1 << 53) / (1 << 53)
    host = int(hosts**spread) if page % 3 else int(hosts * spread)
    return f"https://www.site{host:06d}.example/articles/{page % 97:02d}/page-{page:09d}.html"


def write_verdicts(file: Path, count: int) -> None:
    """Write so many verdicts; a fifth of the pages are duplicates of earlier ones that are none."""
    hosts = max(10, count // _HOSTS_SHARE)
    with file.open("w", encoding="ascii") as out:
        for begin in range(0, count, _PART):
            pages = range(begin, min(count, begin + _PART))
            draws = np.random.default_rng(begin).random(len(pages)) ** 3
            out.writelines(_lines(pages, draws.tolist(), hosts))


def _lines(pages: range, draws: list[float], hosts: int) -> Iterator[str]:
    for page, draw in zip(pages, draws, strict=True):
        url, text_bytes = url_of(page, hosts), 1_000 + page % 9_000
        if page % _DUPLICATES_SHARE:
            yield _LINE % (page, url, "unique", "signature", "null", "null", text_bytes)
            continue
        other = int(page * draw) // _DUPLICATES_SHARE * _DUPLICATES_SHARE + 1
        basis, similarity = "content", "1.0"
        if page & 1:
            basis, similarity = "signature", f"{0.8 + (page // 10 % 2_000) / 1e4:.4f}"
        named = _OTHER % (other, url_of(other, hosts))
        yield _LINE % (page, url, "duplicate", basis, similarity, named, text_bytes)


def measure(folder: Path, count: int = VERDICTS, rounds: int = ROUNDS) -> ConsoleSpeed:
    """Fold so many verdicts, and ask for each view `rounds` times.

    Raises:
        RuntimeError: the console has ended.
    """
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        file, view = Path(scratch, "verdicts.jsonl"), Path(scratch, "view")
        write_verdicts(file, count)
        with (folder / "console.log").open("w+b") as log:
            process = subprocess.Popen(
                [
                    sys.executable, "-m", "streamer", "console", str(file), "--port", "0",
                    "--view", str(view),
                ],
                stdout=log, stderr=log,
            )  # fmt: skip
            try:
                address = address_of(process, Path(log.name))
                _wait_for_fold(process, address, count)
                folded = sum(map(cpu_seconds, both_of(process.pid)))
                first = _seconds(f"{address}overview")
                views = [_view(address, path, count, rounds, make) for path, make in _VIEWS.items()]
                peak = sum(resident(pid).peak_bytes for pid in both_of(process.pid))
            finally:
                process.send_signal(signal.SIGTERM)
                process.wait()
        size = sum(each.stat().st_size for each in view.glob("view-*"))
    return ConsoleSpeed(count, folded, first, views, peak, size)


def address_of(process: subprocess.Popen[bytes], log: Path) -> str:
    """Return the address that a console writes into its log, once it answers.

    Raises:
        RuntimeError: it has ended.
    """
    while not (found := re.search(rb"http://127\.0\.0\.1:\d+/", log.read_bytes())):
        _check_alive(process, log)
        time.sleep(0.05)
    return found[0].decode()


def _check_alive(process: subprocess.Popen[bytes], log: Path) -> None:
    if process.poll() is not None:
        raise RuntimeError(f"the console has ended: {log.read_text()[-2_000:]}")


def _wait_for_fold(process: subprocess.Popen[bytes], address: str, count: int) -> None:
    """Wait until the fold has read all and its indexes are made: it takes no more time then."""
    while _json(f"{address}overview.json")["pages"] < count:
        if process.poll() is not None:
            raise RuntimeError("the console has ended")
        time.sleep(min(1, count / 1e6))
    before = -1.0
    while (now := sum(map(cpu_seconds, both_of(process.pid)))) - before > _QUIET_SHARE:
        before = now
        time.sleep(1)


def _json(address: str) -> dict[str, Any]:
    with urllib.request.urlopen(address, timeout=60) as answer:  # noqa: S310 - this machine
        found: dict[str, Any] = msgspec.json.decode(answer.read())
    return found


def _seconds(address: str) -> float:
    began = time.perf_counter()
    with urllib.request.urlopen(address, timeout=60) as answer:  # noqa: S310 - this machine
        answer.read()
    return time.perf_counter() - began


def _page(number: int, hosts: int) -> str:
    return f"?page={quote(url_of(number, hosts), safe='')}"


def _place(number: int, _hosts: int) -> str:
    return f"?page=crawl.jsonl:{number}"


def _cluster(number: int, _hosts: int) -> str:
    return f"?place=crawl.jsonl:{number // 100 // _DUPLICATES_SHARE * _DUPLICATES_SHARE + 1}"


def _host(number: int, hosts: int) -> str:
    return f"?host=www.site{number % hosts:06d}.example"


def _nothing(_number: int, _hosts: int) -> str:
    return ""


_VIEWS: dict[str, Callable[[int, int], str]] = {
    "overview": _nothing,
    "page": _page,
    "page.json": _place,
    "clusters": _nothing,
    "clusters?sort=recent": _nothing,
    "cluster": _cluster,
    "hosts": _nothing,
    "hosts?sort=share&least=100": _nothing,
    "host": _host,
    "dead-letters": _nothing,
    "api/pages": _host,
}


def _view(
    address: str, path: str, count: int, rounds: int, query: Callable[[int, int], str]
) -> View:
    hosts = max(10, count // _HOSTS_SHARE)
    numbers = np.random.default_rng(1).integers(0, count, rounds).tolist()
    found = [_seconds(address + path + query(number, hosts)) for number in numbers]
    return View(path, statistics.median(found), max(found))


def table(found: ConsoleSpeed) -> Table:
    """Return what was measured, in milliseconds."""
    title = (
        f"{found.verdicts:,} verdicts: fold {found.fold_cpu_s:,.0f} s of CPU, "
        f"{found.peak_bytes >> 20:,} MiB at most, view {found.view_bytes >> 20:,} MiB"
    )
    shown = Table("view", "median ms", "longest ms", title=title, box=None)
    shown.add_row("the first", "", f"{1e3 * found.first_view_s:,.0f}")
    for each in found.views:
        shown.add_row(each.path, f"{1e3 * each.median_s:,.1f}", f"{1e3 * each.longest_s:,.0f}")
    return shown


def is_met(found: ConsoleSpeed) -> bool:
    """Return whether all targets are met, that of a view each time that it was asked for."""
    return (
        found.first_view_s < FIRST_VIEW_TARGET_S
        and all(each.longest_s < VIEW_TARGET_S for each in found.views)
        and found.peak_bytes < MEMORY_TARGET_BYTES
    )


def main() -> int:
    """Measure; return 1 if a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--folder", type=Path, default=Path("build/benchmarks"))
    parser.add_argument("--verdicts", type=int, default=VERDICTS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    found = measure(given.folder, given.verdicts, given.rounds)
    Console().print(table(found))
    return int(not is_met(found))


if __name__ == "__main__":
    sys.exit(main())
