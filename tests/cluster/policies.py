"""Network policies as rules of the nodes' packet filters: python -m tests.cluster.policies FOLDER.

No network plugin that enforces policies could be had here, so this takes its place. It knows of
the API what the policies of this project use, pods and namespaces by labels and ports by number or
name, and refuses the rest. As plugins do, it follows what changes: a new pod's rules are there
within a second. What comes from a pod's own node, as the kubelet's probes, is not looked at.
"""

import json
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import yaml

from tests.cluster.machines import NODES, say

Object = dict[str, Any]
POLL_SECONDS = 0.5
ASKED = ("apis/networking.k8s.io/v1/networkpolicies", "api/v1/pods", "api/v1/namespaces")
SIDES = {"Ingress": ("from", "saddr", "daddr"), "Egress": ("to", "daddr", "saddr")}


def rules(policies: list[Object], pods: list[Object], namespaces: list[Object], node: str) -> str:
    """Return the packet filter of a node, as nft reads it."""
    labels = {one["metadata"]["name"]: one["metadata"].get("labels", {}) for one in namespaces}
    running = [pod for pod in pods if _has_address(pod)]
    chains, jumps = [], []
    for pod in running:
        if pod["spec"].get("nodeName") != node:
            continue
        own = [policy for policy in policies if _is_for(policy, pod)]
        for side, (_, _, mine) in SIDES.items():
            those = [policy for policy in own if side in policy["spec"]["policyTypes"]]
            if not those:
                continue
            address = pod["status"]["podIP"]
            name = f"{side.lower()}_{address.replace('.', '_')}"
            allowed = [
                line for policy in those for line in _allowed(policy, side, pod, running, labels)
            ]
            lines = "\n".join(f"    {line}" for line in dict.fromkeys([*allowed, "drop"]))
            chains.append(f"  chain {name} {{\n{lines}\n  }}")
            jumps.append(f"    ip {mine} {address} jump {name}")
    return "\n".join(
        [
            "table inet policies {}\ndelete table inet policies\ntable inet policies {",
            *chains,
            "  chain forward {",
            "    type filter hook forward priority filter",
            "    ct state established,related accept",
            *jumps,
            "  }\n}\n",
        ]
    )


def _has_address(pod: Object) -> bool:
    ended = pod["status"].get("phase") in {"Succeeded", "Failed"}
    return "podIP" in pod["status"] and not ended and not pod["spec"].get("hostNetwork")


def _is_for(policy: Object, pod: Object) -> bool:
    here = policy["metadata"]["namespace"] == pod["metadata"]["namespace"]
    return here and _selects(policy["spec"]["podSelector"], pod["metadata"].get("labels", {}))


def _selects(selector: Object, labels: dict[str, str]) -> bool:
    wanted: dict[str, str] = selector.get("matchLabels", {})
    assert not set(selector) - {"matchLabels"}, selector
    return wanted.items() <= labels.items()


def _allowed(
    policy: Object, side: str, pod: Object, pods: list[Object], labels: dict[str, dict[str, str]]
) -> Iterator[str]:
    """Yield a line for each peer and port that a policy lets a pod speak with."""
    peers, theirs, _ = SIDES[side]
    for rule in policy["spec"].get(side.lower(), ()):
        assert not set(rule) - {peers, "ports"}, rule
        matches = [""]
        if peers in rule:
            found = [
                other
                for other in pods
                if any(_is_peer(peer, policy, other, labels) for peer in rule[peers])
            ]
            matches = [f"ip {theirs} {other['status']['podIP']} " for other in found]
        for match in matches:
            for port in _ports(rule, pod):
                yield f"{match}{port}accept"


def _is_peer(peer: Object, policy: Object, pod: Object, labels: dict[str, dict[str, str]]) -> bool:
    assert not set(peer) - {"namespaceSelector", "podSelector"}, peer
    namespace = pod["metadata"]["namespace"]
    if "namespaceSelector" in peer:
        there = _selects(peer["namespaceSelector"], labels.get(namespace, {}))
    else:
        there = namespace == policy["metadata"]["namespace"]
    return there and _selects(peer.get("podSelector", {}), pod["metadata"].get("labels", {}))


def _ports(rule: Object, pod: Object) -> Iterator[str]:
    """Yield the ports of a rule; a name is one of the pod's own, which is reached at it."""
    named = {
        port["name"]: port["containerPort"]
        for container in pod["spec"]["containers"]
        for port in container.get("ports", ())
        if "name" in port
    }
    if "ports" not in rule:
        yield ""
    for port in rule.get("ports", ()):
        assert not set(port) - {"protocol", "port"}, port
        if isinstance(port["port"], str) and port["port"] not in named:
            continue  # a pod without a port of that name is not reached
        number = named[port["port"]] if isinstance(port["port"], str) else port["port"]
        yield f"{port.get('protocol', 'TCP').lower()} dport {number} "


def follow(folder: Path) -> None:
    """Keep the filters of both nodes as the policies are, until killed."""
    config = yaml.safe_load((folder / "kubeconfig.admin").read_text("utf-8"))
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    context = ssl.create_default_context(cafile=cluster["certificate-authority"])
    headers = {"Authorization": f"Bearer {user['token']}"}
    before: dict[str, str] = {}
    while True:
        try:
            asked = []
            for path in ASKED:
                request = Request(f"{cluster['server']}/{path}", headers=headers)  # noqa: S310 - ours
                with urlopen(request, context=context, timeout=10) as answer:  # noqa: S310
                    asked.append(json.load(answer)["items"])
        except OSError as error:  # the API server starts, or is busy
            say(f"the API server does not answer: {error}")
            time.sleep(POLL_SECONDS)
            continue
        for node in NODES:
            text = rules(asked[0], asked[1], asked[2], node)
            if before.get(node) != text:
                command = ["nsenter", f"--net=/run/netns/streamer-{node}", "nft", "-f", "-"]
                subprocess.run(command, input=text, text=True, check=True)
                say(f"{node}:\n{text}")
                before[node] = text
        time.sleep(POLL_SECONDS)


if __name__ == "__main__":
    follow(Path(sys.argv[1]).absolute())
