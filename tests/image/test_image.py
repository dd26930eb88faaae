"""The images as deploy/image builds them: what is in them, what they may, and how they start."""

import json
import os
import re
import secrets
import subprocess
import sys
import tarfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from tests.helpers.podman import BROKER, HARDENED, ROOT, VERSION, WORKER, Podman
from tests.helpers.ports import free_port, listens
from tests.helpers.secure_broker import PASSWORD, USER, Authority
from tests.helpers.wait import PATIENCE_S, wait_until

README = (ROOT / "deploy" / "README.md").read_text("utf-8")
COLD_STARTS = 3
LARGEST = 600_000_000
KAFKA = "/run/secrets/kafka"
RIGHTS = """
import json, os
status = dict(line.split(":\\t") for line in open("/proc/self/status").read().splitlines())
def may_write(folder):
    try:
        open(f"{folder}/x", "w")
    except OSError:
        return False
    return True
print(json.dumps({
    "user": [os.getuid(), os.getgid()],
    "rights": [status[name].strip() for name in ("CapEff", "CapPrm", "CapBnd", "NoNewPrivs")],
    "writes": [name for name in ("/", "/opt/streamer", "/etc", "/tmp") if may_write(name)],
}))
"""
LISTING = """import json, pathlib; found = pathlib.Path('/tmp').rglob('*.nb?')
print(json.dumps({path.name: path.stat().st_size for path in found}))
"""
# Two listeners: without encryption for the broker itself, and one for workers, as in a cluster.
LISTENERS = {
    "KAFKA_LISTENERS": "OWN://127.0.0.1:{own},CLIENTS://127.0.0.1:{clients},"
    "CONTROLLER://127.0.0.1:{controller}",
    "KAFKA_ADVERTISED_LISTENERS": "OWN://127.0.0.1:{own},CLIENTS://127.0.0.1:{clients}",
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "OWN:PLAINTEXT,CLIENTS:SASL_SSL,CONTROLLER:PLAINTEXT",
    "KAFKA_INTER_BROKER_LISTENER_NAME": "OWN",
    "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@127.0.0.1:{controller}",
    "KAFKA_SSL_KEYSTORE_TYPE": "PEM",
    "KAFKA_SSL_KEYSTORE_LOCATION": f"{KAFKA}/server-store.pem",
    "KAFKA_SASL_ENABLED_MECHANISMS": "SCRAM-SHA-512",
    "KAFKA_LISTENER_NAME_CLIENTS_SCRAM___SHA___512_SASL_JAAS_CONFIG": (
        "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    ),
    "BROKER_SCRAM": f"SCRAM-SHA-512=[name={USER},password={PASSWORD}]",
    "BROKER_HEAP": "384m",
}


@pytest.fixture(scope="module")
def secure(podman: Podman, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """Start the broker's image; return where workers find it, and a folder with their secrets."""
    folder = tmp_path_factory.mktemp("secrets")
    folder.chmod(0o755)  # the users of the containers read it; what pytest makes is for ours alone
    authority = Authority(folder)
    certfile, keyfile = authority.give("server")
    (folder / "server-store.pem").write_bytes(keyfile.read_bytes() + certfile.read_bytes())
    (folder / "sasl-password").write_text(PASSWORD)
    (folder / "secret.key").write_text(secrets.token_hex(32))
    ports = {"own": free_port(), "clients": free_port()}
    ports["controller"] = ports["own"] + 1
    given = [f"--env={name}={value.format(**ports)}" for name, value in LISTENERS.items()]
    name = f"kafka-{ports['own']}"
    mounts = ["--volume", f"{folder}:{KAFKA}:ro", "--volume", "/var/lib/kafka"]
    podman.start(name, *mounts, *given, BROKER)
    wait_until(lambda: listens(ports["clients"]))
    create = ["--create", "--topic", "pages", "--partitions", "4", "--config", "retention.ms=-1"]
    own = f"127.0.0.1:{ports['own']}"
    podman("exec", name, "broker", "tool", "topics", "--bootstrap-server", own, *create)
    yield f"127.0.0.1:{ports['clients']}", folder
    podman.remove(name)


def start_worker(podman: Podman, secure: tuple[str, Path], name: str) -> float:
    """Start a worker with an index of its own; return after how many seconds it was ready."""
    brokers, folder = secure
    port = free_port()
    settings = {
        "brokers": brokers, "input_topic": "pages", "index_name": name, "health_port": str(port),
        "key_file": f"{KAFKA}/secret.key", "security_protocol": "SASL_SSL",
        "ssl_cafile": f"{KAFKA}/ca.pem", "sasl_mechanism": "SCRAM-SHA-512", "sasl_username": USER,
        "sasl_password_file": f"{KAFKA}/sasl-password",
    }  # fmt: skip
    given = [f"--env=STREAMER_{key.upper()}={value}" for key, value in settings.items()]
    mounts = ["--volume", f"{folder}:{KAFKA}:ro", "--volume", "/var/lib/streamer"]
    began = time.monotonic()
    podman.start(name, "--tmpfs", "/tmp", *mounts, *given, WORKER)  # noqa: S108 - the container's
    while not ready(port):
        assert time.monotonic() < began + PATIENCE_S, podman("logs", name)
        time.sleep(0.05)
    return time.monotonic() - began


def ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health/ready", timeout=5) as answer:
            return int(answer.status) == 200
    except OSError:  # it does not listen yet, or says that it is not ready
        return False


def inspected(podman: Podman, image: str) -> Any:
    (found,) = json.loads(podman("image", "inspect", image))
    return found


def test_the_archives_name_the_images_as_manifests_do() -> None:
    for file, image in (("streamer.tar", WORKER), ("broker.tar", BROKER)):
        with tarfile.open(ROOT / "build" / "images" / file) as archive:
            member = archive.extractfile("manifest.json")
            assert member is not None
            (described,) = json.load(member)
        tags = [tag for tag in described["RepoTags"] if tag.endswith(f"/library/{image}")]
        assert tags, described


def test_the_image_is_small_and_says_what_it_is(podman: Podman) -> None:
    image = inspected(podman, WORKER)
    print(f"\n{WORKER}: {image['Size'] / 1e6:.0f} MB")  # noqa: T201 - what was measured
    assert image["Size"] < LARGEST
    labels = image["Labels"]
    head = subprocess.run(
        ["git", "rev-parse", "HEAD"],  # noqa: S607
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert labels["org.opencontainers.image.title"] == "streamer"
    assert labels["org.opencontainers.image.version"] == VERSION
    assert labels["org.opencontainers.image.licenses"] == "Apache-2.0"
    assert labels["org.opencontainers.image.revision"] == head.stdout.strip()
    assert image["Config"]["User"] == "10001:10001"
    assert image["Config"]["StopSignal"] == "SIGTERM"
    assert "/health/live" in image["Healthcheck"]["Test"][-1]


def test_only_what_is_needed_is_in_the_image_and_nothing_of_its_builder(podman: Podman) -> None:
    with podman.file_system(WORKER) as tree:
        packages = next(tree.glob("opt/streamer/lib/python3.*/site-packages"))
        assert [name for name in ("pip", "pytest") if (packages / name).exists()] == []
        assert not (tree / "usr/lib/python3/dist-packages/pip").exists()
        assert list(packages.glob("*/tests")) == []
        left = [*tree.glob("build/*"), *tree.glob("root/.*cache*"), *tree.glob("run/secrets/*")]
        left += [*tree.glob("var/lib/apt/lists/*_*"), *tree.glob("var/cache/apt/archives/*.deb")]
        assert left == []
        # Where a container gets its own: the files are there, and empty.
        files = [tree / "etc" / name for name in ("pip.conf", "hostname", "resolv.conf", "hosts")]
        assert [path for path in files if path.exists() and path.read_bytes()] == []


def test_a_container_has_no_rights_and_writes_only_where_it_must(podman: Podman) -> None:
    run = ("run", "--rm", *HARDENED, "--tmpfs", "/tmp", "--network", "none")  # noqa: S108
    found = json.loads(podman(*run, "--entrypoint", "python", WORKER, "-c", RIGHTS))
    assert found == {"user": [10001, 10001], "rights": ["0" * 16] * 3 + ["1"], "writes": ["/tmp"]}  # noqa: S108
    (shown,) = re.findall(r"^podman (run .*--version)$", README, re.MULTILINE)
    assert podman(*shown.split()) == VERSION


def test_kernels_are_compiled_for_the_processors_that_are_named(podman: Podman) -> None:
    code = (
        "from streamer.kernel import *;"
        "print(has_all_compiled(), has_all_compiled(main_text=True), kernels_on_disk() > 50)"
    )
    run = ("run", "--rm", *HARDENED, "--tmpfs", "/tmp", "--network", "none")  # noqa: S108
    python = ("--entrypoint", "python", WORKER, "-c", code)
    assert "NUMBA_CPU_NAME=x86-64-v3" in inspected(podman, WORKER)["Config"]["Env"]
    assert podman(*run, *python) == "True True True"
    assert podman(*run, "--env=NUMBA_CPU_NAME=x86-64-v2", *python) == "False False False"


def test_a_cold_start_compiles_nothing(podman: Podman, secure: tuple[str, Path]) -> None:
    """How long it takes is shown; the processor time is held, which others change little."""
    compiled = kernels_of(podman)
    assert len(compiled) > 100
    for number in range(COLD_STARTS):
        name = f"cold-{os.getpid()}-{number}"
        took = start_worker(podman, secure, name)
        pid = podman("inspect", "--format", "{{.State.Pid}}", name)
        times = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[11:13]
        worked = sum(map(int, times)) / os.sysconf("SC_CLK_TCK")
        print(f"\ncold start: ready after {took:.1f} s, {worked:.1f} s of processor")  # noqa: T201
        assert json.loads(podman("exec", name, "python", "-c", LISTING)) == compiled
        assert worked < 5
        podman("stop", name)
        assert podman("inspect", "--format", "{{.State.ExitCode}}", name) == "0"
        podman.remove(name)


def test_main_text_compiles_nothing_either(podman: Podman) -> None:
    page = "<p>" + "A sentence, of enough words to be the text of the page itself. " * 9
    code = (
        "import pathlib, subprocess\n"
        f"pathlib.Path('/tmp/a.html').write_text({page!r})\n"
        "command = 'streamer compare /tmp/a.html /tmp/a.html --text main --json'\n"
        f"subprocess.run(command.split(), check=True)\n{LISTING}"
    )
    run = ("run", "--rm", *HARDENED, "--tmpfs", "/tmp", "--network", "none")  # noqa: S108
    said, found = podman(*run, "--entrypoint", "python", WORKER, "-c", code).splitlines()
    assert json.loads(said)["exact"]["jaccard"] == 1
    assert json.loads(found) == kernels_of(podman)


def kernels_of(podman: Podman) -> dict[str, int]:
    """Return the sizes of the compiled kernels in the image, by the names of their files."""
    with podman.file_system(WORKER) as tree:
        (packages,) = tree.glob("opt/streamer/lib/python3.*/site-packages")
        (kept,) = (packages / "streamer/__pycache__").glob("kernels-*")
        return {path.name: path.stat().st_size for path in kept.rglob("*.nb?")}


def test_the_bill_of_materials_names_each_package_of_the_lock(tmp_path: Path) -> None:
    chosen = {"PYTHON": sys.executable, **os.environ}
    subprocess.run([str(ROOT / "deploy" / "image"), "sbom"], env=chosen, check=True, cwd=tmp_path)
    bill = json.loads((ROOT / "build" / "images" / "streamer.cdx.json").read_text("utf-8"))
    assert (bill["bomFormat"], bill["metadata"]["component"]["name"]) == (
        "CycloneDX",
        "streamer-dedup",
    )
    named = {(plain(one["name"]), one["version"]) for one in bill["components"]}
    lock = (ROOT / "requirements" / "run.lock").read_text("utf-8")
    locked = [Requirement(one) for one in re.findall(r"^[\w.-]+==[^\\\n]+", lock, re.MULTILINE)]
    here = {"python_version": "3.11", "python_full_version": "3.11.2"}  # Debian's own
    needed = {
        (plain(one.name), str(one.specifier).removeprefix("=="))
        for one in locked
        if one.marker is None or one.marker.evaluate(here)
    }
    assert len(needed) > 50
    assert sorted(needed - named) == []
    debian = {one["name"] for one in bill["components"] if one["purl"].startswith("pkg:deb/")}
    assert {"libc6", "libssl3", "python3.11"} <= debian


def plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
