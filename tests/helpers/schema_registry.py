"""A schema registry: Apicurio's, or a double that can be made to fail; and messages for it."""

import io
import json
import ssl
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import fastavro

from tests.helpers.missing import leave_out
from tests.helpers.ports import free_port, listening
from tests.helpers.web_server import HttpAnswers, serving

ROOT = Path(__file__).parents[2]
FILES = ROOT / "build" / "registry"
PAGE_SCHEMA = ROOT.joinpath("tests", "fixtures", "page.avsc").read_text("utf-8")


def avro(schema: str, record: object) -> bytes:
    """Return a record as Avro."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(schema)), record)
    return out.getvalue()


def avro_page(url: str, body: bytes, **more: Any) -> bytes:
    """Return a page as Avro, by PAGE_SCHEMA."""
    fields = {"fetched_at": 1_700_000_000_000, "headers": {"server": "test"}, **more}
    return avro(PAGE_SCHEMA, {"url": url, "body": body, **fields})


def by_number(number: int, payload: bytes) -> bytes:
    """Return a message that names its schema by number."""
    return b"\0" + number.to_bytes(4, "big") + payload


@contextmanager
def running_registry(folder: Path) -> Iterator[str]:
    """Run Apicurio Registry, with its schemas in memory; yield its URL."""
    runner = FILES / "runner.jar"
    if not runner.exists():
        leave_out("Apicurio Registry", ".ci/tools registry")
    port = free_port()
    command = ["java", "-Xmx400m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]  # starts sooner
    command += ["-Dquarkus.http.host=127.0.0.1", f"-Dquarkus.http.port={port}"]
    with listening(port, [*command, "-jar", str(runner)], folder / "registry.log"):
        yield f"http://127.0.0.1:{port}/apis/ccompat/v7"


def register(url: str, subject: str, schema: str, kind: str = "AVRO", **more: Any) -> int:
    """Register a schema; return its number."""
    request = urllib.request.Request(  # noqa: S310 - ours
        f"{url}/subjects/{subject}/versions",
        json.dumps({"schema": schema, "schemaType": kind, **more}).encode(),
        {"Content-Type": "application/vnd.schemaregistry.v1+json"},
    )
    with urllib.request.urlopen(request, timeout=300) as answer:  # noqa: S310 - ours
        return int(json.load(answer)["id"])


@dataclass
class FakeRegistry:
    """A double of a registry, with the answers of Confluent's.

    Attributes:
        schemas: by path, as /schemas/ids/1, what is answered.
        failure: the status of all answers, if it is not 0.
        bodies: by path, what is answered as it is, with its status.
        asked: the paths of all requests, with their queries.
        logins: what Authorization they had.
    """

    url: str = ""
    schemas: dict[str, dict[str, Any]] = field(default_factory=dict)
    failure: int = 0
    bodies: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    logins: list[str | None] = field(default_factory=list)

    def answer(self, path: str) -> tuple[int, bytes]:
        """Return the status and the body for a path without its query."""
        if self.failure:
            return self.failure, b"the server is being replaced"
        if path in self.bodies:
            return self.bodies[path]
        if path == "/schemas/types":
            return 200, b'["JSON","AVRO"]'
        if path in self.schemas:
            return 200, json.dumps(self.schemas[path]).encode()
        return 404, b'{"error_code":40403,"message":"Schema not found"}'


@contextmanager
def fake_registry(context: ssl.SSLContext | None = None) -> Iterator[FakeRegistry]:
    """Run a double, with TLS if there is a context for it."""
    reported = FakeRegistry()

    class Registry(HttpAnswers):
        def answer(self) -> None:
            reported.asked.append(self.path)
            reported.logins.append(self.headers["Authorization"])
            status, body = reported.answer(self.path.partition("?")[0])
            moved = {"Location": "http://127.0.0.1:1/elsewhere"} if status == 302 else {}
            self.give(status, body, **moved)

    with serving(Registry, context) as reported.url:
        yield reported
