"""The Helm chart on the cluster: installed, tested, upgraded, removed, over an index of its own.

The pages are those that are there, and nobody writes any more: so `helm test` can ask that every
one of them is judged.
"""

import time

import yaml

from tests.cluster.life import Life
from tests.cluster.machines import ClusterError, run, say, wait_for

SPACE = "charted"
CRAWLER = ("--namespace=kafka", "scale", "deployment/crawler")
SMALL = {"requests": {"cpu": "100m", "memory": "256Mi"}}
VALUES = {
    "settings": {"STREAMER_INDEX_NAME": "charted"},
    "index": {"resources": SMALL},
    "sign": {"replicas": 1, "resources": SMALL},
    "verify": {"settled": True, "scratch": "200Mi", "resources": SMALL},
}


def try_chart(life: Life) -> None:
    """Install the chart next to what kustomize has applied; its test must see what is broken.

    Raises:
        ClusterError: Helm fails, or its test passes where it must not.
    """
    say("== the Helm chart, over an index of its own")
    values = life.work / "values.yaml"
    values.write_text(yaml.safe_dump(VALUES), encoding="utf-8")
    life.kubectl("create", "namespace", SPACE)
    life.kubectl("label", "namespace", SPACE, "pod-security.kubernetes.io/enforce=restricted")
    files = ("secret.key", "sasl-password", "ca.crt")
    life.kubectl(
        f"--namespace={SPACE}", "create", "secret", "generic", "streamer-secrets",
        *[f"--from-file={life.work / file}" for file in files],
    )  # fmt: skip
    began = time.monotonic()
    _helm(life, "install", "--values", str(values), "--wait", "--timeout", "5m")
    say(f"helm install: all pods are ready after {time.monotonic() - began:.0f} s")
    _test(life)

    began = time.monotonic()
    changed = ("--set", "settings.STREAMER_WINDOW=5000")
    _helm(life, "upgrade", "--values", str(values), *changed, "--wait", "--timeout", "5m")
    say(f"helm upgrade: a changed setting is in all pods after {time.monotonic() - began:.0f} s")
    _test(life)

    # Nobody judges, and pages come: they are not judged, and the test must say so.
    life.kubectl(f"--namespace={SPACE}", "scale", "statefulset/streamer-index", "--replicas=0")
    wait_for("the end of the index", lambda: _pods(life, "index") == 0)
    life.kubectl(*CRAWLER, "--replicas=1")
    life.kubectl("--namespace=kafka", "rollout", "status", "deployment/crawler", "--timeout=180s")
    time.sleep(15)  # for its first pages
    life.kubectl(*CRAWLER, "--replicas=0")
    try:
        _test(life)
    except ClusterError as error:
        say(f"helm test fails, as it must: {str(error).strip().splitlines()[-1]}")
    else:
        raise ClusterError("helm test passes where pages are not judged")

    _helm(life, "uninstall")
    wait_for("the end of the pods", lambda: _pods(life, "sign") == 0)
    claims = life.machines.get(f"--namespace={SPACE}", "pvc")["items"]
    assert [claim["metadata"]["name"] for claim in claims] == ["index-streamer-index-0"]
    life.kubectl("delete", "namespace", SPACE)


def _test(life: Life) -> None:
    began = time.monotonic()
    reported = _helm(life, "test", "--logs", "--timeout", "5m")
    judged = next(line for line in reported.splitlines() if line.startswith("outcomes"))
    say(f"helm test: {time.monotonic() - began:.0f} s; {' '.join(judged.split())}")


def _pods(life: Life, component: str) -> int:
    wanted = f"--selector=app.kubernetes.io/component={component}"
    return len(life.machines.get(f"--namespace={SPACE}", "pods", wanted)["items"])


def _helm(life: Life, command: str, *options: str) -> str:
    """Run helm on the release; return what it prints."""
    chart = [str(life.work / "deploy/helm/streamer")] if command in {"install", "upgrade"} else []
    return run(
        life.machines.tools / "helm", command, "streamer", *chart, *options,
        "--namespace", SPACE, "--kubeconfig", life.machines.kubeconfig, seconds=400,
    )  # fmt: skip
