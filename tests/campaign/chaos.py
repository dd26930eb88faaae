"""What happens in production, done on purpose while pages come in: kills, cut lines, wrong clocks.

Workers and brokers are disturbed as in tests/integration/chaos.py, each row over a new broker and
index, and `streamer verify` holds what they did against the promises.
"""

import os
import random
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from unittest.mock import patch

from streamer.kafka.topics import Names
from streamer.run.warm import warm_kernels
from tests.campaign import replays
from tests.campaign.campaign import Row
from tests.helpers.broker import running_broker
from tests.helpers.cable import DIRECTIONS, Cable, cable
from tests.helpers.feeder import fed
from tests.helpers.fleet import KEY, ROOT, fleet
from tests.helpers.ports import free_port, listens
from tests.helpers.wait import wait_until
from tests.integration.chaos import Run, disturb, load, make_crawl

CRAWL_PAGES = 5_000
PAUSE_SECONDS_MAX = 180.0  # some 20 on a quiet machine
CUT_SECONDS = (5.0, 60.0)  # the second of many rounds; of one a quarter
JUMPS = ("+3600", "-3600", "+86400", "-86400", "+0")  # of the clock, in seconds


def disturbed(scenario: Run, rounds: int, seed: int, folder: Path) -> list[str]:
    """Disturb workers in so many rounds of a scenario."""
    warm_kernels()
    crawl, names = make_crawl(folder, CRAWL_PAGES, seed), Names("index", "pages")
    run = replace(scenario, rounds=rounds, pages=scenario.pages * rounds)
    with running_broker(folder / "broker", free_port()) as brokers:
        try:
            disturb(run, folder, brokers, names, crawl, seed)
        except AssertionError as error:
            return [f"{run}, seed {seed}: {error}"]
    return []


# ---- cut lines -----------------------------------------------------------------------------------


def cuts(rounds: int, seed: int, folder: Path) -> list[str]:
    """Cut a worker off from its broker while pages come in; it must go on within a minute."""
    warm_kernels()
    draw, names, violations = random.Random(seed), Names("index", "pages"), list[str]()
    shortest, longest = CUT_SECONDS[0], min(CUT_SECONDS[1], 15.0 * rounds)
    crawl = make_crawl(folder, CRAWL_PAGES, seed)
    with (
        cable() as line,
        _broker_behind(line, folder) as brokers,
        fleet(folder / "workers", brokers, names, options=("--brokers", line.address)) as workers,
    ):
        load(brokers, names, crawl)
        workers.start("all", "--index", folder / "index")
        workers.wait_for_log("all", "worker_started")
        with fed(brokers, names.pages, crawl, 5_000 * rounds, rounds * (shortest + longest)):
            for number in range(rounds):
                direction = draw.choice(DIRECTIONS)
                time.sleep(draw.random() * 5)
                line.cut(direction)
                time.sleep(draw.uniform(shortest, longest))
                line.mend()
                before, mended = workers.reported(), time.monotonic()
                while workers.reported() == before and workers.left():
                    workers.restart_dead()
                    if time.monotonic() - mended > PAUSE_SECONDS_MAX:
                        violations.append(f"round {number}, seed {seed}: {direction}, no progress")
                        break
                    time.sleep(0.5)
        try:
            workers.wait_until_settled()
        except AssertionError as error:
            violations.append(f"seed {seed}: not all was judged: {error}")
        checked = workers.verify("--settled")
        violations += [f"seed {seed}: {checked.stderr}{checked.stdout}"] * bool(checked.returncode)
    return violations


@contextmanager
def _broker_behind(line: Cable, folder: Path) -> Iterator[str]:
    """Start a broker that listens at the line, and directly for the test."""
    port = free_port()
    here, extra = f"127.0.0.1:{port}", folder / "extra.properties"
    extra.write_text(
        f"listeners=PLAINTEXT://{here},LINE://{line.listener},CONTROLLER://127.0.0.1:{port + 1}\n"
        f"advertised.listeners=PLAINTEXT://{here},LINE://{line.address}\n"
        "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,LINE:PLAINTEXT\n"
        "inter.broker.listener.name=PLAINTEXT\n"
    )
    with (
        patch.dict(os.environ, {"BROKER_EXTRA": str(extra)}),
        running_broker(folder / "broker", port) as brokers,
    ):
        host, _, number = line.listener.rpartition(":")
        wait_until(lambda: listens(int(number), host))
        yield brokers


# ---- replays -------------------------------------------------------------------------------------


def faketime() -> Path | None:
    """Return the library that sets a program's clock, if it is installed."""
    return next(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"), None)


def clock(rounds: int, seed: int, folder: Path) -> list[str]:
    """Replay under a clock that jumps; verdicts must have the bytes of a run under a right one."""
    library = faketime()
    if library is None:
        return ["libfaketime is missing. Install it: .ci/tools campaign"]
    crawl, stamp = make_crawl(folder, CRAWL_PAGES, seed), folder / "clock"
    (folder / "key").write_text(KEY)
    false_clock = {
        "LD_PRELOAD": str(library), "FAKETIME_TIMESTAMP_FILE": str(stamp),
        "FAKETIME_NO_CACHE": "1", "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }  # fmt: skip
    ended = threading.Event()

    def jump() -> None:
        draw = random.Random(seed)
        while not ended.wait(0.2):
            stamp.with_suffix(".new").write_text(draw.choice(JUMPS))
            stamp.with_suffix(".new").replace(stamp)

    stamp.write_text("+0")
    wanted = _replayed(folder, crawl, {})
    jumping = threading.Thread(target=jump)
    jumping.start()
    try:
        return [
            f"round {number}, seed {seed}: other verdicts or dead letters"
            for number in range(rounds)
            if _replayed(folder, crawl, false_clock) != wanted
        ]
    finally:
        ended.set()
        jumping.join()


def _replayed(folder: Path, crawl: Path, variables: dict[str, str]) -> list[bytes]:
    """Return the verdicts and dead letters of a replay with a new index."""
    own = folder / "replay"
    shutil.rmtree(own, ignore_errors=True)
    own.mkdir()
    verdicts = own / "verdicts.jsonl"
    command = ["replay", crawl, "--index", own / "index", "--verdicts", verdicts]
    command += ["--key-file", folder / "key", "--head-pages", 256]
    subprocess.run([sys.executable, "-m", "streamer", *map(str, command)], cwd=ROOT, check=True,
                   env={**os.environ, **variables}, capture_output=True, timeout=300)  # fmt: skip
    return [verdicts.read_bytes(), Path(f"{verdicts}.dead.jsonl").read_bytes()]


def _row(scenario: Run, what: str, rounds: int, short: int) -> Row:
    """Return the row of a scenario, whose pages are those of a round."""
    return Row(scenario.scenario, what, rounds, short, partial(disturbed, scenario), "broker")


ROWS = (
    _row(
        Run("kills", 1, 400), "a worker is killed at a random moment and started again", *(500, 4)
    ),
    _row(Run("rebalances", 1, 3_000, 8), "a signer joins and leaves, in order or not", *(20, 1)),
    _row(
        Run("takeovers", 1, 10_000, 15),
        "an owner is killed for good while a standby without an index waits",
        *(5, 1),
    ),
    _row(
        Run("zombies", 1, 6_000, 15),
        "a worker is halted for longer than its session, and goes on",
        *(10, 1),
    ),
    _row(Run("broker-kills", 1, 10_000, 20), "the broker is killed and started again", *(5, 1)),
    _row(Run("lost-indexes", 1, 10_000, 5), "an owner is killed and its index is deleted", *(5, 1)),
    Row(
        "cuts",
        "a worker's line to the broker is cut for 5 to 60 s, one way or both",
        *(20, 1, cuts, "broker"),
    ),
    Row(
        "replay-kills",
        "a replay of JSON lines, Parquet or Arrow is killed and run again until it ends; its"
        " outputs have the bytes of an undisturbed run",
        *(600, 3, replays.run),
    ),
    Row(
        "clock",
        "the clock of a replay jumps by hours and days; its outputs have the same bytes",
        *(20, 1, clock, "faketime"),
    ),
)
