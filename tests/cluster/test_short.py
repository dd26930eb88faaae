"""The manifests on a real cluster, the short way; `deploy/kubernetes/try run` does the whole."""

from __future__ import annotations

import os
import subprocess

import pytest

from tests.cluster.machines import ROOT


@pytest.mark.skipif(
    os.geteuid() != 0 and not os.environ.get("CI"),
    reason="namespaces of the network need root",
)
def test_the_manifests_run_on_a_cluster_and_a_killed_pod_breaks_no_promise() -> None:
    done = subprocess.run(
        [ROOT / "deploy/kubernetes/try", "short"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=2400,
    )
    print(done.stdout)  # noqa: T201 - times and pauses, for the log of the run
    assert done.returncode == 0, done.stdout
