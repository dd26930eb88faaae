"""Tokens (SASL OAUTHBEARER) on a real broker that verifies them, and ends connections with them."""

import asyncio
import logging
import signal
from contextlib import aclosing
from pathlib import Path

import pytest

from streamer import Settings, follow
from streamer.errors import StreamerError
from streamer.kafka.connection import Connection
from streamer.kafka.reader import reach
from streamer.kafka.topics import Names
from tests.helpers.fleet import fleet, streamer
from tests.helpers.secure_broker import SecureBroker, run
from tests.helpers.tokens import TokenSigner
from tests.helpers.wait import wait_until
from tests.integration.chaos import make_crawl
from tests.integration.test_console import console
from tests.integration.test_console import wait_until as wait_for_console

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
