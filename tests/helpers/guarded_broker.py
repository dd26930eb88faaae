"""A broker that refuses what deploy/kubernetes/strimzi does not allow, with the topics there."""

import asyncio
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import yaml
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.protocol.admin import CreateAclsRequest

from streamer.kafka.topics import Names
from tests.helpers.broker import administer, running_broker
from tests.helpers.fleet import ROOT, streamer
from tests.helpers.ports import free_ports, listens
from tests.helpers.secure_broker import listeners
from tests.helpers.wait import wait_until

Manifest = dict[str, Any]

STRIMZI = ROOT / "deploy" / "kubernetes" / "strimzi"
NAMES = Names("streamer", "pages")
_SETTINGS = """\
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
allow.everyone.if.no.acl.found=false
super.users=User:ANONYMOUS
"""
_LOGGING = ROOT / "tests" / "fixtures" / "audit.properties"
_RESOURCES = {"TOPIC": 2, "GROUP": 3, "TRANSACTIONAL_ID": 5}  # Kafka's numbers
_PATTERNS = {"LITERAL": 3, "PREFIXED": 4}
_OPERATIONS = {"READ": 3, "WRITE": 4, "DESCRIBE": 8, "DESCRIBE_CONFIGS": 10}
_ALLOW = 3
_ALLOWED = re.compile(
    r"is Allowed operation = (\w+) .*StandardAcl\(resourceType=(\w+), resourceName=([^,]+), "
    r"patternType=(\w+), principal=User:([^,]+), host=\*, operation=(\w+), "
)
_DENIED = re.compile(
    r"= User:(\S+) is Denied operation = (\w+) .*? resource = \w+:\w+:(\S+) for request = (\w+)"
)


def manifests(name: str) -> list[Manifest]:
    return list(yaml.safe_load_all((STRIMZI / name).read_text("utf-8")))


TOPICS, USERS = manifests("topics.yaml"), manifests("users.yaml")


@dataclass(frozen=True, order=True)
class Right:
    """One operation that a user may do, as Kafka names it."""

    user: str
    operation: str
    resource: str
    pattern: str
    name: str

    def request(self, kind: type) -> Any:
        """Return the request that gives it, or takes it away."""
        return kind(
            _RESOURCES[self.resource], self.name, _PATTERNS[self.pattern], f"User:{self.user}",
            "*", _OPERATIONS[self.operation], _ALLOW,
        )  # fmt: skip


def rights_of(user: Manifest) -> list[Right]:
    """Return what Strimzi gives a KafkaUser."""
    authorization = user["spec"]["authorization"]
    assert authorization["type"] == "simple"
    patterns = {"literal": "LITERAL", "prefix": "PREFIXED"}
    return [
        Right(
            user["metadata"]["name"],
            re.sub(r"(?<=[a-z])(?=[A-Z])", "_", operation).upper(),
            rule["resource"]["type"].upper(),
            patterns[rule["resource"].get("patternType", "literal")],
            rule["resource"]["name"],
        )
        for rule in authorization["acls"]
        for operation in rule["operations"]
    ]


RIGHTS = [right for user in USERS for right in rights_of(user)]


@dataclass(frozen=True)
class Guarded:
    """The broker: `opened` is for whoever may do everything, `address` for its users."""

    folder: Path
    opened: str
    address: str

    def login(self, user: str) -> tuple[str, ...]:
        """Return the options by which a command runs as a user."""
        file = self.folder / f"{user}.password"
        file.write_text(_password(user))
        return (
            "--brokers", self.address, "--security-protocol", "SASL_PLAINTEXT",
            "--sasl-mechanism", "SCRAM-SHA-512", "--sasl-username", user,
            "--sasl-password-file", str(file),
        )  # fmt: skip

    def client(self, user: str) -> dict[str, Any]:
        """Return what a client takes to connect as a user."""
        return {
            "bootstrap_servers": self.address,
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "SCRAM-SHA-512",
            "sasl_plain_username": user,
            "sasl_plain_password": _password(user),
        }

    def streamer(self, user: str, *arguments: object) -> str:
        """Run a command as a user; return what it prints."""
        done = streamer(*arguments, *self.login(user))
        assert done.returncode == 0, (arguments, done.stderr, done.stdout)
        return done.stdout

    @property
    def audit(self) -> Path:
        """The file with what the broker has decided."""
        return self.folder / "audit.log"


def used_rights(audit: str) -> set[Right]:
    """Return the rights by which something was given that no lesser one would have given."""
    return {
        Right(user, operation, resource, pattern, name)
        for asked, resource, name, pattern, user, operation in _ALLOWED.findall(audit)
        if asked == operation
    }


class Refusal(NamedTuple):
    """What was refused, and as part of which request."""

    user: str
    operation: str
    name: str
    request: str


def denied(audit: str) -> set[Refusal]:
    """Return what was refused."""
    return {Refusal(*found) for found in _DENIED.findall(audit)}


@contextmanager
def guarded_broker(folder: Path) -> Iterator[Guarded]:
    """Start the broker, and make the topics and the rights as they are written."""
    port, sasl = free_ports(2)
    extra = folder / "extra.properties"
    extra.write_text(listeners({"PLAINTEXT": port, "SASL_PLAINTEXT": sasl}) + _SETTINGS)
    users = [user["metadata"]["name"] for user in USERS]
    environment = {
        "BROKER_EXTRA": str(extra),
        "BROKER_SCRAM": "\n".join(
            f"SCRAM-SHA-512=[name={user},password={_password(user)}]" for user in users
        ),
        "JAVA_TOOL_OPTIONS": f"-Dlog4j2.configurationFile={_LOGGING} -Daudit={folder}/audit.log",
    }
    with patch.dict(os.environ, environment), running_broker(folder / "broker", port) as opened:
        wait_until(lambda: listens(sasl))
        _make_topics(opened)
        asyncio.run(ask(opened, [right.request(CreateAclsRequest) for right in RIGHTS]))
        yield Guarded(folder, opened, f"127.0.0.1:{sasl}")


async def ask(brokers: str, requests: list[Any]) -> None:
    """Have rights given or taken, by somebody who may."""
    admin = AIOKafkaAdminClient(bootstrap_servers=brokers)
    await admin.start()
    try:
        for request in requests:
            answer = await admin._send_request(request)  # noqa: SLF001 - it has no method for it
            ((code, *_),) = vars(answer).get("creation_responses") or answer.filter_responses
            assert code == 0, answer
    finally:
        await admin.close()


def _make_topics(brokers: str) -> None:
    """Make what Strimzi would; on one broker."""
    new = []
    for topic in TOPICS:
        name, spec = topic["metadata"]["name"], topic["spec"]
        new.append(NewTopic(name, spec["partitions"], 1, topic_configs=spec["config"]))
    answer = administer(brokers, lambda admin: admin.create_topics(new))
    assert all(error[1] == 0 for error in answer.topic_errors), answer


def _password(user: str) -> str:
    return f"secret of {user}"
