"""What runs the manifests on a cluster: the README's commands, and the stand-in for a plugin."""

import ast
from pathlib import Path
from typing import Any

import yaml

from tests.cluster import life
from tests.cluster.policies import rules
from tests.cluster.readme import Readme

ROOT = Path(__file__).parents[2]
POLICIES = [
    {**policy, "metadata": {**policy["metadata"], "namespace": "streamer"}}
    for policy in yaml.safe_load_all(
        (ROOT / "deploy/kubernetes/base/network.yaml").read_text("utf-8")
    )
]
NAMESPACES = [
    {"metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}}}
    for name in ("streamer", "kafka", "kube-system", "monitoring", "elsewhere")
]


def pod(namespace: str, address: str, node: str = "node1", **labels: str) -> dict[str, Any]:
    return {
        "metadata": {"namespace": namespace, "labels": labels},
        "spec": {
            "nodeName": node,
            "containers": [{"ports": [{"name": "health", "containerPort": 8080}]}],
        },
        "status": {"podIP": address},
    }


PODS = [
    pod("streamer", "10.0.0.1", **{"app.kubernetes.io/name": "streamer"}),
    pod("kafka", "10.0.0.2", "node2"),
    pod("kube-system", "10.0.0.3", **{"k8s-app": "kube-dns"}),
    pod("kube-system", "10.0.0.4", app="something else"),
    pod("monitoring", "10.0.0.5"),
    pod("elsewhere", "10.0.0.6", **{"app.kubernetes.io/name": "streamer"}),
]


def test_the_whole_try_runs_every_command_of_the_readme() -> None:
    tree = ast.parse(Path(life.__file__).read_text("utf-8"))
    asked = [
        str(call.args[0].value)
        for call in ast.walk(tree)
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr == "_do"
        and isinstance(call.args[0], ast.Constant)
    ]
    blocks = Readme().left
    assert len(blocks) >= 10
    chosen = [[block for block in blocks if part in block] for part in asked]
    assert all(len(found) == 1 for found in chosen), list(zip(asked, chosen, strict=True))
    assert {found[0] for found in chosen} == {*blocks}


def test_a_pod_of_ours_reaches_kafka_and_names_and_is_reached_for_metrics() -> None:
    text = rules(POLICIES, PODS, NAMESPACES, "node1")
    lines = [line.strip() for line in text.splitlines()]
    out = lines[lines.index("chain egress_10_0_0_1 {") + 1 :]
    assert out[: out.index("}")] == [
        "ip daddr 10.0.0.2 tcp dport 9093 accept", "ip daddr 10.0.0.3 udp dport 53 accept",
        "ip daddr 10.0.0.3 tcp dport 53 accept", "drop",
    ]  # fmt: skip
    into = lines[lines.index("chain ingress_10_0_0_1 {") + 1 :]
    assert into[: into.index("}")] == ["ip saddr 10.0.0.5 tcp dport 8080 accept", "drop"]
    assert [line for line in lines if "jump" in line] == [
        "ip daddr 10.0.0.1 jump ingress_10_0_0_1",
        "ip saddr 10.0.0.1 jump egress_10_0_0_1",
    ]
    assert "jump" not in rules(POLICIES, PODS, NAMESPACES, "node2")
