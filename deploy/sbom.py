"""Write what an image contains as a CycloneDX bill of materials: Python and Debian packages.

    python deploy/sbom.py TREE FILE

TREE is the image's file system, FILE gets the bill. `deploy/image sbom` calls it.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any
from urllib.parse import quote

ROOT = Path(__file__).parents[1]


def python_packages(tree: Path) -> dict[str, Any]:
    """Return the bill of the environment in the image, with the project as its root.

    cyclonedx-py asks an interpreter where its packages lie. The image's own would not find them
    from outside, so a stand-in answers for it.
    """
    (packages,) = tree.glob("opt/streamer/lib/python3.*/site-packages")
    with tempfile.TemporaryDirectory() as folder:
        stand_in = Path(folder, "python")
        stand_in.write_text(f"#!/bin/sh\necho '{json.dumps([str(packages)])}'\n")
        stand_in.chmod(0o755)
        command = ["-m", "cyclonedx_py", "environment", str(stand_in), "--mc-type", "application"]
        command += ["--pyproject", str(ROOT / "pyproject.toml"), "--spec-version", "1.6"]
        done = subprocess.run([sys.executable, *command], check=True, capture_output=True)
    bill: dict[str, Any] = json.loads(done.stdout)
    return bill


def debian_packages(tree: Path) -> list[dict[str, str]]:
    """Return a component for each package that dpkg has installed."""
    release = dict(
        line.split("=", 1) for line in (tree / "etc/os-release").read_text().splitlines()
    )
    distribution = quote(f"debian-{release['VERSION_ID'].strip(chr(34))}")
    found = []
    for entry in (tree / "var/lib/dpkg/status").read_text("utf-8").split("\n\n"):
        fields = dict(line.split(": ", 1) for line in entry.splitlines() if ": " in line)
        if fields.get("Status") == "install ok installed":
            name, version = fields["Package"], fields["Version"]
            purl = (
                f"pkg:deb/debian/{quote(name)}@{quote(version, safe='')}"
                f"?arch={fields['Architecture']}&distro={distribution}"
            )
            component = {"type": "library", "name": name, "version": version}
            found.append({**component, "purl": purl, "bom-ref": purl})
    return found


def main() -> None:
    """Write the bill."""
    tree, file = Path(sys.argv[1]), Path(sys.argv[2])
    bill = python_packages(tree)
    bill["components"] += debian_packages(tree)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(bill, indent=1) + "\n", "utf-8")


main()
