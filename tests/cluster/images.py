"""An image of one program that needs no files, as an archive that containerd imports."""

import gzip
import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import Any

OCI = "application/vnd.oci.image"


def write_image(archive: Path, name: str, program: Path) -> None:
    """Write an OCI archive of an image that runs a statically linked program."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        tar.add(program, program.name)
    plain = layer.getvalue()
    with tarfile.open(archive, "w") as tar:

        def blob(kind: str, content: bytes) -> dict[str, Any]:
            digest = hashlib.sha256(content).hexdigest()
            _add(tar, f"blobs/sha256/{digest}", content)
            return {"mediaType": kind, "digest": f"sha256:{digest}", "size": len(content)}

        config = {
            "architecture": "amd64",
            "os": "linux",
            "config": {"Entrypoint": [f"/{program.name}"]},
            "rootfs": {
                "type": "layers",
                "diff_ids": [f"sha256:{hashlib.sha256(plain).hexdigest()}"],
            },
        }
        manifest = {
            "schemaVersion": 2,
            "mediaType": f"{OCI}.manifest.v1+json",
            "config": blob(f"{OCI}.config.v1+json", json.dumps(config).encode()),
            "layers": [blob(f"{OCI}.layer.v1.tar+gzip", gzip.compress(plain, 1))],
        }
        listed = blob(f"{OCI}.manifest.v1+json", json.dumps(manifest).encode())
        listed["annotations"] = {"io.containerd.image.name": name}
        _add(tar, "index.json", json.dumps({"schemaVersion": 2, "manifests": [listed]}).encode())
        _add(tar, "oci-layout", b'{"imageLayoutVersion":"1.0.0"}')


def _add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    tar.addfile(entry, io.BytesIO(content))
