"""The command that gives tokens: what it may print, when it is run again, and how it may fail."""

import asyncio
import base64
import json
import os
import shlex
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from streamer.errors import SettingsError, StreamerError
from streamer.kafka import token_command
from streamer.kafka.connection import Connection
from streamer.kafka.reader import reach
from streamer.kafka.token_command import TokenCommand, TokenError
from tests.helpers.secure_broker import run
from tests.helpers.tokens import TokenSigner
from tests.helpers.wait import wait_until

SECRET = "sEcReT-of-the-token"  # noqa: S105 - of nobody
Script = Callable[[str], str]


@pytest.fixture
def script(tmp_path: Path) -> Script:
    """Return what makes a command of lines of Python."""

    def make(lines: str) -> str:
        file = tmp_path / "command.py"
        file.write_text(f"import json, os, sys, time\nSECRET = {SECRET!r}\n{lines}\n")
        return shlex.join([sys.executable, str(file)])

    return make


def jwt(claims: object) -> str:
    parts = (json.dumps(part).encode() for part in ({"alg": "none"}, claims))
    text = ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts)
    return f"{text}.{SECRET}"


def test_an_answer_of_an_oauth_server_or_a_token_alone_is_taken(script: Script) -> None:
    answer = {"access_token": SECRET, "token_type": "Bearer", "expires_in": 60}
    token = jwt({"exp": time.time() + 60})
    for printed, taken in ((json.dumps(answer), SECRET), (token, token)):
        assert asyncio.run(TokenCommand(script(f"print({printed!r})")).token()) == taken


def test_a_token_is_renewed_before_it_expires_and_kept_until_then(tmp_path: Path) -> None:
    signer = TokenSigner(tmp_path)
    tokens = TokenCommand(signer.command(3.0, "jwt"))
    first = asyncio.run(tokens.token())
    assert asyncio.run(tokens.token()) == first  # in another loop
    assert signer.runs == 1
    until = time.monotonic() + 3.0
    while (token := asyncio.run(tokens.token())) == first:
        time.sleep(0.05)
    assert time.monotonic() < until
    assert (token != first, signer.runs) == (True, 2)


def test_a_token_serves_until_it_expires_where_there_is_no_other(
    script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(token_command, "_AGAIN_SECONDS", 0.1)
    first = tmp_path / "first"
    answer = json.dumps({"access_token": SECRET, "expires_in": 1.5})
    lines = f"if os.path.exists({str(first)!r}): sys.exit(3)\nopen({str(first)!r}, 'w')\n"
    tokens = TokenCommand(script(f"{lines}print({answer!r})"))
    began = time.monotonic()

    def wait_for_another() -> None:
        while asyncio.run(tokens.token()) == SECRET:
            time.sleep(0.05)

    with pytest.raises(TokenError, match="exit code 3"):
        wait_for_another()
    assert time.monotonic() - began >= 1.5


def test_many_that_ask_at_once_have_the_command_run_once(tmp_path: Path) -> None:
    signer = TokenSigner(tmp_path)
    tokens = TokenCommand(signer.command())

    async def ask() -> set[str]:
        return {*await asyncio.gather(*(tokens.token() for _ in range(20)))}

    assert (len(asyncio.run(ask())), signer.runs) == (1, 1)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("sys.exit(7)", "failed with exit code 7; run it to see why"),
        ("print(SECRET, file=sys.stderr); sys.exit(1)", "failed with exit code 1"),
        ("os.kill(os.getpid(), 9)", "failed with exit code -9"),
        ("", "prints nothing; it should print {"),
        ("print(SECRET, SECRET)", "prints no token"),
        ("print(json.dumps({'token': SECRET}))", "prints no token"),
        ("print(json.dumps({'access_token': SECRET + chr(1), 'expires_in': 9}))", "no token"),
        ("sys.stdout.buffer.write(b'\\xff' * 9)", "prints no token"),
        ("print(SECRET)", "does not say until when"),
        (f"print({jwt({'sub': 'me'})!r})", "does not say until when"),
        (f"print({jwt({'exp': 1})!r})", "prints an expired token"),
        ("print(json.dumps({'access_token': SECRET, 'expires_in': 0}))", "an expired token"),
        ("while True: print(SECRET)", "prints too much"),
    ],
)
def test_what_a_command_does_wrong_shows_no_token(script: Script, lines: str, said: str) -> None:
    connection = Connection(
        "127.0.0.1:1", "SASL_SSL", sasl_mechanism="OAUTHBEARER", sasl_token_command=script(lines)
    )
    with pytest.raises(StreamerError) as refused:
        run(reach(connection))
    assert "there is no token (the token command " in str(refused.value)
    assert said in str(refused.value)
    assert str(refused.value).endswith("check --sasl-token-command.")
    assert SECRET not in str(refused.value)
    assert SECRET not in repr(refused.value.__cause__)


@pytest.mark.parametrize("lines", ["time.sleep(60)", "os.fork() or time.sleep(60)"])
def test_a_command_that_does_not_end_is_killed_with_all_that_it_has_started(
    script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: str
) -> None:
    monkeypatch.setattr(token_command, "COMMAND_SECONDS_MAX", 1.0)
    noted = tmp_path / "pid"
    tokens = TokenCommand(script(f"open({str(noted)!r}, 'w').write(str(os.getpgrp()))\n{lines}"))
    with pytest.raises(TokenError, match="does not end within 1 seconds"):
        asyncio.run(tokens.token())
    wait_until(lambda: not is_there(int(noted.read_text())))


def is_there(group: int) -> bool:
    """Return whether a process of a group is left; the system removes it a moment later."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_command_that_fails_is_not_run_again_at_once(script: Script, tmp_path: Path) -> None:
    noted = tmp_path / "runs"
    tokens = TokenCommand(script(f"open({str(noted)!r}, 'a').write('x')\nsys.exit(1)"))
    for _ in range(10):
        with pytest.raises(TokenError, match="exit code 1"):
            asyncio.run(tokens.token())
    assert noted.read_text() == "x"


@pytest.mark.parametrize("command", ["/no/such/program", "no-such-program x", " ", "a 'b"])
def test_a_command_that_cannot_be_run_is_refused_at_the_start(command: str) -> None:
    with pytest.raises(SettingsError, match="--sasl-token-command"):
        Connection("a:1", "SASL_SSL", sasl_mechanism="OAUTHBEARER", sasl_token_command=command)
