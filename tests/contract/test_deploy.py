"""The files in deploy/ against the program, and one another."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from streamer.config import Settings
from streamer.errors import SettingsError
from streamer.kafka.topics import pages_topic
from streamer.sketch.settings import read_secret
from tests.helpers.kubernetes_tools import KUBERNETES, ROOT, Manifest, called, load_all

DEPLOY = ROOT / "deploy"
BASE = KUBERNETES / "base"
DOCKERFILE = (DEPLOY / "Dockerfile").read_text("utf-8")
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))
UID = 10001
WORKLOADS = ("StatefulSet", "Deployment")


def kustomization(folder: Path) -> Manifest:
    found: Manifest = yaml.safe_load((folder / "kustomization.yaml").read_text("utf-8"))
    return found


def written(folder: Path) -> list[Manifest]:
    """Return the manifests of a kustomization's own files."""
    files = [folder / name for name in kustomization(folder)["resources"] if name.endswith(".yaml")]
    return [manifest for file in files for manifest in load_all(file.read_text("utf-8"))]


MANIFESTS = [
    *written(BASE),
    *written(KUBERNETES / "components" / "pod-monitor"),
    *load_all((KUBERNETES / "secret.example.yaml").read_text("utf-8")),
]


def kind(name: str) -> list[Manifest]:
    return [manifest for manifest in MANIFESTS if manifest["kind"] == name]


PODS = {
    called(workload): workload["spec"]["template"]
    for name in WORKLOADS
    for workload in kind(name)
}  # fmt: skip
each_pod = pytest.mark.parametrize("name", sorted(PODS))
SECRETS = kind("Secret")[0]["stringData"]
SETTINGS = dict(
    line.split("=", 1)
    for line in (BASE / "settings.env").read_text("utf-8").splitlines()
    if line and not line.startswith("#")
)


def worker(pod: Manifest) -> Manifest:
    (container,) = pod["spec"]["containers"]
    found: Manifest = container
    return found


def environment(container: Manifest) -> dict[str, Manifest]:
    return {entry["name"]: entry for entry in container["env"]}


def selects(selector: dict[str, str], labels: dict[str, str]) -> bool:
    return selector.items() <= labels.items()


def selected_pods(selector: dict[str, str]) -> list[str]:
    return [name for name, pod in PODS.items() if selects(selector, pod["metadata"]["labels"])]


def mount_of(path: str, container: Manifest) -> Manifest:
    mounts = [m for m in container["volumeMounts"] if Path(path).is_relative_to(m["mountPath"])]
    assert len(mounts) == 1, (path, mounts)
    found: Manifest = mounts[0]
    return found


# Names that must be the same in two places


def test_no_secret_is_among_what_is_applied() -> None:
    everything = [*written(BASE), *written(KUBERNETES / "components" / "pod-monitor")]
    assert [called(one) for one in everything if one["kind"] == "Secret"] == []
    assert "secretGenerator" not in kustomization(BASE)


def test_every_environment_variable_of_ours_in_deploy_is_a_setting_or_of_a_script() -> None:
    files = [path for path in DEPLOY.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    named = {
        (str(file.relative_to(DEPLOY)), name.lower())
        for file in files
        for name in re.findall(r"\bSTREAMER_([A-Z0-9_]*[A-Z0-9])\b", file.read_text("utf-8"))
    }
    assert len(named) > len(SETTINGS)
    known = {*Settings.model_fields, "tools", "index", "cache_dir"}
    assert sorted(one for one in named if one[1] not in known) == []


def test_the_settings_of_the_base_are_ones_that_the_program_takes() -> None:
    settings = {name.removeprefix("STREAMER_").lower(): value for name, value in SETTINGS.items()}
    for role in ("index", "sign"):
        made = Settings(**settings, role=role, own_shards="0/1", threads="2")  # type: ignore[arg-type]
        assert made.role == role


@each_pod
def test_a_workload_selects_its_own_pods_and_no_others(name: str) -> None:
    (workload,) = [one for one in MANIFESTS if called(one) == name]
    assert selected_pods(workload["spec"]["selector"]["matchLabels"]) == [name]
    (spread,) = PODS[name]["spec"]["topologySpreadConstraints"]
    assert selected_pods(spread["labelSelector"]["matchLabels"]) == [name]


def test_the_ports_of_health_are_the_same_everywhere() -> None:
    port = int(SETTINGS["STREAMER_HEALTH_PORT"])
    for pod in PODS.values():
        assert worker(pod)["ports"] == [{"name": "health", "containerPort": port}]
    for service in kind("Service"):
        assert service["spec"]["ports"] == [
            {"name": "health", "port": port, "targetPort": "health"}
        ]
    assert f"STREAMER_HEALTH_PORT={port}" in DOCKERFILE
    assert f"EXPOSE {port}\n" in DOCKERFILE
    assert SETTINGS["STREAMER_HEALTH_HOST"] == "0.0.0.0"  # noqa: S104 - within the pod


# The index


def test_only_the_index_keeps_its_folder_and_on_a_disk_of_its_own() -> None:
    (index,) = kind("StatefulSet")
    container = worker(index["spec"]["template"])
    folder = container["args"][container["args"].index("--index") + 1]
    claims = [one["metadata"]["name"] for one in index["spec"]["volumeClaimTemplates"]]
    assert [mount_of(folder, container)["name"]] == claims
    assert f'CMD ["worker", "--index", "{folder}"]' in DOCKERFILE
    retention = index["spec"]["persistentVolumeClaimRetentionPolicy"]
    assert set(retention.values()) == {"Retain"}


# Safety


@each_pod
def test_a_pod_runs_as_an_unprivileged_user_without_an_identity(name: str) -> None:
    spec = PODS[name]["spec"]
    assert spec["automountServiceAccountToken"] is False
    assert spec["enableServiceLinks"] is False, "the address of a service passes for a setting"
    assert not spec.keys() & {"hostNetwork", "hostPID", "hostIPC", "initContainers"}
    security = spec["securityContext"]
    assert security["runAsNonRoot"] is True
    assert security["runAsUser"] == security["runAsGroup"] == security["fsGroup"] == UID
    assert security["seccompProfile"] == {"type": "RuntimeDefault"}
    assert worker(PODS[name])["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


@each_pod
def test_a_pod_can_write_tmp_and_cannot_write_its_secrets(name: str) -> None:
    container = worker(PODS[name])
    volumes = {volume["name"]: volume for volume in PODS[name]["spec"]["volumes"]}
    assert "sizeLimit" in volumes[mount_of("/tmp", container)["name"]]["emptyDir"]  # noqa: S108
    secrets = mount_of("/run/secrets/streamer/secret.key", container)
    assert secrets["readOnly"] is True
    assert volumes[secrets["name"]]["secret"]["defaultMode"] == 0o440
    assert "XDG_CACHE_HOME=/tmp" in DOCKERFILE


@each_pod
def test_a_pod_has_requests_and_limits_and_threads_that_fit_them(name: str) -> None:
    container = worker(PODS[name])
    for bound in ("requests", "limits"):
        assert set(container["resources"][bound]) == {"cpu", "memory", "ephemeral-storage"}
    threads = environment(container)["STREAMER_THREADS"]["valueFrom"]
    assert threads == {"resourceFieldRef": {"resource": "limits.cpu"}}


@each_pod
def test_only_readiness_waits_for_the_index_to_catch_up(name: str) -> None:
    container = worker(PODS[name])
    for probe, path in (
        ("startupProbe", "/health/live"),
        ("livenessProbe", "/health/live"),
        ("readinessProbe", "/health/ready"),
    ):
        assert container[probe]["httpGet"] == {"path": path, "port": "health"}
        assert container[probe]["timeoutSeconds"] <= container[probe]["periodSeconds"]
    startup = container["startupProbe"]
    assert startup["periodSeconds"] * startup["failureThreshold"] >= 300
    assert PODS[name]["spec"]["terminationGracePeriodSeconds"] == 60


def test_pods_reach_kafka_and_names_only_and_are_reached_for_metrics_only() -> None:
    policies = {one["metadata"]["name"]: one["spec"] for one in kind("NetworkPolicy")}
    for spec in policies.values():
        assert sorted(selected_pods(spec["podSelector"]["matchLabels"])) == sorted(PODS)
    deny = policies.pop("streamer-deny")
    assert set(deny) == {"podSelector", "policyTypes"}
    assert deny["policyTypes"] == ["Ingress", "Egress"]
    outwards = [rule for spec in policies.values() for rule in spec.get("egress", [])]
    inwards = [rule for spec in policies.values() for rule in spec.get("ingress", [])]
    kafka = int(SETTINGS["STREAMER_BROKERS"].rpartition(":")[2])
    assert {port["port"] for rule in outwards for port in rule["ports"]} == {kafka, 53}
    assert {port["port"] for rule in inwards for port in rule["ports"]} == {"health"}
    peers = [peer["namespaceSelector"] for rule in outwards for peer in rule["to"]]
    peers += [peer["namespaceSelector"] for rule in inwards for peer in rule["from"]]
    namespaces = [peer["matchLabels"]["kubernetes.io/metadata.name"] for peer in peers]
    of_brokers = SETTINGS["STREAMER_BROKERS"].split(".")[1]
    assert sorted(namespaces) == sorted([of_brokers, "kube-system", "monitoring"])


def test_the_example_key_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "secret.key"
    file.write_text(SECRETS["secret.key"])
    with pytest.raises(SettingsError, match="openssl rand -hex 32"):
        read_secret(file)


# The image


def instructions(name: str) -> list[str]:
    joined = DOCKERFILE.replace("\\\n", " ")
    return re.findall(rf"^{name} (.*)$", joined, re.MULTILINE)


def test_the_image_is_made_of_pinned_parts_only() -> None:
    (base,) = [one for one in instructions("ARG") if one.startswith("PYTHON_IMAGE=")]
    assert re.fullmatch(r"PYTHON_IMAGE=python:3\.\d+-slim-\w+", base)
    assert instructions("FROM") == ["${PYTHON_IMAGE} AS base", "base AS build", "base"]
    installs = [one for one in instructions("RUN") if " install " in one and "-m pip" in one]
    dependencies, ours = (one for one in installs if "--python /opt/streamer" in one)
    assert "--require-hashes --only-binary :all:" in dependencies
    assert "--no-deps --no-build-isolation ." in ours


# Compose


def test_compose_opens_ports_to_this_machine_only() -> None:
    ports = [port for service in COMPOSE["services"].values() for port in service.get("ports", [])]
    assert len(ports) == 2
    assert [port for port in ports if not re.fullmatch(r"127\.0\.0\.1:(\d+):\1", port)] == []


def test_compose_makes_the_input_topic_as_produce_wants_it() -> None:
    script = COMPOSE["services"]["topics"]["command"][0]
    assert dict(re.findall(r"--config ([\w.]+)=(\S+)", script)) == pages_topic("pages", 4, 1).config
    topic = COMPOSE["services"]["worker"]["environment"]["STREAMER_INPUT_TOPIC"]
    assert f"--topic {topic} " in script


def test_compose_runs_every_image_without_privileges() -> None:
    for service in COMPOSE["services"].values():
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert "user" not in service
    assert COMPOSE["services"]["worker"]["tmpfs"] == ["/tmp"]  # noqa: S108


def test_compose_keeps_data_in_named_volumes_and_the_key_in_a_secret() -> None:
    services = COMPOSE["services"]
    named = {mount.split(":")[0] for one in services.values() for mount in one.get("volumes", [])}
    assert named == set(COMPOSE["volumes"])
    assert services["worker"]["volumes"] == ["index:/var/lib/streamer"]
    (secret,) = services["worker"]["secrets"]
    assert services["worker"]["environment"]["STREAMER_KEY_FILE"] == f"/run/secrets/{secret}"
    assert set(COMPOSE["secrets"]) == {secret}
    assert COMPOSE["secrets"][secret] == {"file": "./secret.key"}
    assert services["worker"]["stop_grace_period"] == "60s"


def test_services_and_the_monitor_reach_the_pods_that_they_are_for() -> None:
    services = {one["metadata"]["name"]: one for one in kind("Service")}
    (index,) = kind("StatefulSet")
    headless = services.pop(index["spec"]["serviceName"])
    assert headless["spec"]["clusterIP"] == "None"
    assert selected_pods(headless["spec"]["selector"]) == [called(index)]
    (metrics,) = services.values()
    assert sorted(selected_pods(metrics["spec"]["selector"])) == sorted(PODS)
    (monitor,) = kind("PodMonitor")
    assert sorted(selected_pods(monitor["spec"]["selector"]["matchLabels"])) == sorted(PODS)
    assert [one["port"] for one in monitor["spec"]["podMetricsEndpoints"]] == ["health"]
