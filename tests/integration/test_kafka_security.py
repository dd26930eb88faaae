"""Connections and ids of topics on a real broker: TLS, client certificates, SCRAM and tokens.

The broker verifies tokens (SASL OAUTHBEARER), and ends connections when they expire.
"""

import asyncio
import logging
import signal
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.conn import AIOKafkaConnection
from aiokafka.errors import KafkaConnectionError
from aiokafka.protocol.metadata import MetadataRequest

from streamer import Settings, follow
from streamer.errors import StreamerError
from streamer.kafka.connection import Connection
from streamer.kafka.reader import reach
from streamer.kafka.topics import Names, topic_id
from tests.helpers.fleet import fleet, streamer
from tests.helpers.secure_broker import PASSWORD, USER, Authority, SecureBroker, run
from tests.helpers.tokens import TokenSigner
from tests.helpers.wait import wait_until
from tests.integration.chaos import make_crawl
from tests.integration.test_console import console
from tests.integration.test_console import wait_until as wait_for_console

FAILS_WITHIN_S = 15

SCRAM = {"sasl_mechanism": "SCRAM-SHA-512", "sasl_username": USER, "sasl_password": PASSWORD}
WRONG = "not the password"


@pytest.fixture(scope="module")
def strangers(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("strangers"))


def connection(broker: SecureBroker, protocol: Any, **changed: Any) -> Connection:
    """Return a connection that is let in, except the settings that are changed."""
    settings: dict[str, Any] = {"brokers": getattr(broker, protocol.lower())}
    if protocol.endswith("SSL"):
        settings["ssl_cafile"] = broker.authority.cafile
    if protocol == "SSL":
        settings["ssl_certfile"], settings["ssl_keyfile"] = broker.authority.give("client")
    if protocol.startswith("SASL"):
        settings |= SCRAM
    return Connection(security_protocol=protocol, **{**settings, **changed})


@asynccontextmanager
async def admin_of(connection: Connection) -> AsyncIterator[AIOKafkaAdminClient]:
    admin = AIOKafkaAdminClient(**connection.client_options())
    try:
        await admin.start()
        yield admin
    finally:
        await admin.close()


async def make(admin: AIOKafkaAdminClient, topic: str) -> None:
    answer = await admin.create_topics([NewTopic(topic, 1, 1)])
    assert answer.topic_errors[0][1] == 0


@pytest.mark.parametrize("protocol", ["SSL", "SASL_SSL", "SASL_PLAINTEXT"])
def test_each_protocol_lets_in(broker: SecureBroker, topic: str, protocol: str) -> None:
    secured = connection(broker, protocol)

    async def use() -> None:
        await reach(secured)
        async with admin_of(secured) as admin:
            await make(admin, topic)

    run(use())


def refusal(wrong: Connection) -> str:
    """Return what `reach` says to a connection that a client of aiokafka cannot use either."""

    async def both() -> str:
        with pytest.raises(StreamerError) as refused:
            await reach(wrong)
        with pytest.raises(KafkaConnectionError):
            async with admin_of(wrong):
                pass
        return str(refused.value)

    started = monotonic()
    message = run(both())
    assert monotonic() - started < FAILS_WITHIN_S
    assert WRONG not in message
    assert PASSWORD not in message
    return message


@pytest.mark.parametrize("protocol", ["SASL_SSL", "SASL_PLAINTEXT"])
@pytest.mark.parametrize("changed", [{"sasl_password": WRONG}, {"sasl_username": "nobody"}])
def test_a_bad_login_is_named(broker: SecureBroker, protocol: str, changed: dict[str, str]) -> None:
    message = refusal(connection(broker, protocol, **changed))
    assert "it refuses the login ([Error 58] SaslAuthenticationFailed" in message
    assert message.endswith("check --sasl-username and the password, or the token.")


def test_a_mechanism_that_the_broker_does_not_take_is_told(broker: SecureBroker) -> None:
    message = refusal(connection(broker, "SASL_SSL", sasl_mechanism="SCRAM-SHA-256"))
    assert message.endswith("check --sasl-mechanism.")


def test_a_broker_of_strangers_is_not_trusted(broker: SecureBroker, strangers: Authority) -> None:
    message = refusal(connection(broker, "SASL_SSL", ssl_cafile=strangers.cafile))
    assert "its certificate is not accepted" in message
    assert message.endswith("check --ssl-cafile and its name.")


def test_a_client_without_a_certificate_that_the_broker_trusts_is_told(
    broker: SecureBroker, strangers: Authority
) -> None:
    certfile, keyfile = strangers.give("stranger")
    for files in ((None, None), (certfile, keyfile)):
        pair = dict(zip(("ssl_certfile", "ssl_keyfile"), files, strict=True))
        message = refusal(connection(broker, "SSL", **pair))
        assert message.endswith("check --security-protocol and --ssl-certfile.")


SPOKEN = {
    "PLAINTEXT": ("SASL_SSL", "SSL", "SASL_PLAINTEXT"),
    "SASL_PLAINTEXT": ("SASL_SSL", "PLAINTEXT"),
    "SSL": ("PLAINTEXT", "SASL_SSL"),
    "SASL_SSL": ("PLAINTEXT",),
}


@pytest.mark.parametrize(
    ("protocol", "spoken"), [(name, other) for name, others in SPOKEN.items() for other in others]
)
def test_another_protocol_is_told(broker: SecureBroker, protocol: str, spoken: str) -> None:
    brokers = getattr(broker, spoken.lower())
    message = refusal(connection(broker, protocol, brokers=brokers))
    assert message.startswith(f"Cannot use the brokers over {protocol}: {brokers}: ")
    assert message.endswith("check --security-protocol.")


def test_one_broker_that_answers_is_enough(broker: SecureBroker) -> None:
    run(reach(connection(broker, "PLAINTEXT", brokers=f"127.0.0.1:1,{broker.plaintext}")))


def with_admin(
    broker: SecureBroker, steps: Callable[[AIOKafkaAdminClient], Coroutine[None, None, None]]
) -> None:
    async def all_steps() -> None:
        async with admin_of(connection(broker, "SASL_SSL")) as admin:
            await steps(admin)

    run(all_steps())


def test_a_topic_keeps_its_id_and_a_later_one_has_another(broker: SecureBroker, topic: str) -> None:
    async def steps(admin: AIOKafkaAdminClient) -> None:
        await make(admin, topic)
        first = await topic_id(admin, topic)
        assert len(bytes.fromhex(first)) == 16
        assert await topic_id(admin, topic) == first
        async with admin_of(connection(broker, "PLAINTEXT")) as another:
            assert await topic_id(another, topic) == first
        await admin.delete_topics([topic])
        await make(admin, topic)
        async with asyncio.timeout(20):  # the broker hears of the deletion a moment later
            while await topic_id(admin, topic) == first:  # noqa: ASYNC110 - there is no event
                await asyncio.sleep(0.05)

    with_admin(broker, steps)


def test_a_topic_that_is_not_there_is_waited_for_and_told(broker: SecureBroker, topic: str) -> None:
    async def steps(admin: AIOKafkaAdminClient) -> None:
        with pytest.raises(StreamerError, match=f"Cannot find the topic {topic}: Unknown"):
            await topic_id(admin, topic, patience_s=0.3)
        assert topic not in await admin.list_topics()
        with pytest.raises(StreamerError, match="InvalidTopicError"):
            await asyncio.wait_for(topic_id(admin, "no topic", patience_s=60), FAILS_WITHIN_S)
        asked = asyncio.create_task(topic_id(admin, topic, patience_s=20))
        await asyncio.sleep(0.3)
        assert not asked.done()
        await make(admin, topic)
        assert await asked == await topic_id(admin, topic)

    with_admin(broker, steps)


def test_brokers_that_give_no_ids_are_told(
    broker: SecureBroker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def old_versions(self: AIOKafkaConnection) -> None:
        await versions(self)
        self._versions[MetadataRequest.API_KEY] = (0, 9)

    async def steps(admin: AIOKafkaAdminClient) -> None:
        await make(admin, topic)
        with pytest.raises(StreamerError, match=r"Apache Kafka 3\.0 or later is needed"):
            await topic_id(admin, topic)

    versions = AIOKafkaConnection._do_version_lookup  # noqa: SLF001 - no old broker at hand
    monkeypatch.setattr(AIOKafkaConnection, "_do_version_lookup", old_versions)
    with_admin(broker, steps)


LIFE_S = 8.0  # of a token, which several connections outlive; a fifth of it is left for a command


def login(broker: SecureBroker, command: str) -> dict[str, str]:
    return {
        "security_protocol": "SASL_SSL",
        "ssl_cafile": str(broker.authority.cafile),
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_token_command": command,
    }


def test_all_commands_and_a_worker_go_on_when_tokens_expire(
    broker: SecureBroker, names: Names, tmp_path: Path
) -> None:
    given = login(broker, broker.tokens.command(LIFE_S))
    flags = [
        part for name, value in given.items() for part in (f"--{name.replace('_', '-')}", value)
    ]

    def call(*arguments: object) -> str:
        done = streamer(*arguments, "--brokers", broker.sasl_ssl, *flags)
        assert done.returncode == 0, (done.stdout, done.stderr)
        return done.stdout

    def send(seed: int) -> None:
        call("produce", make_crawl(tmp_path, 200, seed), "--topic", names.pages)

    def verify() -> str:
        topics = ("--input-topic", names.pages, "--index-name", names.index)
        return call("verify", "--settled", "--wait", 90, *topics)

    send(1)
    with fleet(tmp_path / "fleet", broker.sasl_ssl, names, tuple(flags)) as workers:
        kept = ("--kept-topic", f"{names.pages}-kept")
        workers.start("all", "--index", workers.folder / "index", *kept)
        verify()
        runs = broker.tokens.runs
        wait_until(lambda: broker.tokens.runs >= runs + 2)  # the tokens before have expired
        send(2)
        verify()
        assert workers.kill("all", signal.SIGTERM) == 0, workers.log("all")
        log = workers.log("all")
    assert "eyJ" not in log  # how each JWT begins
    assert "brokers_unreachable" not in log
    assert "closed" not in log, log  # each connection goes on with the next token
    lines = call("tail", "--index-name", names.index, "--limit", 300).splitlines()
    replayed = tmp_path / "replayed.jsonl"
    call(
        "replay", "--from-topic", names.pages, "--order-of", names.index, "--verdicts", replayed,
        "--key-file", workers.folder / "key",
    )  # fmt: skip
    judged = replayed.read_text().splitlines()
    assert {*lines} <= {*judged}
    assert run(followed(Settings(brokers=broker.sasl_ssl, index_name=names.index, **given))) == 300  # type: ignore[arg-type]  # which it checks
    topics = ("--input-topic", names.pages, "--index-name", names.index)
    arguments = [*map(str, topics), "--brokers", broker.sasl_ssl, *flags]
    with console(tmp_path / "view", *arguments) as (address, _):
        wait_for_console(lambda said: said["pages"] == len(judged), address)


async def followed(settings: Settings) -> int:
    """Return how many verdicts `follow` gives, 300 at most."""
    count = 0
    async with asyncio.timeout(60), aclosing(follow(settings=settings)) as verdicts:
        async for _ in verdicts:
            count += 1
            if count == 300:
                break
    return count


def test_a_token_that_the_broker_does_not_take_is_named(
    broker: SecureBroker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stranger = TokenSigner(tmp_path)
    connection = Connection(broker.sasl_ssl, **login(broker, stranger.command()))  # type: ignore[arg-type]  # as settings
    caplog.set_level(logging.INFO)
    with pytest.raises(StreamerError) as refused:
        run(reach(connection))
    assert "it refuses the login" in str(refused.value)
    assert str(refused.value).endswith("check --sasl-username and the password, or the token.")
    assert "eyJ" not in str(refused.value) + caplog.text
