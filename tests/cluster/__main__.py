"""Runs the manifests of deploy/kubernetes on a cluster of its own: deploy/kubernetes/try --help.

commands:
  up      start two nodes with names, volumes, Kafka and a crawler, apply the base, and leave it so
  run     that and all that a deployment lives through; write docs/kubernetes.md; end it
  short   as continuous integration does it: an index for each partition, owned by two pods, has
          verdicts, is rolled out again, loses a pod, and is verified; end it
  chart   the base, and the Helm chart next to it: installed, tested, upgraded, removed; end it
  down    end it, and leave nothing of it behind

The first time Kubernetes is built from its Go module, which takes 6 minutes or more (deploy/tools
kubernetes), and the images are made (deploy/image build). Root on Debian is needed, and Go.

examples:
  deploy/kubernetes/try up
  build/tools/kubectl --kubeconfig build/cluster/kubeconfig.admin --namespace streamer get pods
  deploy/kubernetes/try down

exit codes: 0 done, 1 something did not hold or could not be had.
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from tests.cluster import page
from tests.cluster.chart import try_chart
from tests.cluster.life import Life
from tests.cluster.machines import ROOT, ClusterError, Machines, say

FAILURES = (ClusterError, AssertionError, subprocess.TimeoutExpired)
Step = Callable[[Life], None]


def main() -> int:
    """Do what was asked for; return the exit code."""
    asked = _asked()
    folder = (ROOT / "build/cluster").absolute()
    tools = Path(os.environ.get("STREAMER_TOOLS") or ROOT / "build/tools").absolute()
    machines = Machines(folder, tools)
    if asked.command == "down":
        machines.down()
        return 0
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if machines.are_there():
        say("try: a cluster runs on this machine already; `deploy/kubernetes/try down` ends it")
        return 1
    began = time.monotonic()
    life = Life(machines, asked.images or ROOT / "build/images")
    broken: list[str] = []
    try:
        _prepare(asked.images)
        machines.up()
        say(f"Two nodes are ready, after {time.monotonic() - began:.0f} s.")
        life.furnish()
        say(f"Kafka and a crawler run, after {time.monotonic() - began:.0f} s.")
        for step in STORIES[asked.command]:
            try:
                step(life)
            except FAILURES as error:  # what comes after it may be reported all the same
                broken.append(str(error))
                say(f"try: {error}")
                _keep_traces(machines)
    except FAILURES as error:
        broken.append(str(error))
        _keep_traces(machines)
    except KeyboardInterrupt:
        broken.append("It was interrupted.")
    finally:
        _tell(life, asked.report, broken)
        if asked.command != "up":
            machines.down()
    say("\n".join(broken) or f"Done after {time.monotonic() - began:.0f} s.")
    return 1 if broken else 0


def _tell(life: Life, report: Path | None, broken: list[str]) -> None:
    """Print what was measured, and write the page if there is to be one."""
    if not life.steps:
        return
    console = Console(highlight=False, soft_wrap=True)
    console.print(page.table(life.steps))
    if report:
        page.write_page(life.steps, page.versions(life.machines), report, broken)
        console.print(f"The page is {report}.")


def _kill_index(life: Life) -> None:
    life.kill_pod("index")


def _kill_signer(life: Life) -> None:
    life.kill_pod("sign")


def _see_that_all_was_run(life: Life) -> None:
    assert not life.readme.left, f"never run: {life.readme.left}"


STORIES: dict[str, tuple[Step, ...]] = {
    "chart": (Life.secrets, Life.base, Life.end, try_chart),
    "up": (Life.secrets, Life.base),
    "short": (Life.secrets, Life.dry_run, Life.per_partition, Life.restart, _kill_index, Life.end),
    "run": (
        Life.secrets, Life.dry_run, Life.base, Life.overlay, Life.read_only, Life.quiet,
        Life.new_version, Life.kill_process, _kill_index, _kill_signer, Life.drain, Life.scale_out,
        Life.rotate, Life.lose_volume, Life.policies, Life.end, try_chart, _see_that_all_was_run,
    ),
}  # fmt: skip


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="deploy/kubernetes/try",
        description="Run deploy/kubernetes on a Kubernetes of its own, on this machine.",
        epilog=__doc__.partition("\n\n")[2],
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("command", choices=(*STORIES, "down"))
    parser.add_argument("--report", type=Path, metavar="FILE", help="write the page of `run`")
    parser.add_argument(
        "--images", type=Path, metavar="FOLDER",
        help="where streamer.tar and broker.tar lie already; else they are built",
    )  # fmt: skip
    asked = parser.parse_args()
    if asked.command == "run" and asked.report is None:
        asked.report = ROOT / "docs/kubernetes.md"
    return asked


def _prepare(images: Path | None) -> None:
    """Have the programs and the images.

    Raises:
        ClusterError: they are not to be had here.
    """
    if os.geteuid() != 0:
        raise ClusterError("Namespaces of the network need root: sudo deploy/kubernetes/try ...")
    commands: list[list[str | Path]] = [
        [ROOT / ".ci/tools", "cluster"],
        [ROOT / "deploy/crds/fetch", ROOT / "build/crds"],
    ]
    if images is None:
        commands.append([ROOT / "deploy/image", "build"])
    for command in commands:
        if subprocess.run(command, check=False).returncode:
            raise ClusterError(f"{command[0]} failed")


def _keep_traces(machines: Machines) -> None:
    """Keep what says why: the programs' output, and what the pods said."""
    kept = ROOT / "build/cluster-failed"
    shutil.rmtree(kept, ignore_errors=True)
    if not machines.folder.exists():
        return
    shutil.copytree(machines.folder / "logs", kept)
    for name, command in {
        "pods": ("get", "pods,pvc,nodes", "--all-namespaces", "--output=wide"),
        "events": ("get", "events", "--all-namespaces", "--sort-by=.lastTimestamp"),
        "described": ("describe", "pods", "--all-namespaces"),
    }.items():
        try:
            (kept / name).write_text(machines.kubectl(*command), encoding="utf-8")
        except ClusterError as error:
            (kept / name).write_text(str(error), encoding="utf-8")
    for node in sorted(machines.folder.glob("node*/log/pods")):
        shutil.copytree(node, kept / node.parents[1].name, dirs_exist_ok=True)
    say(f"try: what the pods and the programs said is in {kept}")


if __name__ == "__main__":
    sys.exit(main())
