"""A disk that fills while pages are judged, is emptied, and must be gone on with.

Index, verdicts and dead letters are on a file system in memory, with a ballast that leaves only
some room. The room ends within a flush, within an output, or as the index is made, as the seed has
it. The command must end with one sentence about space; twice as much room may end again. When the
ballast is gone, the same command must go on and end with the bytes of a run that had room enough.
In each fourth round a program adds the pages by the library: what it has flushed must stay.
"""

import contextlib
import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

from typer.testing import CliRunner

from streamer.cli.main import app
from streamer.deduplicator import Deduplicator
from streamer.errors import StreamerError

DISK_BYTES = 64 << 20
BLOCK = 4096
PAGES = 1500
GOES_ON_SECONDS = 90.0


def run(rounds: int, seed: int, folder: Path) -> list[str]:
    """Let the disk become full under a replay, so many times."""
    pages = _write_pages(folder, seed)
    violations: list[str] = []
    with _disk(folder / "disk") as disk:
        said = _replay(pages, disk)
        assert not said, said
        wanted, used = _outputs(disk), shutil.disk_usage(disk).used
    for number in range(rounds):
        room = BLOCK * Random(f"{seed}/{number}").randint(1, used // BLOCK)
        with _disk(folder / "disk") as disk:
            by_library = number % 4 == 3
            said = _filled(disk, pages, room, _Adding() if by_library else _replay)
            if not said and not by_library and _outputs(disk) != wanted:
                said = "other bytes than an undisturbed run"
        if said:
            violations.append(f"round {number}, seed {seed}: {room} bytes of room: {said}")
    return violations


def _filled(disk: Path, pages: Path, room: int, judge: Callable[[Path, Path], str]) -> str:
    """Judge the pages with little room, then with all; return what was broken."""
    ballast = disk / "ballast"
    with ballast.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, max(BLOCK, shutil.disk_usage(disk).free - room))
    for _ in range(2):
        said = judge(pages, disk)
        if not said:
            return ""
        if "No space is left" not in said:
            return f"ended on a full disk with: {said}"
        os.truncate(ballast, max(0, ballast.stat().st_size - room))
    ballast.unlink()
    emptied = time.monotonic()
    if said := judge(pages, disk):
        return f"did not go on when the disk was emptied: {said}"
    pause = time.monotonic() - emptied
    return "" if pause <= GOES_ON_SECONDS else f"went on after {pause:.0f} s"


@contextlib.contextmanager
def _disk(folder: Path) -> Iterator[Path]:
    """Yield a file system of DISK_BYTES, in memory.

    Raises:
        RuntimeError: none can be mounted here.
    """
    folder.mkdir(parents=True, exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(folder)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(
            f"A small file system could not be mounted: {done.stderr.strip()}. "
            "Run this campaign as root, with the right to mount."
        )
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)  # noqa: S607 - as above


def _write_pages(folder: Path, seed: int) -> Path:
    """Write pages, copies of them and records that are none."""
    random, words = Random(seed), [f"word{n}" for n in range(500)]
    pages = folder / "pages.jsonl"
    (folder / "key").write_text("5a" * 32)
    texts: list[list[str]] = []
    with pages.open("w") as file:
        for number in range(PAGES):
            again = texts and random.random() < 0.3
            texts.append(random.choice(texts) if again else random.choices(words, k=60))
            page = {"url": f"http://a.example/{number}", "body": " ".join(texts[-1])}
            file.write("no page\n" if number % 10 == 7 else json.dumps(page) + "\n")
    return pages


def _replay(pages: Path, disk: Path) -> str:
    """Replay with all outputs on the disk; return why it ended, "" where it is done."""
    arguments = ["replay", pages, "--index", disk / "index", "--key-file", pages.with_name("key")]
    arguments += ["--verdicts", disk / "verdicts.jsonl", "--head-pages", 100, "--threads", 1]
    result = CliRunner().invoke(app, [*map(str, arguments)])
    if isinstance(result.exception, StreamerError):
        return str(result.exception)
    return "" if result.exit_code == 0 else f"{result.exit_code}: {result.exception!r}"


class _Adding:
    """A program that adds the pages by the library, and flushes every 100."""

    def __init__(self) -> None:
        self.flushed = 0

    def __call__(self, pages: Path, disk: Path) -> str:
        """Go on behind what is flushed; return why it ended, "" where it is done."""
        lines = pages.read_bytes().splitlines()
        rows = [json.loads(line) for line in lines if line.startswith(b"{")]
        try:
            with Deduplicator(disk / "index", key_file=pages.with_name("key")) as own:
                found = [own.check(row).verdict for row in rows[: self.flushed]]
                if found != ["duplicate"] * len(found):
                    return "pages are lost that were flushed"
                while self.flushed < len(rows):
                    said = len([*own.add(rows[self.flushed : self.flushed + 100])])
                    own.flush()
                    self.flushed += said
                kept = len(own)
        except StreamerError as error:
            return str(error)
        texts = {row["body"] for row in rows}
        return "" if kept == len(texts) else f"{kept} pages are kept of {len(texts)}"


def _outputs(disk: Path) -> list[bytes]:
    return [(disk / f"verdicts.jsonl{end}").read_bytes() for end in ("", ".dead.jsonl")]
