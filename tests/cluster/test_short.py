"""The manifests on a real cluster, the short way; `deploy/kubernetes/try run` does the whole."""

import os
import subprocess

from tests.cluster.machines import CGROUPS, ROOT, Machines
from tests.helpers.missing import leave_out

SECONDS_MAX = 2400  # for what hangs; it takes about four minutes once all is built


def test_the_manifests_run_on_a_cluster_and_a_killed_pod_breaks_no_promise() -> None:
    if os.geteuid() != 0:
        leave_out("root, for namespaces of the network", "make test-all, as root")
    script = ROOT / "deploy/kubernetes/try"
    assert subprocess.run([script, "short"], check=False, timeout=SECONDS_MAX).returncode == 0
    assert not Machines.are_there()
    assert not (ROOT / "build/cluster").exists()
    assert not list(CGROUPS.glob("*/streamer"))
