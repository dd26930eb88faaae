"""docs/kubernetes.md, and the table that is printed: what was tried, on what, for how long."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from rich.table import Table

from benchmarks import machine
from benchmarks.figures import markdown
from tests.cluster.life import Step
from tests.cluster.machines import Machines, run

HEAD = """\
# Kubernetes, as it was tried

Written by `deploy/kubernetes/try run` from what it has measured; nothing on this page is typed by
hand but what could not be had. It starts two nodes, three brokers, and what `deploy/kubernetes`
holds, while a crawler sends 30 pages a second; then it does what is listed, by the commands of
[deploy/README.md](../deploy/README.md). A step has ended when all pods are ready again. A pause is
the longest time between two verdicts in their topic, a wait that from a page to its verdict, by the
brokers' clock. After each step
`streamer verify` holds all pages, logs and verdicts against the promises
([architecture.md](architecture.md)); what is broken is told below the table.
"""
NOT_HAD = """\
## What could not be had

- **Machines of their own.** Both nodes and the control plane are namespaces of one machine: each
  has its own containerd, kubelet, kube-proxy, network, mounts and processes, and they share
  processors and a disk. A node that is lost, rather than drained, was not tried.
- **A network plugin that enforces policies.** Those that are Go modules (kube-router,
  kube-network-policies, Calico, weave, Azure's) could not be fetched, or not all of what they
  stand on. So `tests/cluster/policies.py` takes the policies from the API server and writes them
  into the nodes' packet filters. What was tried is thereby that the policies name all that is
  needed and nothing more; not how a certain plugin reads them.
- **Volumes over a network.** The volumes are folders that both nodes can mount, of a storage class
  without a provisioner. That a pod finds its data again on another node was tried; that a disk is
  detached here and attached there was not.
- **Control groups of version 2.** This kernel has version 1, of which Kubernetes 1.33 warns.
- **A registry.** Images are imported into the nodes. The new version that is rolled out is the same
  image under another tag.
"""


def table(steps: Sequence[Step]) -> Table:
    """Return the steps with their times and pauses."""
    made = Table("step")
    for header in ("took", "verdicts paused", "longest wait", "then"):
        made.add_column(header, justify="right")
    for step in steps:
        spans = (step.seconds, step.pause_seconds, step.wait_seconds)
        shown = ("" if span is None else f"{span:.1f} s" for span in spans)
        made.add_row(step.name, *shown, step.note)
    return made


def versions(machines: Machines) -> Table:
    """Return what it ran on."""
    kubernetes = machines.kubectl(
        "get", "nodes", "--output=jsonpath={.items[0].status.nodeInfo.kubeletVersion}"
    )
    broker = machines.kubectl(
        "exec", "--namespace=kafka", "kafka-0", "--", "ls", "/opt/broker/libs"
    )
    kafka = next(name for name in broker.split() if name.startswith("kafka-clients-"))
    found = {
        "Kubernetes": kubernetes,
        "CoreDNS": run(machines.tools / "coredns", "-version").split()[0],
        "etcd": run("etcd", "--version").split()[2],
        "containerd": run("containerd", "--version").split()[2],
        "runc": run("runc", "--version").split()[2],
        "Apache Kafka": kafka.removeprefix("kafka-clients-").removesuffix(".jar"),
        "Linux": run("uname", "--kernel-release").strip(),
    }
    made = Table("what", "version")
    for name, version in found.items():
        made.add_row(name, version)
    return made


def write_page(steps: Sequence[Step], used: Table, out: Path, broken: Sequence[str]) -> None:
    """Write the page; `broken` is what did not hold."""
    here = machine.describe()
    busy = f" The machine was busy: its load was {here.load:g}." if here.is_busy else ""
    ran = (
        f"Run {datetime.now(UTC).date().isoformat()} on {here.processor}, {here.cores} cores,"
        f" {here.memory_bytes / 2**30:.0f} GiB; commit {here.commit or 'unknown'}.{busy}"
    )
    failed = [f"**Did not hold:** {one}" for one in broken]
    shown = [markdown([table(steps)]), *failed, "## What it ran on", markdown([used])]
    parts = [HEAD, ran, *shown, NOT_HAD]
    out.write_text("\n\n".join(part.strip() for part in parts) + "\n", encoding="utf-8")
