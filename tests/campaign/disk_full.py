"""A disk that fills while pages are judged, is emptied, and must be gone on with.

Index, verdicts and dead letters lie on a file system in memory, with a ballast that leaves only
some room. The room ends within a flush, within an output, or as the index is made, as the seed has
it. The command must end with one sentence about space; twice as much room may end again; when the
ballast is gone, the same command must go on and end with the bytes of a run that had room enough.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from typer.testing import CliRunner

from streamer.cli.main import app
from streamer.errors import StreamerError
from streamer.index.messages import CONFIG, Record, Verdicts
from streamer.index.settings import IndexSettings
from streamer.kafka.owner import Owner
from streamer.kafka.wire import LogIdentity, ShardLog, pack_record
from streamer.run.index_folder import identity_of
from streamer.sketch.settings import SignatureSettings
from tests.campaign.campaign import Campaign, Outcome
from tests.helpers.kafka_doubles import take
from tests.helpers.serial_index import judged
from tests.helpers.signed_pages import family_pages

DISK_BYTES = 64 << 20
BLOCK = 4096
PAGES = 1500
RECORD_PAGES = 50  # of the worker's log
GOES_ON_SECONDS = 30.0
SECRET = bytes(range(32))
SIGNATURE = SignatureSettings()

Work = Callable[[Path], str]  # goes on on a disk: "" when it is done, else why not
Made = Callable[[Path], Any]  # what the work has brought, for comparison


def run(rounds: int, seed: int, folder: Path) -> Outcome:
    """Let the disk become full under a replay and under a worker's owner, in turn."""
    ways = [_replay_way(folder, seed), _owner_way(folder, seed)]
    with _disk(folder / "disk") as disk:
        wanted = [_undisturbed(disk, *way) for way in ways]
    violations: list[str] = []
    pauses, ends = [0.0], Counter[str]()
    for number in range(rounds):
        random, which = Random(f"{seed}/{number}"), number % len(ways)
        (work, made), (result, used) = ways[which], wanted[which]
        with _disk(folder / "disk") as disk:
            room = BLOCK * random.randint(1, used // BLOCK)
            said, pause, fills = _filled(disk, work, room)
            pauses.append(pause)
            ends["fillings"] += fills
            if not said and made(disk) != result:
                said = "other bytes than an undisturbed run"
        if said:
            way = ("replay", "worker")[which]
            violations.append(f"round {number}, seed {seed}: {way}, {room} bytes of room: {said}")
    figures: dict[str, float | int | str] = {"times the disk was full": ends["fillings"]}
    return Outcome(rounds, violations, max(pauses), figures)


def _undisturbed(disk: Path, work: Work, made: Made) -> tuple[Any, int]:
    """Return what the work brings with room enough, and how many bytes of the disk it takes."""
    said = work(disk)
    assert not said, said
    used = shutil.disk_usage(disk).used
    result = made(disk)
    for path in disk.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    return result, used


def _filled(disk: Path, work: Work, room: int) -> tuple[str, float, int]:
    """Work with little room, then with all; return what was broken, the pause, and the fillings."""
    fills, ballast = 0, disk / "ballast"
    _take_all_but(disk, ballast, room)
    for _ in range(2):
        said = work(disk)
        if not said:
            return "", 0.0, fills
        if "No space is left" not in said:
            return f"ended on a full disk with: {said}", 0.0, fills
        fills += 1
        os.truncate(ballast, max(0, ballast.stat().st_size - room))
    ballast.unlink()
    emptied = time.monotonic()
    said = work(disk)
    pause = time.monotonic() - emptied
    if said:
        return f"did not go on when the disk was emptied: {said}", pause, fills
    return ("" if pause <= GOES_ON_SECONDS else f"went on after {pause:.0f} s"), pause, fills


def _take_all_but(disk: Path, ballast: Path, room: int) -> None:
    with ballast.open("wb") as file:
        file.truncate(0)
        os.posix_fallocate(file.fileno(), 0, max(BLOCK, shutil.disk_usage(disk).free - room))


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


# ---- replay --------------------------------------------------------------------------------------


def _replay_way(folder: Path, seed: int) -> tuple[Work, Made]:
    random, words = Random(seed), [f"word{n}" for n in range(500)]
    pages, key = folder / "pages.jsonl", folder / "key"
    key.write_text(SECRET.hex())
    texts: list[list[str]] = []
    with pages.open("w") as file:
        for number in range(PAGES):
            again = texts and random.random() < 0.3
            texts.append(random.choice(texts) if again else random.choices(words, k=60))
            page = {"url": f"http://a.example/{number}", "body": " ".join(texts[-1])}
            file.write("no page\n" if number % 10 == 7 else json.dumps(page) + "\n")

    def work(disk: Path) -> str:
        arguments = ["replay", pages, "--index", disk / "index", "--key-file", key]
        arguments += ["--verdicts", disk / "verdicts.jsonl", "--head-pages", 100, "--threads", 1]
        result = CliRunner().invoke(app, [*map(str, arguments)])
        if isinstance(result.exception, StreamerError):
            return str(result.exception)
        return "" if result.exit_code == 0 else f"{result.exit_code}: {result.exception!r}"

    def made(disk: Path) -> Any:
        return [(disk / f"verdicts.jsonl{end}").read_bytes() for end in ("", ".dead.jsonl")]

    return work, made


# ---- a worker's owner ----------------------------------------------------------------------------


def _owner_way(folder: Path, seed: int) -> tuple[Work, Made]:
    key = folder / "key"
    identity = LogIdentity(str(identity_of(SIGNATURE, 1, SECRET)["fingerprint"]), "origin")
    pages = family_pages(Random(seed), PAGES)
    log = [pack_record(Record(CONFIG, 0, 1, np.array([0]), IndexSettings()), identity)]
    for start in range(0, PAGES, RECORD_PAGES):
        numbers = np.arange(start, start + RECORD_PAGES)
        record = Record("pages:0", start, start + RECORD_PAGES, numbers, pages.take(numbers))
        log.append(pack_record(record, identity))
    emitted: dict[Path, dict[int, list[Any]]] = {}

    def opened(disk: Path) -> Owner:
        return Owner(disk / "index", ShardLog(0, 1, "log", identity), SIGNATURE, key)

    def work(disk: Path) -> str:
        told = emitted.setdefault(disk, {}) if (disk / "index").exists() else {}
        emitted[disk] = told
        try:
            with contextlib.closing(opened(disk)) as owner:
                for offset in range(owner.offset, len(log)):
                    outputs = take(owner, offset, log[offset])
                    items = [output.items for output in outputs]
                    shown = [judged(each) for each in items if isinstance(each, Verdicts)]
                    if told.setdefault(offset, shown) != shown:
                        return f"record {offset} emitted something else than before"
                    owner.flush(owner.state())
        except StreamerError as error:
            return str(error)
        return ""

    def made(disk: Path) -> Any:
        with contextlib.closing(opened(disk)) as owner:
            return owner.offset, owner.shard.state(), emitted[disk]

    return work, made


CAMPAIGN = Campaign(
    "disk",
    "The disk of index, verdicts and dead letters becomes full at a chosen byte, once or more, and "
    "is emptied; replay and a worker say so, go on within 30 s, and end with the same bytes.",
    rounds=100,
    rounds_in_short=20,
    rounds_in_ci=8,
    run=run,
)
