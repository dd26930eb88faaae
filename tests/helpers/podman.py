"""Containers for tests, by podman: as root, and without systemd."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.helpers.missing import leave_out

ROOT = Path(__file__).parents[2]
VERSION = "0.1.0"
WORKER = f"streamer:{VERSION}"
BROKER = f"streamer-broker:{VERSION}"
HARDENED = ("--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges")
_TOOLS = ("buildah", "podman", "runc", "ip", "nsenter")
# Of containers.conf: no more than a machine may forbid, and what runs beside both kinds of cgroups.
_SETTINGS = """\
[containers]
default_ulimits = ["nofile=16384:16384", "nproc=16384:16384"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
[network]
network_backend = "netavark"
"""


def need_podman() -> None:
    """Leave the tests out where there is no podman or no right to it; never in CI."""
    missing = [tool for tool in _TOOLS if shutil.which(tool) is None]
    if missing or os.geteuid():
        leave_out(", ".join(missing) or "the rights of root", ".ci/tools images, as root")


def environment(folder: Path) -> dict[str, str]:
    """Return the environment in which podman runs, with its settings in `folder`."""
    settings = folder / "containers.conf"
    settings.write_text(_SETTINGS)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # podman-compose
    return {**os.environ, "CONTAINERS_CONF": str(settings), "PATH": path}


class Podman:
    """podman, with settings of its own; each container that it starts is removed at the end."""

    def __init__(self, folder: Path) -> None:
        self._environment = environment(folder)
        self._started: list[str] = []

    def __call__(self, *arguments: str) -> str:
        """Run a command; return what it prints, without the end of the line."""
        done = subprocess.run(
            ["podman", *arguments],  # noqa: S607 - wherever Debian has it
            env=self._environment, capture_output=True, text=True, check=False, timeout=300,
        )  # fmt: skip
        assert done.returncode == 0, (arguments, done.stdout, done.stderr)
        return done.stdout.rstrip("\n")

    def start(self, name: str, *arguments: str) -> None:
        """Start a container on the network of this machine, without any right."""
        self._started.append(name)
        self("run", "--detach", "--name", name, "--network", "host", *HARDENED, *arguments)

    def remove(self, name: str) -> None:
        """Stop and remove a container with its unnamed volumes."""
        self("stop", "--time", "60", name)
        self("rm", "--volumes", name)
        self._started.remove(name)

    def remove_all(self) -> None:
        """Remove all that were started and are still there."""
        for name in list(self._started):
            self.remove(name)

    @contextmanager
    def file_system(self, image: str) -> Iterator[Path]:
        """Provide the files of an image."""
        yield Path(self("image", "mount", image))
        self("image", "unmount", image)
