"""helm and kustomize, and the schemas that manifests are held against."""

import os
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import kubernetes_validate
import yaml
from jsonschema import Draft4Validator

from tests.helpers.missing import leave_out

ROOT = Path(__file__).parents[2]
KUBERNETES = ROOT / "deploy" / "kubernetes"
CHART = ROOT / "deploy" / "helm" / "streamer"
TOOLS = Path(os.environ.get("STREAMER_TOOLS", ROOT / "build" / "tools"))
DEFINITIONS = Path(os.environ.get("STREAMER_CRDS", ROOT / "build" / "crds"))
LINKED = "found symbolic link"  # of what helm says to the link from the chart to the manifests

Manifest = dict[str, Any]


def tool(name: str) -> str:
    """Return the path of a tool that deploy/tools builds, or of the system's own.

    Without it a test fails in CI, and is left out elsewhere.
    """
    built = TOOLS / name
    found = str(built) if built.exists() else shutil.which(name)
    return found or leave_out(name, f"deploy/tools {name}")


def run(*command: str) -> subprocess.CompletedProcess[str]:
    """Run a tool, whatever becomes of it."""
    return subprocess.run(command, capture_output=True, text=True, check=False)


def load_all(text: str) -> list[Manifest]:
    return [manifest for manifest in yaml.safe_load_all(text) if manifest]


def called(manifest: Manifest) -> str:
    return f"{manifest['kind']} {manifest['metadata']['name']}"


@cache
def kustomized(folder: Path) -> str:
    """Return what `kubectl apply -k` would send; it asks no cluster."""
    done = run(tool("kustomize"), "build", str(folder))
    assert done.returncode == 0, done.stderr
    assert done.stderr == "", "kustomize warns of what is on its way out"
    return done.stdout


def helm(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run helm, without what it says to the link from the chart to the manifests."""
    done = run(tool("helm"), *arguments)
    reported = [line for line in done.stderr.splitlines() if LINKED not in line]
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout, "\n".join(reported))


@cache
def charted(*arguments: str) -> str:
    """Return what `helm install` would send, its tests included."""
    done = helm("template", "streamer", str(CHART), "--namespace", "streamer", *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def refused(*arguments: str) -> str:
    """Return what helm says to values that it refuses."""
    done = helm("template", "streamer", str(CHART), *arguments)
    assert done.returncode != 0, done.stdout
    return done.stderr


# Schemas


def need_definitions() -> None:
    """Leave a test out where the definitions of the operators' kinds are missing."""
    if not (DEFINITIONS / "made-of").exists():
        leave_out("the definitions of the operators' kinds", "deploy/crds/fetch build/crds")


@cache
def operators_kinds() -> dict[tuple[str, str], Draft4Validator]:
    """Return the strict schemas of the operators' kinds, by version and kind."""
    need_definitions()
    # Nothing is fetched where it is there, unless it is of other versions than are wanted.
    made = run(str(ROOT / "deploy" / "crds" / "fetch"), str(DEFINITIONS))
    assert made.returncode == 0, made.stderr
    found = {}
    for file in DEFINITIONS.glob("*.yaml"):
        spec = yaml.safe_load(file.read_text("utf-8"))["spec"]
        for version in spec["versions"]:
            schema = strict(version["schema"]["openAPIV3Schema"])
            schema["properties"]["metadata"] = {"type": "object"}
            api = f"{spec['group']}/{version['name']}", spec["names"]["kind"]
            found[api] = Draft4Validator(schema)
    return found


def strict(schema: Any) -> Any:
    """Return a schema that refuses fields which it does not name."""
    if isinstance(schema, list):
        return [strict(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    result = {name: strict(value) for name, value in schema.items() if name != "properties"}
    if "properties" in schema:
        result["properties"] = {name: strict(one) for name, one in schema["properties"].items()}
        if not {"additionalProperties", "x-kubernetes-preserve-unknown-fields"} & schema.keys():
            result["additionalProperties"] = False
    return result


def conform(manifest: Manifest, version: str) -> None:
    """Hold a manifest against the strict schemas of Kubernetes, or of the operators.

    Raises:
        kubernetes_validate.ValidationError, jsonschema.ValidationError: it does not fit.
    """
    schema = operators_kinds().get((manifest["apiVersion"], manifest["kind"]))
    if schema is not None:
        schema.validate(manifest)
    else:
        kubernetes_validate.validate(manifest, version, strict=True)
