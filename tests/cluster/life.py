"""The life of a deployment, step by step: what is done to it, for how long, and what verdicts do.

The commands are those of deploy/README.md. After each step all pods are ready again, the longest
time between two verdicts is read from their topic, and `streamer verify` has held the whole index
against its promises.
"""

import itertools
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.cluster.images import write_image
from tests.cluster.machines import (
    HERE,
    ROOT,
    ClusterError,
    Machines,
    address,
    filled,
    is_ready,
    say,
    wait_for,
)
from tests.cluster.readme import Readme
from tests.helpers.secure_broker import Authority

SPACE = "streamer"
INDEX, SIGN = "statefulset/streamer-index", "deployment/streamer-sign"
VOLUMES = 8
NEW = "streamer:0.1.1"  # the same image under another tag
PASSWORDS = ("correct horse=battery", "staple=correct horse")
LOOK_BACK_SECONDS = 60  # so that there is a verdict before what is timed
BUSY = 4  # processes that wait for each processor: then times say little
FIRST_VERDICT_SECONDS = 120  # what deploy/README.md promises of a fresh cluster
# When each verdict has arrived at the brokers, and how long after its page, in milliseconds; null
# where the page came before what is read. These are the timestamps of the topics.
READ_TIMES = """
import asyncio, json, sys
from aiokafka import TopicPartition
from streamer.cli.options import connection_of
from streamer.config import load_settings
from streamer.kafka.reader import open_reader
async def records(reader, topic, since):
    for number in await reader.partitions(topic):
        place = TopicPartition(topic, number)
        _, end = await reader.bounds(topic, number)
        first = (await reader.consumer.offsets_for_times({place: since}))[place]
        if first is not None:
            async for chunk in reader.read(topic, number, first.offset, end):
                for record in chunk.records:
                    yield record
async def read(topic, since):
    settings = load_settings(None)
    async with open_reader(connection_of(settings).client_options()) as reader:
        pages = {(page.partition, page.offset): page.timestamp
                 async for page in records(reader, settings.input_topic, since)}
        found = []
        async for record in records(reader, topic, since):
            place = json.loads(record.value)["page"]
            sent = pages.get((place["partition"], place["offset"]))
            found.append((record.timestamp, sent and record.timestamp - sent))
    print(json.dumps(sorted(found, key=lambda one: one[0])))
asyncio.run(read(sys.argv[1], int(sys.argv[2])))
"""
REACH = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 3)"


@dataclass
class Step:
    """What was done: how long until all was as before, and what verdicts did meanwhile.

    Attributes:
        pause_seconds: the longest time between two verdicts.
        wait_seconds: the longest time from a page to its verdict.
    """

    name: str
    seconds: float
    pause_seconds: float | None
    wait_seconds: float | None
    note: str


@dataclass
class Life:
    """A deployment on machines that run; `steps` grows."""

    machines: Machines
    images: Path
    index: str = "streamer"
    steps: list[Step] = field(default_factory=list)
    readme: Readme = field(default_factory=Readme)

    def __post_init__(self) -> None:
        self.work = self.machines.folder / "work"
        self.kubectl = self.machines.kubectl

    # What the deployment needs, and does not bring along.

    def furnish(self) -> None:
        """Give the cluster its names, its volumes, the images, and Kafka with a crawler."""
        machines = self.machines
        write_image(
            machines.folder / "images/coredns.tar",
            "localhost/coredns:1",
            machines.tools / "coredns",
        )
        machines.load(machines.folder / "images/coredns.tar")
        for name in ("dns", "volumes"):
            self.kubectl("apply", "-f", str(HERE / f"manifests/{name}.yaml"))
        volumes = "---\n".join(map(self._volume, range(VOLUMES)))
        self.kubectl("apply", "-f", "-", given=volumes)
        machines.load(self.images / "broker.tar")
        machines.load(self.images / "streamer.tar", f"docker.io/library/{NEW}")
        self._start_kafka()
        self.work.mkdir(exist_ok=True)
        shutil.copytree(ROOT / "deploy", self.work / "deploy", dirs_exist_ok=True)
        shutil.copy(self._authority(), self.work / "ca.crt")
        rollout = ("rollout", "status", "--timeout=180s")
        self.kubectl(*rollout, "--namespace=kube-system", "deployment/coredns")
        self.kubectl(*rollout, "--namespace=kafka", "statefulset/kafka")
        self._feed(1)
        self.kubectl(*rollout, "--namespace=kafka", "deployment/crawler")

    def _volume(self, number: int) -> str:
        folder = self.machines.folder / "volumes" / str(number)
        folder.mkdir()
        return filled(HERE / "manifests/volume.yaml", NUMBER=number, FOLDER=folder)

    def _authority(self) -> Path:
        return self.machines.folder / "certs/kafka/kafka-ca.pem"

    def _start_kafka(self) -> None:
        self._authority().parent.mkdir(exist_ok=True)
        authority = Authority(self._authority().parent, "kafka-ca")
        names = [f"kafka-{number}.kafka.kafka.svc" for number in range(3)]
        certificate, key = authority.give("kafka", ("kafka-bootstrap.kafka.svc", *names))
        store = certificate.with_name("store.pem")
        store.write_bytes(key.read_bytes() + certificate.read_bytes())
        self.kubectl("create", "namespace", "kafka")
        self.kubectl(
            "--namespace=kafka", "create", "secret", "generic", "kafka",
            f"--from-file=store.pem={store}",
            f"--from-file=ca.crt={authority.cafile}",
            f"--from-literal=password={PASSWORDS[0]}",
        )  # fmt: skip
        for name in ("kafka", "crawler"):
            self.kubectl("apply", "-f", str(HERE / f"manifests/{name}.yaml"))

    def _feed(self, crawlers: int) -> None:
        self.kubectl("--namespace=kafka", "scale", "deployment/crawler", f"--replicas={crawlers}")

    # The steps.

    def secrets(self) -> None:
        """Make the namespace and the Secret, and let nothing in it that is not restricted."""
        self._do("create namespace streamer", KAFKA_PASSWORD=PASSWORDS[0])
        level = "pod-security.kubernetes.io/enforce=restricted"
        self.kubectl("label", "namespace", SPACE, level)

    def dry_run(self) -> None:
        """Have the API server look at the base, the overlays, and the base with each component."""
        definitions = sorted((ROOT / "build/crds").glob("*.yaml"))
        for file in definitions:
            self.kubectl("apply", "--server-side", "-f", str(file))
        if definitions:
            self.kubectl("wait", "--for=condition=Established", "crd", "--all")
        deployed = self.work / "deploy/kubernetes"
        for folder in [
            deployed / "base",
            *sorted((deployed / "overlays").iterdir()),
            *map(_with_component, sorted((deployed / "components").iterdir())),
            deployed / "strimzi",
        ]:
            manifests = list(yaml.safe_load_all(self.kubectl("kustomize", str(folder))))
            apply = ("apply", f"--namespace={SPACE}", "--dry-run=server")
            accepted = self.kubectl(*apply, "-k", str(folder)).splitlines()
            say(f"the API server accepts {folder.name}: {len(accepted)} objects")
            assert len(accepted) == len(manifests), accepted

    def base(self) -> None:
        """Apply the base as it stands, on a cluster that has never seen it."""
        with self.step("the base is applied, until its first verdict") as step:
            since = time.time()
            self._do("apply --namespace streamer -k deploy/kubernetes/base")
            first = self._first_verdict(since)
            step.seconds = first
        load = os.getloadavg()[0] / len(os.sched_getaffinity(0))
        if first > FIRST_VERDICT_SECONDS and load < BUSY:
            raise ClusterError(f"the first verdict came after {first:.0f} s")

    def per_partition(self) -> None:
        """Apply an overlay with an index for each partition, on a cluster that has seen none."""
        self._do("cp -r deploy/kubernetes/overlays/six-signers")
        self._write_overlay("0.1.0", "../per-partition")
        with self.step("two pods own an index for each partition, until the first verdict") as step:
            since = time.time()
            self._do("kubectl kustomize deploy/kubernetes/overlays/mine")
            step.seconds = self._first_verdict(since)
        for pod in range(2):
            own = self._exec(f"streamer-index-{pod}", "ls", "/var/lib/streamer").split()
            assert {int(name[6:]) % 2 for name in own if name.startswith("shard-")} == {pod}, own

    def overlay(self) -> None:
        """Replace the index by one of the overlay, which is a new index."""
        self._do("cp -r deploy/kubernetes/overlays/six-signers")
        self.index = "streamer-2"
        self._write_overlay("0.1.0")
        with self.step("an overlay in its place, a new index, until the first verdict") as step:
            self._do("delete pvc --selector")
            wait_for("the end of the old pods", lambda: not self._pods())
            since = time.time()
            self._do("kubectl kustomize deploy/kubernetes/overlays/mine")
            step.seconds = self._first_verdict(since)

    def quiet(self) -> None:
        """Do nothing for a while, to know how long verdicts pause by themselves."""
        with self.step("nothing, for comparison"):
            time.sleep(20)

    def new_version(self) -> None:
        """Roll out another version."""
        self._write_overlay(NEW.partition(":")[2])
        with self.step("rollout of a new version"):
            self._do("rollout status deployment/streamer-sign")
        used = {
            container["image"] for pod in self._pods() for container in pod["spec"]["containers"]
        }
        assert used == {NEW}, used

    def restart(self) -> None:
        """Start all pods again, as a rollout of another version does."""
        with self.step("rollout of a new version"):
            for what in (INDEX, SIGN):
                self.kubectl(f"--namespace={SPACE}", "set", "image", what, f"worker={NEW}")

    def kill_process(self) -> None:
        """Kill the process of the index: its container is started again, in the same pod."""
        pod = self._pods("index")[0]
        container = pod["status"]["containerStatuses"][0]["containerID"].rpartition("/")[2]
        ctr = ("ctr", "--namespace", "k8s.io", "task", "kill", "--signal", "SIGKILL", container)
        with self.step("the index's process is killed"):
            self.machines.inside(pod["spec"]["nodeName"], *ctr)
            wait_for("its end", lambda: not _serves(self._pods("index")[0]), 30)
        self._do("logs --previous")

    def kill_pod(self, component: str) -> None:
        """Delete a pod of the index, or a signer, without giving it time to end in order."""
        pod = self._pods(component)[0]["metadata"]
        with self.step(f"a pod is killed: {'the index' if component == 'index' else 'a signer'}"):
            kill = ("delete", "pod", pod["name"], "--grace-period=0", "--force")
            self.kubectl(f"--namespace={SPACE}", *kill)
            wait_for("another pod", lambda: pod["uid"] not in self._uids())

    def drain(self) -> None:
        """Drain a node: its pods come up on the other one, with the volumes that they had."""
        if self._pods("index")[0]["spec"]["nodeName"] != "node2":  # its pod may be on either
            self.kubectl("cordon", "node1")
            self.kubectl(f"--namespace={SPACE}", "delete", "pod", "streamer-index-0")
            self._settle()
            self.kubectl("uncordon", "node1")
        before = {pod["metadata"]["name"]: self._place(pod) for pod in self._pods("index")}
        moving = [name for name, (node, *_) in before.items() if node == "node2"]
        assert moving, before
        with self.step("a node is drained") as step:
            self._do("kubectl drain node2")
            self._settle()
            after = {pod["metadata"]["name"]: self._place(pod) for pod in self._pods("index")}
            for name in moving:
                (_, *volume), (node, *now) = before[name], after[name]
                assert (node, now) == ("node1", volume), (name, before[name], after[name])
            step.note = f"{', '.join(moving)} came up on node1 with the volume of before"
        with self.step("it is given back"):
            self._do("kubectl uncordon node2")

    def scale_out(self) -> None:
        """Have four signers instead of two."""
        with self.step("four signers instead of two"):
            self._do("scale deployment/streamer-sign")
        assert len(self._pods("sign")) == 4

    def rotate(self) -> None:
        """Change the password at the brokers, in the Secret, and in the pods."""
        with self.step("the brokers' password is changed"):
            self._kafka_password(PASSWORDS[1])
            self._do("--dry-run=client", KAFKA_PASSWORD=PASSWORDS[1])

    def lose_volume(self) -> None:
        """Lose the index's disk: it is rebuilt from its log, on another one."""
        claim = ("pvc", "index-streamer-index-0")
        before = self.machines.get(f"--namespace={SPACE}", *claim)["spec"]["volumeName"]
        with self.step("the index's volume is lost") as step:
            self._do("delete pvc index-streamer-index-0")
            self._settle()
            after = self.machines.get(f"--namespace={SPACE}", *claim)["spec"]["volumeName"]
            assert before != after, before
            step.note = "rebuilt from its log, on another volume"

    def policies(self) -> None:
        """See that packets pass where a policy lets them, and nowhere else."""
        say("== who reaches whom")
        index, sign = self._pods("index")[0], self._pods("sign")[0]
        self.kubectl("create", "namespace", "elsewhere")
        self.kubectl("create", "namespace", "monitoring")
        for space in ("elsewhere", "monitoring"):
            self.kubectl(
                f"--namespace={space}", "run", "probe", "--image=streamer:0.1.0",
                "--image-pull-policy=Never", "--command", "--", "sleep", "3600",
            )  # fmt: skip
            self.kubectl(f"--namespace={space}", "wait", "--for=condition=Ready", "pod/probe")
        time.sleep(2)  # until the filters know of them
        ours = (SPACE, sign["metadata"]["name"])
        health = index["status"]["podIP"]
        elsewhere = self.machines.get("--namespace=elsewhere", "pod", "probe")["status"]["podIP"]
        kafka, other = "kafka-0.kafka.kafka.svc", ("elsewhere", "probe")
        for who, host, port, may in (
            (ours, kafka, 9093, True),
            (ours, kafka, 9092, False),
            (ours, elsewhere, 8080, False),
            (ours, health, 8080, False),
            (ours, "kubernetes.default.svc", 443, False),
            (ours, address("control"), 6443, False),
            (("monitoring", "probe"), health, 8080, True),
            (other, health, 8080, False),
            (other, kafka, 9092, True),
            (other, "kubernetes.default.svc", 443, True),
        ):
            reached = self._reaches(who, host, port)
            say(f"{who[0]} {'reaches' if reached else 'does not reach'} {host}:{port}")
            if reached != may:
                raise ClusterError(f"{who} {'must' if may else 'must not'} reach {host}:{port}")

    def end(self) -> None:
        """Stop the crawler, and see that every page has its verdict."""
        self._feed(0)
        say("== the crawler has ended: all must be judged")
        self._verify("--settled", "--wait", "60")

    def read_only(self) -> None:
        """Run what of the README only looks."""
        say(self._do("get pods"))

    # How it is looked at.

    @contextmanager
    def step(self, name: str) -> Iterator[Step]:
        """Time what the block does, until all pods are ready; then verify."""
        say(f"== {name}")
        step = Step(name, 0, None, None, "")
        began = time.time()
        yield step
        self._settle()
        ended = time.time()
        step.seconds = step.seconds or ended - began
        time.sleep(1)  # for a verdict after it
        found = self._verdicts_after(began)
        if not found:
            raise ClusterError(f"{name}: no verdict since, nor in the {LOOK_BACK_SECONDS} s before")
        times = [arrived for arrived, _ in found]
        if times[0] < began:
            step.pause_seconds = longest_pause(times, began, ended)
            waits = [wait for arrived, wait in found if arrived >= began and wait is not None]
            step.wait_seconds = max(waits, default=None)
        say(
            f"{name}: {step.seconds:.1f} s, paused {step.pause_seconds}, waited {step.wait_seconds}"
        )
        step.note = "; ".join(part for part in (step.note, self._verify()) if part)
        self.steps.append(step)

    def _do(self, part: str, **environment: str) -> str:
        """Run the block of commands of the README in which `part` stands; return what it prints."""
        block = self.readme.block(part)
        say("".join(f"   $ {line}\n" for line in block.splitlines()).rstrip())
        done = subprocess.run(
            ["/bin/bash", "-euo", "pipefail", "-c", block],
            env={
                **os.environ,
                "PATH": f"{self.machines.tools}:{os.environ['PATH']}",
                "KUBECONFIG": str(self.machines.kubeconfig),
                **environment,
            },
            cwd=self.work,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=600,
            check=False,
        )
        if done.returncode:
            raise ClusterError(f"{block}exit code {done.returncode}: {done.stdout[-2000:]}")
        return done.stdout

    def _settle(self) -> None:
        """Wait until all pods are ready, and none of before is left."""
        for what in (INDEX, SIGN):
            self.kubectl(f"--namespace={SPACE}", "rollout", "status", what, "--timeout=240s")
        wait_for("the end of old pods", lambda: all(map(_serves, self._pods())))

    def _pods(self, component: str = "index,sign") -> list[dict[str, Any]]:
        wanted = f"--selector=app.kubernetes.io/component in ({component.replace(',', ', ')})"
        found: list[dict[str, Any]] = self.machines.get(f"--namespace={SPACE}", "pods", wanted)[
            "items"
        ]
        return found

    def _uids(self) -> set[str]:
        return {pod["metadata"]["uid"] for pod in self._pods()}

    def _place(self, pod: dict[str, Any]) -> tuple[str, str, str]:
        """Return a pod's node, its volume, and what shows that the folder is still the same one."""
        name = pod["metadata"]["name"]
        claim = self.machines.get(f"--namespace={SPACE}", "pvc", f"index-{name}")
        inode = self._exec(name, "stat", "--format=%i", "/var/lib/streamer/shard-0").strip()
        return pod["spec"]["nodeName"], claim["spec"]["volumeName"], inode

    def _exec(self, where: str, *command: str, space: str = SPACE) -> str:
        return self.kubectl(f"--namespace={space}", "exec", where, "--", *command)

    def _reaches(self, who: tuple[str, str], host: str, port: int) -> bool:
        try:
            self._exec(who[1], "python", "-c", REACH, host, str(port), space=who[0])
        except ClusterError as error:
            if "Error" not in str(error):
                raise
            return False
        return True

    def _verify(self, *options: str) -> str:
        """Hold the index against its promises; return what was counted."""
        where = "/tmp/verified.json"  # noqa: S108 - in the pod
        self._exec(SIGN, "streamer", "verify", "--json", where, "--overwrite", *options)
        counted = json.loads(self._exec(SIGN, "cat", where))
        pages = counted["checks"]["outcomes"]["looked_at"]
        say(f"verified: {pages:,} pages, {counted['counts']}")
        return f"{pages:,} pages verified"

    def _first_verdict(self, since: float) -> float:
        """Wait for a verdict; return how long after `since` the first one arrived."""
        found: list[float] = []

        def there() -> bool:
            try:
                found[:] = [arrived for arrived, _ in self._verdicts_after(since)]
            except ClusterError:  # no pod yet, or no topic
                return False
            return bool(found)

        wait_for("the first verdict", there, 300)
        return found[0] - since  # there is none before: the index is new

    def _verdicts_after(self, since: float) -> list[tuple[float, float | None]]:
        """Return when verdicts arrived, from a little before a moment on, and after which wait."""
        names = (f"{self.index}.verdicts", str(round(since * 1000) - LOOK_BACK_SECONDS * 1000))
        printed = self._exec(SIGN, "python", "-c", READ_TIMES, *names)
        return [
            (arrived / 1000, None if wait is None else wait / 1000)
            for arrived, wait in json.loads(printed)
        ]

    def _kafka_password(self, password: str) -> None:
        change = f"SCRAM-SHA-512=[password={password}]"
        self._exec(
            "kafka-0", "java", "-cp", "/opt/broker/libs/*", "kafka.admin.ConfigCommand",
            "--bootstrap-server", "localhost:9092", "--alter", "--entity-type", "users",
            "--entity-name", "streamer", "--add-config", change, space="kafka",
        )  # fmt: skip
        # For a crawler that starts later: one that runs stays connected.
        given = json.dumps({"stringData": {"password": password}})
        self.kubectl("--namespace=kafka", "patch", "secret", "kafka", f"--patch={given}")

    def _write_overlay(self, tag: str, base: str = "../../base") -> None:
        """Change the copy of the overlay as the README says: for this cluster's size and names."""
        written = filled(HERE / "manifests/overlay.yaml", INDEX=self.index, TAG=tag, BASE=base)
        path = self.work / "deploy/kubernetes/overlays/mine/kustomization.yaml"
        path.write_text(written, encoding="utf-8")


def _with_component(component: Path) -> Path:
    """Make an overlay of the base with a component, and with its transformer if it has one."""
    deployed = component.parents[1]
    folder = deployed / f"with-{component.name}"
    folder.mkdir()
    written = {"resources": ["../base"], "components": [f"../components/{component.name}"]}
    if (deployed / "transformers" / component.name).exists():
        written["transformers"] = [f"../transformers/{component.name}"]
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(written), encoding="utf-8")
    return folder


def longest_pause(times: list[float], began: float, ended: float) -> float:
    """Return the longest time without a verdict that touches the time between two moments."""
    gaps = itertools.pairwise([*times, max([ended, *times])])
    return max(after - before for before, after in gaps if after >= began and before <= ended)


def _serves(pod: dict[str, Any]) -> bool:
    return "deletionTimestamp" not in pod["metadata"] and is_ready(pod)
