"""An object store that speaks as S3 does, on files of this machine: the real gateway, no double."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.helpers.kubernetes_tools import tool
from tests.helpers.ports import free_port, listening


class ObjectStore(NamedTuple):
    """A running store: the URL of a bucket, its files, and the environment that its users need."""

    url: str
    files: Path
    environment: dict[str, str]

    def lead_to(self, patch: pytest.MonkeyPatch) -> None:
        """Have the environment lead to the store."""
        for name, value in self.environment.items():
            patch.setenv(name, value)


@contextmanager
def running_store(folder: Path) -> Iterator[ObjectStore]:
    """Run an object store with a bucket, whose files are in `folder`."""
    gateway, port = tool("versitygw"), free_port()
    bucket = folder / "bucket"
    bucket.mkdir(parents=True)
    users = {"ROOT_ACCESS_KEY": "tester", "ROOT_SECRET_KEY": "not-a-secret"}
    command = [gateway, "--port", f"127.0.0.1:{port}", "--quiet", "posix", str(folder)]
    with listening(port, command, folder.with_name(f"{folder.name}.log"), os.environ | users):
        environment = {
            "AWS_ACCESS_KEY_ID": users["ROOT_ACCESS_KEY"],
            "AWS_SECRET_ACCESS_KEY": users["ROOT_SECRET_KEY"],
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": "us-east-1",
        }
        yield ObjectStore("s3://bucket/index", bucket, environment)
