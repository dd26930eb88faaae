"""On what a benchmark ran: the machine, the versions and the commit, as figures need to be read.

A figure without its machine says nothing, and one from a busy machine says little: so the load of
the last minute is next to the number of cores. Nothing here may fail a run; what cannot be read
is null.
"""

import os
import platform
import shutil
import subprocess
from importlib import metadata
from pathlib import Path

import msgspec

ROOT = Path(__file__).absolute().parents[1]
PACKAGES = (
    "streamer",
    "numba",
    "numpy",
    "msgspec",
    "rocksdict",
    "rensa",
    "datasketch",
    "gaoya",
    "simhash",
    "datatrove",
)


class Machine(msgspec.Struct, frozen=True):
    """The conditions of a run; `load` is the average of the minute before it.

    `commit` ends in `+` where the checkout has changes that are not in it, those of docs/ apart.
    """

    processor: str
    cores: int
    memory_bytes: int
    load: float
    system: str
    python: str
    packages: dict[str, str | None]
    commit: str | None

    @property
    def is_busy(self) -> bool:
        """Return whether others were running when the benchmark began."""
        return self.load > self.cores / 4

    def line(self) -> str:
        """Return what figures were measured on, without the load."""
        packages = ", ".join(f"{name} {one or 'absent'}" for name, one in self.packages.items())
        return (
            f"{self.processor}, {self.cores} cores, {self.memory_bytes / 2**30:.0f} GiB;"
            f" {self.system}; Python {self.python}; {packages}; commit {self.commit or 'unknown'}"
        )


def describe() -> Machine:
    """Return what this machine, environment and checkout are."""
    return Machine(
        processor=_processor(),
        cores=len(os.sched_getaffinity(0)),
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        load=round(os.getloadavg()[0], 2),
        system=platform.platform(),
        python=platform.python_version(),
        packages={name: _version(name) for name in PACKAGES},
        commit=_commit(),
    )


def _processor() -> str:
    """Return the processor's name as the kernel tells it, else its architecture."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _commit() -> str | None:
    """Return the checkout's commit; None outside of a checkout, or without git."""
    git = shutil.which("git")
    if git is None:
        return None

    def answer(*arguments: str) -> str | None:
        done = subprocess.run(
            [git, "-C", str(ROOT), *arguments], capture_output=True, text=True, check=False
        )
        return done.stdout.strip() if done.returncode == 0 else None

    head = answer("rev-parse", "--short=12", "HEAD")
    # A page that was written from results does not change what they were measured with.
    changes = answer("status", "--porcelain", "--", ".", ":(exclude)docs")
    return head and head + ("+" if changes else "")
