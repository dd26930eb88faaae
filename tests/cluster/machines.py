"""A cluster of three machines on this one: a control plane and two nodes, each in namespaces.

Each machine has its network, processes and mounts to itself, as a computer has: a bridge connects
them, a node routes the pods of the other one to it. When a machine's first process is killed,
nothing of it is left but its folder.
"""

import csv
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

from tests.cluster.images import write_image
from tests.helpers.secure_broker import Authority

ROOT = Path(__file__).absolute().parents[2]
HERE = Path(__file__).absolute().parent
BRIDGE = "streamer0"
NETWORK = "10.214"  # of 10.0.0.0/8, private; seen by these machines only
HOST = f"{NETWORK}.0.1"
SERVICES = f"{NETWORK}.8.0/24"
DNS = f"{NETWORK}.8.10"
MACHINES = {"control": 10, "node1": 11, "node2": 12}  # the last number of each one's address
NODES = {"node1": f"{NETWORK}.1.0/24", "node2": f"{NETWORK}.2.0/24"}  # and the pods of each
CGROUPS = Path("/sys/fs/cgroup")
USERS = {
    "admin": ("admin", "system:masters"),
    "controllers": ("system:kube-controller-manager", ""),
    "scheduler": ("system:kube-scheduler", ""),
    "proxy": ("system:kube-proxy", ""),
    **{node: (f"system:node:{node}", "system:nodes") for node in NODES},
}


class ClusterError(Exception):
    """The cluster cannot be had, or does not come to what is waited for."""


def address(machine: str) -> str:
    """Return a machine's address."""
    return f"{NETWORK}.0.{MACHINES[machine]}"


def run(*command: str | Path, given: str | None = None, seconds: float = 300) -> str:
    """Return what a command prints.

    Raises:
        ClusterError: it fails, or takes too long; the message ends with what it said.
    """
    try:
        done = subprocess.run(
            [str(part) for part in command],
            input=given,
            capture_output=True,
            text=True,
            check=False,
            timeout=seconds,
        )
    except subprocess.TimeoutExpired as error:
        raise ClusterError(f"{command} takes longer than {seconds:.0f} s") from error
    if done.returncode:
        shown = " ".join(str(part) for part in command)
        raise ClusterError(f"{shown}: {(done.stderr or done.stdout).strip()[-2000:]}")
    return done.stdout


def wait_for(what: str, true: Callable[[], bool], seconds: float = 120) -> None:
    """Wait until `true` says so.

    Raises:
        ClusterError: it does not in time.
    """
    began = time.monotonic()
    while not true():
        if time.monotonic() - began > seconds:
            raise ClusterError(f"{what}: not within {seconds:.0f} s")
        time.sleep(0.3)


def filled(template: Path, **values: object) -> str:
    """Return a file in which the values stand for their names, each behind a dollar sign."""
    text = template.read_text("utf-8")
    for name, value in values.items():
        text = text.replace(f"${name}", str(value))
    return text


def is_ready(found: Mapping[str, Any]) -> bool:
    """Return whether a pod or a node is ready, as the API server has it."""
    conditions = found["status"].get("conditions", ())
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


class Machines:
    """The machines, with all that they keep in `folder`; `tools` holds the programs."""

    def __init__(self, folder: Path, tools: Path) -> None:
        self.folder = folder
        self.tools = tools
        self.kubeconfig = folder / "kubeconfig.admin"

    def up(self) -> None:
        """Start them; return when both nodes are ready.

        Raises:
            ClusterError: they do not start here.
        """
        for name in ("logs", "certs", "volumes", "images", *MACHINES):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o700)  # tokens and keys are in it
        self._write_identities()
        for node in NODES:
            self._write_node(node)
        write_image(self.folder / "images/pause.tar", "localhost/pause:1", self.tools / "pause")
        self._connect()
        for machine in MACHINES:
            self._start(machine)
        wait_for("the API server", self._answers)
        policies = [sys.executable, "-m", "tests.cluster.policies", str(self.folder)]
        self._start_process("policies", policies, os.environ)
        wait_for("two nodes that are ready", lambda: self._ready_nodes() == len(NODES))

    @staticmethod
    def are_there() -> bool:
        """Return whether machines run already, whoever's."""
        return Path(f"/sys/class/net/{BRIDGE}").exists()

    def down(self) -> None:
        """End them and remove all that they have made, whatever of it there is."""
        for file in self.folder.glob("*.pid"):
            _kill(int(file.read_text()), self.folder)
            file.unlink()
        for machine, number in MACHINES.items():
            _try("ip", "netns", "delete", f"streamer-{machine}")
            _try("ip", "link", "delete", f"streamer-{number}")  # else it goes some time later
        _try("ip", "link", "delete", BRIDGE)
        wait_for("the end of all that ran in them", _no_groups, 60)
        if self.folder.exists():
            shutil.rmtree(self.folder)

    def kubectl(self, *arguments: str, given: str | None = None, seconds: float = 300) -> str:
        """Return what kubectl prints, as the administrator."""
        kubectl = (self.tools / "kubectl", f"--kubeconfig={self.kubeconfig}")
        return run(*kubectl, *arguments, given=given, seconds=seconds)

    def get(self, *arguments: str) -> dict[str, Any]:
        """Return objects as the API server has them."""
        found: dict[str, Any] = yaml.safe_load(self.kubectl("get", *arguments, "--output=json"))
        return found

    def inside(self, machine: str, *command: str | Path) -> str:
        """Return what a command prints that is run in a machine."""
        (first,) = _children(int((self.folder / f"{machine}.pid").read_text()))
        return run("nsenter", "--target", str(first), "--all", *command)

    def load(self, archive: Path, *names: str) -> None:
        """Import an archive of images on both nodes, and give the image more names.

        Raises:
            ClusterError: the archive is not one.
        """
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda node: self._load(node, archive, names), NODES))

    def _load(self, node: str, archive: Path, names: tuple[str, ...]) -> None:
        ctr = ("ctr", "--namespace", "k8s.io", "images")
        said = self.inside(node, *ctr, "import", archive).split()
        for name in names:
            self.inside(node, *ctr, "tag", "--force", said[1], name)  # unpacking IMAGE (sha256:

    def _write_identities(self) -> None:
        """Write the authority, the API server's certificate, and a kubeconfig for each user."""
        certs = self.folder / "certs"
        authority = Authority(certs)
        service = f"{NETWORK}.8.1"
        names = ("kubernetes.default.svc", "kubernetes.default.svc.cluster.local")
        authority.give("api", (address("control"), service, *names))
        key = certs / "accounts.key"
        run("openssl", "genrsa", "-out", key, "2048")
        run("openssl", "rsa", "-in", key, "-pubout", "-out", certs / "accounts.pem")
        tokens = {name: secrets.token_hex(16) for name in USERS}
        with (certs / "tokens.csv").open("w", encoding="utf-8") as file:
            rows = csv.writer(file)
            for name, (user, group) in USERS.items():
                rows.writerow([tokens[name], user, name, *([group] if group else [])])
        server = f"https://{address('control')}:6443"
        known = {"SERVER": server, "AUTHORITY": authority.cafile}
        for name in USERS:
            written = filled(HERE / "node/kubeconfig.yaml", USER=name, TOKEN=tokens[name], **known)
            path = self.folder / f"kubeconfig.{name}"
            path.touch(mode=0o600)
            path.write_text(written, encoding="utf-8")

    def _write_node(self, node: str) -> None:
        """Write the settings of a node's programs."""
        folder = self.folder / node
        (folder / "cni").mkdir(exist_ok=True)
        for name in ("containerd.toml", "kubelet.yaml", "proxy.yaml", "cni/10-pods.conflist"):
            text = filled(
                HERE / "node" / Path(name).name, FOLDER=folder, CLUSTER=self.folder, NODE=node,
                PODS=NODES[node], DNS=DNS, NETWORK=NETWORK,
            )  # fmt: skip
            (folder / name).write_text(text, encoding="utf-8")
        (folder / "resolv.conf").touch()
        for group in CGROUPS.iterdir():
            with suppress(OSError):  # what is no hierarchy, as a link to one
                (group / "streamer" / node).mkdir(parents=True, exist_ok=True)

    def _connect(self) -> None:
        """Lay the bridge, and a line from each machine to it."""
        _ip("link", "add", BRIDGE, "type", "bridge")
        _ip("address", "add", f"{HOST}/24", "dev", BRIDGE)
        _ip("link", "set", BRIDGE, "up")
        for machine, number in MACHINES.items():
            space, here = f"streamer-{machine}", f"streamer-{number}"
            _ip("netns", "add", space)
            _ip("link", "add", here, "type", "veth", "peer", "name", "eth0", "netns", space)
            _ip("link", "set", here, "master", BRIDGE, "up")
            _ip("-n", space, "link", "set", "lo", "up")
            _ip("-n", space, "address", "add", f"{address(machine)}/24", "dev", "eth0")
            _ip("-n", space, "link", "set", "eth0", "up")
            _ip("-n", space, "route", "add", "default", "via", HOST)
            for node, pods in NODES.items():
                if node != machine:
                    _ip("-n", space, "route", "add", pods, "via", address(node))
            forward = "echo 1 > /proc/sys/net/ipv4/ip_forward"
            run("nsenter", f"--net=/run/netns/{space}", "sh", "-c", forward)

    def _start(self, machine: str) -> None:
        """Start a machine's first process."""
        kind = "control" if machine == "control" else "node"
        command = [
            "nsenter", f"--net=/run/netns/streamer-{machine}",
            "unshare", "--mount", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc",
            str(HERE / "machine"), kind, machine, str(self.folder / machine), str(self.tools),
        ]  # fmt: skip
        environment = {**os.environ, "ADDRESS": address(machine), "SERVICES": SERVICES}
        self._start_process(machine, command, environment)

    def _start_process(self, name: str, command: list[str], environment: Mapping[str, str]) -> None:
        with (self.folder / f"logs/{name}.log").open("w") as log:
            started = subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        (self.folder / f"{name}.pid").write_text(str(started.pid))

    def _answers(self) -> bool:
        try:
            return self.kubectl("get", "--raw=/readyz", seconds=10) == "ok"
        except ClusterError:
            return False

    def _ready_nodes(self) -> int:
        return sum(map(is_ready, self.get("nodes")["items"]))


def _ip(*arguments: str) -> str:
    return run("ip", *arguments)


def _try(*command: str) -> None:
    subprocess.run(command, capture_output=True, check=False)


def _kill(process: int, folder: Path) -> None:
    """Kill a machine's first process, if it is still ours, and wait until it is gone."""
    try:
        command = Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return
    if str(folder).encode() not in command:
        return
    for one in (*_children(process), process):
        with suppress(ProcessLookupError):
            os.kill(one, signal.SIGKILL)
    with suppress(ChildProcessError):
        os.waitpid(process, 0)
    wait_for("the end of a machine", lambda: not Path(f"/proc/{process}").exists(), 30)


def _no_groups() -> bool:
    """Remove the control groups; those of processes that are about to end can go a little later."""
    groups = CGROUPS.glob("*/streamer/**/")
    for group in sorted(groups, key=lambda path: -len(path.parts)):
        with suppress(OSError):
            group.rmdir()
    return not any(CGROUPS.glob("*/streamer"))


def _children(process: int) -> list[int]:
    task = Path(f"/proc/{process}/task/{process}/children")
    return [int(child) for child in task.read_text().split()] if task.exists() else []


def say(text: str) -> None:
    """Tell what is being done."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
