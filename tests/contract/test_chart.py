"""The Helm chart against the manifests it is made of, the program, and the schemas of all kinds."""

import json
import os
import re
import tomllib
from copy import deepcopy
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import typer.main
import yaml

from streamer.cli.main import app
from streamer.config import Settings, load_settings
from streamer.kafka.connection import connection_of
from streamer.kafka.topics import Names
from tests.helpers import kubernetes_tools
from tests.helpers.kubernetes_tools import CHART, KUBERNETES, Manifest, charted, kustomized

BASE = KUBERNETES / "base"
OVERLAY = KUBERNETES / "overlays" / "six-signers"
VERSIONS = ("1.28.0", kubernetes_validate.latest_version())  # the oldest that we name, the newest
VALUES = kubernetes_tools.ROOT / "deploy" / "helm" / "six-signers.yaml"
HELMS_LABELS = {
    "app.kubernetes.io/instance": "streamer", "app.kubernetes.io/managed-by": "Helm",
    "app.kubernetes.io/version": "0.1.0", "helm.sh/chart": "streamer-0.1.0",
}  # fmt: skip
# Each component of kustomize, and the values that switch the same on in the chart.
COMPONENTS = {
    "grafana-dashboard": "monitoring.dashboard.enabled=true",
    "kafka-users": "kafkaUsers.enabled=true",
    "keda": "keda.enabled=true",
    "pod-monitor": "monitoring.podMonitor.enabled=true",
    "prometheus-rule": "monitoring.prometheusRule.enabled=true",
}
EVERYTHING = ("--set", ",".join([*COMPONENTS.values(), "strimzi.enabled=true"]))


def by_name(text: str) -> dict[str, Manifest]:
    manifests = {
        kubernetes_tools.called(manifest): manifest for manifest in kubernetes_tools.load_all(text)
    }
    assert len(manifests) == len(kubernetes_tools.load_all(text)), "two of one name"
    return manifests


def chart(*values: str) -> dict[str, Manifest]:
    """Return the chart's manifests with values, as key=value, without its test."""
    manifests = by_name(charted(*[part for value in values for part in ("--set", value)]))
    del manifests["Pod streamer-verify"]
    return manifests


def settings_of(manifests: dict[str, Manifest]) -> dict[str, str]:
    found: dict[str, str] = manifests["ConfigMap streamer-settings"]["data"]
    return found


def as_helm_has_it(text: str, rendered: dict[str, Manifest]) -> dict[str, Manifest]:
    """Return kustomize's manifests with all that is meant to differ in the chart's, and no more.

    - Every object names its namespace: that of the release.
    - Every object has the four labels that are customary with Helm; pods and selectors do not.
    - Kustomize puts a digest of the settings into their ConfigMap's name, so that a change restarts
      the pods. Helm would delete the old ConfigMap under pods that still start from it: so the name
      stays, and the digest is in an annotation of the pods.
    """
    manifests = deepcopy(
        kubernetes_tools.load_all(
            re.sub(r"streamer-settings-[a-z0-9]{10}\b", "streamer-settings", text)
        )
    )
    for manifest in manifests:
        manifest["metadata"]["namespace"] = "streamer"
        manifest["metadata"]["labels"] = {**manifest["metadata"].get("labels", {}), **HELMS_LABELS}
        if manifest["kind"] in {"Deployment", "StatefulSet"}:
            digest = digest_in(rendered[kubernetes_tools.called(manifest)])
            manifest["spec"]["template"]["metadata"]["annotations"] = {"checksum/settings": digest}
    return {kubernetes_tools.called(manifest): manifest for manifest in manifests}


def digest_in(workload: Manifest) -> str:
    annotations = workload["spec"]["template"]["metadata"]["annotations"]
    digest: str = annotations["checksum/settings"]
    assert re.fullmatch("[0-9a-f]{64}", digest)
    return digest


def overlay(folder: Path, **content: Any) -> str:
    """Return what kustomize makes of the base and of more, which names folders of kubernetes/."""
    more = {name: [path_from(folder, KUBERNETES / one) for one in those]
            for name, those in content.items()}  # fmt: skip
    whole = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [path_from(folder, BASE)],
        **more,
    }
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(whole), "utf-8")
    return kustomized(folder)


def path_from(folder: Path, target: Path) -> str:
    return os.path.relpath(target.resolve(), folder.resolve())


# One source


def test_the_chart_gives_what_the_base_gives() -> None:
    rendered = chart()
    assert rendered == as_helm_has_it(kustomized(BASE), rendered)


def test_the_chart_with_the_values_of_the_overlay_gives_what_the_overlay_gives() -> None:
    rendered = by_name(charted("--values", str(VALUES)))
    del rendered["Pod streamer-verify"]
    assert rendered == as_helm_has_it(kustomized(OVERLAY), rendered)


@pytest.mark.parametrize("component", sorted(COMPONENTS))
def test_the_chart_gives_what_a_component_gives(component: str, tmp_path: Path) -> None:
    transformers = {"keda": ["transformers/keda"]}.get(component, [])
    text = overlay(tmp_path, components=[f"components/{component}"], transformers=transformers)
    rendered = chart(COMPONENTS[component])
    assert rendered == as_helm_has_it(text, rendered)
    assert rendered != chart()


def test_pods_of_the_index_are_those_of_the_overlay_and_each_partition_has_a_log() -> None:
    each = "settings.STREAMER_PER_PARTITION=true"
    rendered = chart("index.pods=2", each, "strimzi.enabled=true", "strimzi.partitions=3")
    overlay = as_helm_has_it(kustomized(KUBERNETES / "overlays" / "per-partition"), rendered)
    assert {name: rendered[name] for name in overlay} == overlay
    logs = {name for name in rendered if ".bands." in name}
    assert logs == {f"KafkaTopic streamer.bands.{number}" for number in range(3)}
    assert "one index has one pod" in kubernetes_tools.refused("--set", "index.pods=2")


def test_the_chart_gives_what_strimzis_folder_gives() -> None:
    expected = as_helm_has_it(kustomized(KUBERNETES / "strimzi"), {})
    for name, manifest in expected.items():
        manifest["metadata"]["namespace"] = "kafka"  # not that of the release: the brokers'
        if name.startswith("KafkaTopic"):
            manifest["metadata"]["annotations"] = {"helm.sh/resource-policy": "keep"}
    rendered = chart("strimzi.enabled=true")
    assert {name: rendered[name] for name in expected} == expected
    assert {name: one for name, one in rendered.items() if name not in expected} == chart()


def test_topics_and_rights_follow_the_index() -> None:
    rendered = chart(
        "strimzi.enabled=true", "strimzi.partitions=24", "strimzi.cluster=mine",
        "settings.STREAMER_INDEX_NAME=my_index", "settings.STREAMER_INPUT_TOPIC=crawl",
        "settings.STREAMER_REPLICAS=1",
    )  # fmt: skip
    kafka = [one for one in rendered.values() if one["apiVersion"].startswith("kafka.strimzi.io")]
    topics = {
        one["spec"].get("topicName", one["metadata"]["name"]): one["spec"]
        for one in kafka
        if one["kind"] == "KafkaTopic"
    }
    names = Names("my_index", "crawl")
    wide = {names.pages, names.dead_letters, names.verdicts}
    assert set(topics) == {*wide, names.log(0), names.gauge}
    assert {name for name, topic in topics.items() if topic["partitions"] == 24} == wide
    assert {topic["replicas"] for topic in topics.values()} == {1}
    assert all(re.fullmatch(r"[a-z0-9.-]+", one["metadata"]["name"]) for one in kafka)
    assert {one["metadata"]["labels"]["strimzi.io/cluster"] for one in kafka} == {"mine"}
    users = [one for one in kafka if one["kind"] == "KafkaUser"]
    acls = [acl for one in users for acl in one["spec"]["authorization"]["acls"]]
    named = {acl["resource"]["name"] for acl in acls}
    assert not [name for name in named if name.startswith(("streamer.", "pages"))]
    assert {names.pages, names.dead_letters, names.verdicts, names.gauge, names.sign_group} <= named


def test_the_chart_is_of_the_version_of_the_program() -> None:
    about = yaml.safe_load((CHART / "Chart.yaml").read_text("utf-8"))
    project = tomllib.loads((kubernetes_tools.ROOT / "pyproject.toml").read_text("utf-8"))[
        "project"
    ]
    assert about["version"] == about["appVersion"] == project["version"]
    assert about["kubeVersion"] == f">={VERSIONS[0]}-0"
    images = {container(one)["image"] for one in chart().values() if is_workload(one)}
    assert images == {f"streamer:{project['version']}"}


# Schemas


@pytest.mark.parametrize("version", VERSIONS)
def test_all_fits_the_schemas_of_kubernetes_and_operators(version: str, tmp_path: Path) -> None:
    components = [f"components/{name}" for name in COMPONENTS]
    names = ("base", "overlays/six-signers", "overlays/per-partition", "strimzi")
    texts = [
        charted(),
        charted(*EVERYTHING),
        overlay(tmp_path, components=components, transformers=["transformers/keda"]),
        *[kustomized(KUBERNETES / name) for name in names],
        (KUBERNETES / "secret.example.yaml").read_text("utf-8"),
    ]
    for manifest in (one for text in texts for one in kubernetes_tools.load_all(text)):
        kubernetes_tools.conform(manifest, version)


@pytest.mark.parametrize("values", [(), EVERYTHING], ids=["as it is", "everything"])
def test_lint_has_nothing_to_say(values: tuple[str, ...]) -> None:
    done = kubernetes_tools.helm("lint", "--strict", str(CHART), *values)
    assert done.returncode == 0, done.stdout
    assert "0 chart(s) failed" in done.stdout
    assert "[WARNING]" not in done.stdout


# Values


def test_the_schema_knows_every_setting_but_those_that_are_the_charts() -> None:
    """Three are values, a ConfigMap has no password, no pod reads files, others are its own."""
    schema = json.loads((CHART / "values.schema.json").read_text("utf-8"))
    known = set(schema["definitions"]["setting"]["enum"])
    own = {
        "preset", "fields", "role", "own_shards", "threads", "health_host",
        "health_port", "key_file", "instance_id", "sasl_password", "chunk_seconds", "url_prefix",
        "registry_password", "cdx_base", "include", "exclude",
    }  # fmt: skip
    assert known == {f"STREAMER_{name.upper()}" for name in set(Settings.model_fields) - own}


def test_the_schema_names_every_value_and_no_other() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text("utf-8"))
    values = yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))
    assert set(schema["properties"]) - {"global"} == set(values)  # helm makes `global` by itself

    def compare(one: Any, schema_of_it: Any, where: str) -> None:
        if "$ref" in schema_of_it:
            schema_of_it = schema["definitions"][schema_of_it["$ref"].rpartition("/")[2]]
        properties = schema_of_it.get("properties")
        if where.endswith((".resources", ".affinity")) or properties is None:
            return
        assert schema_of_it["additionalProperties"] is False, where
        assert set(one) == set(properties), where
        for name, value in one.items():
            compare(value, properties[name], f"{where}.{name}")

    for name, value in values.items():
        compare(value, schema["properties"][name], name)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("index.disk.size=25gb", "Does not match pattern"),
        ("settings.STREAMER_BROKER=a:1", 'Property name of "STREAMER_BROKER" does not match'),
        ("settings.STREAMER_SASL_PASSWORD=x", "does not match"),
        ("keda.minReplicas=0", "Must be greater than or equal to 1"),
    ],
)
def test_a_value_that_cannot_be_is_refused(value: str, reason: str) -> None:
    assert reason in kubernetes_tools.refused("--set", value)


def is_workload(manifest: Manifest) -> bool:
    return manifest["kind"] in {"Deployment", "StatefulSet"}


def container(workload: Manifest) -> Manifest:
    (found,) = workload["spec"]["template"]["spec"]["containers"]
    container_of: Manifest = found
    return container_of


def test_settings_are_merged_over_those_of_the_base() -> None:
    rendered = chart(
        "settings.STREAMER_WINDOW=1000000", "settings.STREAMER_THRESHOLD=0.85",
        "settings.STREAMER_ACCEPT_LOSS=true", "settings.STREAMER_SSL_CAFILE=",
    )  # fmt: skip
    expected = settings_of(chart()) | {
        "STREAMER_WINDOW": "1000000", "STREAMER_THRESHOLD": "0.85", "STREAMER_ACCEPT_LOSS": "true",
    }  # fmt: skip
    del expected["STREAMER_SSL_CAFILE"]
    assert settings_of(rendered) == expected


def test_a_changed_setting_restarts_the_pods_and_nothing_else_does() -> None:
    name = "Deployment streamer-sign"
    before = digest_in(chart()[name])
    assert digest_in(chart("settings.STREAMER_WINDOW=1000")[name]) != before
    assert digest_in(chart("sign.replicas=5")[name]) == before


@pytest.mark.parametrize(
    ("protocol", "left_out"),
    [
        ("PLAINTEXT", ("STREAMER_SSL_", "STREAMER_SASL_")),
        ("SSL", ("STREAMER_SASL_",)),
        ("SASL_PLAINTEXT", ("STREAMER_SSL_",)),
        ("SASL_SSL", ()),
    ],
)
def test_settings_that_a_protocol_does_not_use_are_left_out(
    protocol: str, left_out: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    rendered = chart(f"settings.STREAMER_SECURITY_PROTOCOL={protocol}", "keda.enabled=true")
    kept = {name for name in settings_of(chart()) if not name.startswith(left_out)}
    assert set(settings_of(rendered)) == kept
    for name, value in settings_of(rendered).items():
        monkeypatch.setenv(name, value)
    assert load_settings(None).security_protocol == protocol
    (trigger,) = rendered["ScaledObject streamer-sign"]["spec"]["triggers"]
    assert trigger["metadata"]["tls"] == ("enable" if "SSL" in protocol.split("_") else "disable")
    assert trigger["metadata"]["sasl"] == ("scram_sha512" if "SASL" in protocol else "none")
    assert ("authenticationRef" in trigger) == (protocol != "PLAINTEXT")
    login = rendered.get("TriggerAuthentication streamer-sign")
    asked = {one["parameter"] for one in login["spec"]["secretTargetRef"]} if login else set()
    assert asked == {
        *(["ca"] if "SSL" in protocol.split("_") else []),
        *(["password"] if "SASL" in protocol else []),
    }
    assert (login is None) == (protocol == "PLAINTEXT")


def test_with_a_token_there_is_no_login(monkeypatch: pytest.MonkeyPatch) -> None:
    prefix = "settings.STREAMER_SASL"
    own = f"{prefix}_MECHANISM=OAUTHBEARER", f"{prefix}_TOKEN_COMMAND=true"
    for name, value in settings_of(chart(*own, "settings.STREAMER_SSL_CAFILE=")).items():
        monkeypatch.setenv(name, value)
    assert connection_of(load_settings(None)).tokens
    keda = [part for value in (*own, "keda.enabled=true") for part in ("--set", value)]
    assert "KEDA cannot run STREAMER_SASL_TOKEN_COMMAND" in kubernetes_tools.refused(*keda)


def test_snapshots_in_an_object_store_have_their_secret_and_a_way_out() -> None:
    values = "snapshots.secret=bucket", "network.objectStore.to[0].ipBlock.cidr=192.0.2.0/24"
    rendered, plain = chart(*values), chart()
    index = "StatefulSet streamer-index"
    before = container(plain[index])["envFrom"]
    assert container(rendered[index])["envFrom"] == [*before, {"secretRef": {"name": "bucket"}}]
    signers = "Deployment streamer-sign"
    assert container(rendered[signers])["envFrom"] == container(plain[signers])["envFrom"]
    policy = "NetworkPolicy streamer-kafka"
    outside = {"ipBlock": {"cidr": "192.0.2.0/24"}}
    assert rendered[policy]["spec"]["egress"] == [
        *plain[policy]["spec"]["egress"],
        {"to": [outside], "ports": [{"protocol": "TCP", "port": 443}]},
    ]


# KEDA


def test_keda_scales_the_signers_alone_by_their_lag_of_pages() -> None:
    names = Names("my.index", "crawl")
    rendered = chart(
        "keda.enabled=true", f"settings.STREAMER_INDEX_NAME={names.index}",
        f"settings.STREAMER_INPUT_TOPIC={names.pages}", "settings.STREAMER_BROKERS=a:1\\,b:2",
        "keda.minReplicas=3", "keda.maxReplicas=7", "keda.lagThreshold=2000000",
    )  # fmt: skip
    (scaled,) = [one for one in rendered.values() if one["kind"] == "ScaledObject"]
    spec = scaled["spec"]
    assert spec["scaleTargetRef"]["name"] == "streamer-sign"
    assert "replicas" not in rendered["Deployment streamer-sign"]["spec"]
    assert rendered["StatefulSet streamer-index"]["spec"]["replicas"] == 1
    (trigger,) = spec["triggers"]
    asked = trigger["metadata"]
    assert (asked["topic"], asked["consumerGroup"]) == (names.pages, names.sign_group)
    assert (asked["bootstrapServers"], asked["lagThreshold"]) == ("a:1,b:2", "2000000")
    assert (spec["minReplicaCount"], spec["maxReplicaCount"]) == (3, 7)
    assert spec["fallback"]["replicas"] == 3


# helm test


def verify_pod(*values: str) -> Manifest:
    return by_name(charted(*values))["Pod streamer-verify"]


def test_helms_test_runs_verify_with_the_settings_of_the_release() -> None:
    pod = verify_pod("--set", "verify.settled=true,preset=nutch,verify.scratch=5Gi")
    assert pod["metadata"]["annotations"]["helm.sh/hook"] == "test"
    assert pod["spec"]["restartPolicy"] == "Never"
    (worker,) = pod["spec"]["containers"]
    assert worker["args"] == ["verify", "--wait", "60", "--settled", "--preset", "nutch"]
    command = typer.main.get_command(app).get_command(None, "verify")  # type: ignore[attr-defined]
    command.make_context("verify", worker["args"][1:])
    signer = chart()["Deployment streamer-sign"]["spec"]["template"]["spec"]
    (like,) = signer["containers"]
    for name in ("image", "envFrom", "securityContext", "volumeMounts"):
        assert worker[name] == like[name]
    assert pod["spec"]["securityContext"] == signer["securityContext"]
    assert not {"ports", "livenessProbe", "readinessProbe", "startupProbe"} & worker.keys()
    scratch = [one["emptyDir"]["sizeLimit"] for one in pod["spec"]["volumes"] if "emptyDir" in one]
    assert scratch == ["5Gi"] == [worker["resources"]["limits"]["ephemeral-storage"]]


def test_helms_test_logs_in_as_the_operator_where_each_role_has_a_user() -> None:
    rendered = by_name(charted(*EVERYTHING))
    (worker,) = rendered["Pod streamer-verify"]["spec"]["containers"]
    given = {one["name"]: one["value"] for one in worker["env"]}
    user = given["STREAMER_SASL_USERNAME"]
    assert f"KafkaUser {user}" in rendered
    assert given["STREAMER_SASL_PASSWORD_FILE"].endswith(f"/sasl-password-{user.split('-')[1]}")


def test_what_pods_are_given_reaches_both_workloads() -> None:
    given = {
        "resources": {"limits": {"memory": "3Gi"}},
        "nodeSelector": {"disk": "fast"},
        "tolerations": [{"operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
        "priorityClassName": "high",
        "podAnnotations": {"a": "b"},
    }
    both = [f"{role}={json.dumps(given)}" for role in ("index", "sign")]
    values = [
        "image.repository=localhost/mine", "image.digest=sha256:" + 64 * "a", "secret=other",
        "image.pullPolicy=Always", "image.pullSecrets[0]=registry", "preset=nutch",
        "index.disk.size=1Ti", "index.disk.storageClass=fast",
    ]  # fmt: skip
    arguments = [part for one in both for part in ("--set-json", one)]
    rendered = by_name(charted(*arguments, "--set", ",".join(values)))
    for workload in (one for one in rendered.values() if is_workload(one)):
        pod = workload["spec"]["template"]["spec"]
        plain = container(chart()[kubernetes_tools.called(workload)])
        assert {name: pod[name] for name in given if name in pod} == {
            name: value for name, value in given.items() if name in pod
        }
        assert len(given.keys() & pod.keys()) == 4
        assert pod["imagePullSecrets"] == [{"name": "registry"}]
        assert [one["secret"]["secretName"] for one in pod["volumes"] if "secret" in one] == [
            "other"
        ]
        worker = container(workload)
        assert worker["image"] == "localhost/mine@sha256:" + 64 * "a"
        assert worker["imagePullPolicy"] == "Always"
        assert worker["args"] == [*plain["args"], "--preset", "nutch"]
        limits = {**plain["resources"]["limits"], "memory": "3Gi"}
        assert worker["resources"] == {**plain["resources"], "limits": limits}
        assert workload["spec"]["template"]["metadata"]["annotations"]["a"] == "b"
        digest_in(workload)
    claim = rendered["StatefulSet streamer-index"]["spec"]["volumeClaimTemplates"][0]["spec"]
    assert claim["resources"]["requests"]["storage"] == "1Ti"
    assert claim["storageClassName"] == "fast"
