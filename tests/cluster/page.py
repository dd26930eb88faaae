"""docs/kubernetes.md, and the table that is printed: what was tried, on what, for how long."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from rich.table import Table

from benchmarks import machine
from benchmarks.figures import markdown
from tests.cluster.life import Step
from tests.cluster.machines import HERE, Machines, filled, run


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
    shown = "\n\n".join(part.strip() for part in (markdown([table(steps)]), *failed))
    template = HERE / "manifests/page.template"
    out.write_text(
        filled(template, RAN=ran, STEPS=shown, USED=markdown([used]).strip()), encoding="utf-8"
    )
