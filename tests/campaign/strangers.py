"""What only others do: an installed package as a service user, open pipes, very many files.

An installed package is a wheel in an environment outside the checkout, which its user can neither
write nor has a home in. Its verdicts must be those of the checkout, byte for byte. A pipe that
stays open must give each verdict soon after its page. The time for many files must grow with their
number, not with its square. After each round `streamer check --deep` finds no damage.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import IO, Any

from streamer.run.warm import warm_kernels
from tests.campaign.campaign import Campaign, Outcome
from tests.helpers.growing_index import run as command
from tests.helpers.pipes import WAIT_SECONDS_MAX, coprocess, give, line, read_line

ROOT = Path(__file__).parents[2]
NOBODY = 65534
# Another user, who may read everything: Python itself may be in the home of the one who runs this.
AS_NOBODY = (
    *("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"),
    *("--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search", "--"),
)
PAGES, PIPED = 300, 30
RATES = (5, 20, 1_000)  # pages a second
LATENCY_SECONDS_MAX = 1.5 * 4  # 1.5 s is promised, on a machine that nothing else uses
FILES, FILES_OF_A_SLICE = 100_000, 2_000  # of a run; CAMPAIGN_FILES gives another number
PARTS = 4  # the time for all files is compared with that for one part in so many
GROWTH_MAX = 2.0 * PARTS  # if it is linear: PARTS; if quadratic: PARTS * PARTS
CACHES = ("TMPDIR", "STREAMER_CACHE_DIR", "")  # what names a folder for kernels; else in memory
ROUNDS = 12

Figures = Counter[str]


def run(rounds: int, seed: int, folder: Path) -> Outcome:
    """Use the system as an installed package, by pipes and for many files, in turn."""
    warm_kernels()
    violations, figures, worst = [], Counter[str](), 0.0
    for number in range(rounds):
        draw, here = Random(f"{seed}/{number}"), folder / f"round-{number}"
        here.mkdir()
        (here / "key").write_text(f"{7:064d}\n")
        (here / "key").chmod(0o600)
        try:
            if number % 3 == 0:
                _installed(here, CACHES[number // 3 % len(CACHES)], figures)
            elif number % 3 == 1:
                worst = max(worst, _piped(here, draw, figures))
            else:
                _many_files(here, _files(rounds), figures)
        except AssertionError as error:
            violations.append(f"round {number}, seed {seed}: {error}")
        shutil.rmtree(here)
    return Outcome(rounds, violations, round(worst, 2), {**figures})


def _done(*arguments: object) -> None:
    code, said = command(*arguments)
    assert code == 0, (arguments[0], code, said)


def _check(index: Path, key: Path) -> None:
    _done("check", "--index", index, "--deep", "--key-file", key)


# ---- an installed package ------------------------------------------------------------------------


def _installed(here: Path, cache: str, figures: Figures) -> None:
    """Replay with an installed package as another user, and compare its bytes with ours."""
    is_other = os.geteuid() == 0 and shutil.which("setpriv") is not None
    with _place() as place:
        program = _install(place)
        pages = place / "pages.jsonl"
        pages.write_bytes(b"".join(line(number) for number in range(PAGES)))
        shutil.copy(here / "key", place / "work" / "key")
        if is_other:
            for path in (place / "work", place / "work" / "key"):
                os.chown(path, NOBODY, NOBODY)
        environment = {"PATH": os.defpath, "TMPDIR": str(place / "closed")}
        if cache:
            environment[cache] = str(place / "work")
        installed = [*(AS_NOBODY if is_other else ()), str(program)]
        made = _replay(installed, place, environment)
        ours = _replay([sys.executable, "-m", "streamer"], place, dict(os.environ))
        assert made == ours, "an installed package gives other bytes than the checkout"
        _check(place / "work" / "index", here / "key")
    figures["runs of an installed package"] += 1
    figures["runs as another user"] += is_other


@contextmanager
def _place() -> Iterator[Path]:
    """Yield a folder outside the checkout; only `work` in it belongs to the user."""
    with tempfile.TemporaryDirectory() as made:
        place = Path(made)
        place.chmod(0o755)
        for name, mode in (("work", 0o700), ("closed", 0o555)):
            (place / name).mkdir(mode=mode)
        try:
            yield place
        finally:
            for path in (place, *place.rglob("*")):
                if path.is_dir() and not path.is_symlink():
                    path.chmod(0o755)


def _install(place: Path) -> Path:
    """Install a wheel into a new environment, which nobody can write then; return the program.

    What the package needs is that of our environment, whose own `streamer` is not found by it.
    """
    source, venv = place / "source", place / "venv"
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    shutil.copytree(
        ROOT / "streamer", source / "streamer", ignore=shutil.ignore_patterns("__pycache__")
    )
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    _call(*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", place, source)
    _call(sys.executable, "-m", "venv", "--without-pip", venv)
    [wheel] = place.glob("streamer_dedup-*.whl")
    _call(*pip, "--python", venv, "install", "--no-deps", "--no-compile", wheel)
    [packages] = venv.glob("lib/python*/site-packages")
    (packages / "needed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    for path in (venv, *venv.rglob("*")):
        if not path.is_symlink():
            path.chmod(path.stat().st_mode & 0o555)
    return venv / "bin" / "streamer"


def _call(*arguments: object) -> None:
    done = subprocess.run([*map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, (arguments, done.stdout, done.stderr)


def _replay(program: list[str], place: Path, environment: dict[str, str]) -> list[bytes]:
    """Replay the pages to a new index; return the bytes of the outputs."""
    work = place / "work"
    shutil.rmtree(work / "index", ignore_errors=True)
    for path in work.glob("verdicts*"):
        path.unlink()
    done = subprocess.run(
        [
            *program, "replay", str(place / "pages.jsonl"), "--index", str(work / "index"),
            "--verdicts", str(work / "verdicts.jsonl"), "--key-file", str(work / "key"),
            "--threads", "1",
        ],
        cwd=work if program[0] != sys.executable else ROOT, env=environment,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, (program, done.returncode, done.stderr[-2000:])
    assert "Traceback" not in done.stderr, done.stderr[-2000:]
    return [path.read_bytes() for path in sorted(work.glob("verdicts*"))]


# ---- a pipe --------------------------------------------------------------------------------------


def _piped(here: Path, draw: Random, figures: Figures) -> float:
    """Give pages to a co-process at some rate; return the 99th percentile of its seconds."""
    index, rate, key = here / "index", draw.choice(RATES), here / "key"
    with (
        coprocess("--index", str(index), "--key-file", str(key)) as process,
        ThreadPoolExecutor(1) as reader,
    ):
        assert process.stdin
        assert process.stdout
        give(process, line(0))
        found, sent = _read(process.stdout, 1), [math.inf]  # it waits for the program to start
        coming = reader.submit(_read, process.stdout, PIPED - 1)
        for number in range(1, PIPED):
            give(process, line(number))
            sent.append(time.monotonic())
            time.sleep(1 / rate)
        found += coming.result()
        process.stdin.close()
        assert process.wait(WAIT_SECONDS_MAX) == 0
    took = sorted(came - began for (_, came), began in zip(found, sent, strict=True))
    whole, verdicts = here / "pages.jsonl", here / "verdicts.jsonl"
    whole.write_bytes(b"".join(line(number) for number in range(PIPED)))
    _done("replay", whole, "--verdicts", verdicts, "--key-file", key)
    wanted = [json.loads(each) for each in verdicts.open()]
    assert [_said(verdict) for verdict, _ in found] == [*map(_said, wanted)], (
        "a pipe gives other verdicts than a file"
    )
    _check(index, key)
    slow = took[len(took) * 99 // 100]
    assert slow < LATENCY_SECONDS_MAX, f"{rate} pages a second: verdicts took {slow:.1f} s"
    figures["pages through an open pipe"] += PIPED
    return slow


def _read(stream: IO[bytes], count: int) -> list[tuple[Any, float]]:
    """Read verdicts; return each with the time at which it came."""
    return [(json.loads(read_line(stream)), time.monotonic()) for _ in range(count)]


def _said(verdict: dict[str, Any]) -> tuple[Any, ...]:
    other = verdict.get("representative") or {}
    return verdict["url"], verdict["verdict"], verdict.get("similarity"), other.get("url")


# ---- many files ----------------------------------------------------------------------------------


def _files(rounds: int) -> int:
    """Return how many files a run reads: those of the whole campaign, of a slice, or as given."""
    own = FILES if rounds >= ROUNDS else FILES_OF_A_SLICE
    return int(os.environ.get("CAMPAIGN_FILES", own))


def _many_files(here: Path, count: int, figures: Figures) -> None:
    """Judge many small files, and a part of them alone: the time grows as their number does."""
    seconds = []
    for files in (count // PARTS, count):
        folder, index = here / f"files-{files}", here / f"index-{files}"
        folder.mkdir()
        for number in range(files):
            (folder / f"{number:06}.jsonl").write_bytes(line(number))
        verdicts = here / f"verdicts-{files}.jsonl"
        began = time.monotonic()
        _done(
            "replay", folder, "--index", index, "--verdicts", verdicts, "--key-file", here / "key"
        )
        seconds.append(time.monotonic() - began)
        assert len(verdicts.read_bytes().splitlines()) == files
        _check(index, here / "key")
    growth = seconds[1] / seconds[0]
    assert growth < GROWTH_MAX, f"{PARTS} times the files took {growth:.1f} times the time"
    figures["files of a run"] = count
    figures["files a second"] = max(figures["files a second"], round(count / seconds[1]))


CAMPAIGN = Campaign(
    "strangers",
    "An installed package runs as a service user without a home, who cannot write it; pages come by"
    " a pipe that stays open; a run reads very many files. Verdicts are those of the checkout, come"
    " soon after their pages, and take time in proportion to the files.",
    rounds=ROUNDS,
    rounds_in_short=3,
    rounds_in_ci=3,
    run=run,
)
