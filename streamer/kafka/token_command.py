"""Tokens for SASL OAUTHBEARER, from a command of the user.

The command prints what an OAuth server answers, `{"access_token": ..., "expires_in": SECONDS}`, or
a JWT alone, whose claim `exp` says when it expires. A new connection gets a token that has at least
a fifth of its life left, and an open one gets the next token before the broker would end it
(KIP-368). Where the command fails, the token before serves until it expires; after that no broker
is reached, as if all were away.

No message shows a token, what the command has printed, or its arguments.
"""

# aiokafka sends a token once for each connection, and takes a refusal, which is a challenge in this
# mechanism (RFC 7628, 3.2.3), for a success. So its authenticator is replaced by one that reads the
# answer.

import asyncio
import base64
import math
import os
import re
import select
import shlex
import shutil
import subprocess
import threading
import time
from contextlib import suppress
from signal import SIGKILL
from typing import IO, Any

import msgspec
from aiokafka import errors as kafka_errors
from aiokafka.abc import AbstractTokenProvider
from aiokafka.conn import AIOKafkaConnection
from aiokafka.protocol.admin import SaslAuthenticateRequest, SaslHandShakeRequest

from streamer.errors import SettingsError
from streamer.panels import OAUTHBEARER

COMMAND_SECONDS_MAX = 30.0
OUTPUT_BYTES_MAX = 64 << 10
_AGAIN_SECONDS = 5.0  # after a failure: clients try to connect ten times a second
_FRESH_SHARE = 0.8  # of its life, in which a token serves new connections, as Kafka's own client
_LATEST_SHARE = 0.95  # of a session, in which a connection waits for the next token
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")  # RFC 6750, 2.1
_FORMS = 'print {"access_token": ..., "expires_in": SECONDS}, or a JWT with exp'


class TokenError(kafka_errors.KafkaConnectionError):  # type: ignore[misc]  # aiokafka has no types
    """Report that there is no token; clients try again, as with a broker that is away."""

    def __str__(self) -> str:
        """Return the cause without the name of the class."""
        return str(self.args[0])


class _TokenAnswer(msgspec.Struct):
    """What an OAuth server answers (RFC 6749, 5.1)."""

    access_token: str
    expires_in: float | None = None


class _Claims(msgspec.Struct):
    exp: float | None = None


class TokenCommand(AbstractTokenProvider):  # type: ignore[misc]  # as above
    """Gives clients of any event loop the token that a command has printed."""

    def __init__(self, command: str) -> None:
        """Prepare the command, which is not run by a shell.

        Raises:
            SettingsError: there is no such program.
        """
        self._arguments: list[str] = []
        with suppress(ValueError):  # a quote that is not closed
            self._arguments = shlex.split(command)
        if not shutil.which(name := "".join(self._arguments[:1])):
            raise SettingsError(
                f"--sasl-token-command: there is no program {name!r} to run. Close all quotes, and "
                "name a program of PATH or an absolute path."
            )
        self._lock = threading.Lock()
        self._token, self._failure = "", ""
        # Of the monotonic clock:
        self._fresh_until = self._expires_at = self._again_at = -math.inf

    @property
    def due_seconds(self) -> float:
        """In how many seconds a connection that asks for a token has the command run."""
        return max(0.0, max(self._fresh_until, self._again_at) - time.monotonic())

    async def token(self) -> str:
        """Return a token that has not expired.

        Raises:
            TokenError: the command gives none.
        """
        return await asyncio.to_thread(self._current)

    def _current(self) -> str:
        with self._lock:
            if (now := time.monotonic()) >= max(self._fresh_until, self._again_at):
                try:
                    self._token, seconds = _read_token(self._run())
                except TokenError as error:
                    self._failure, self._again_at = str(error), time.monotonic() + _AGAIN_SECONDS
                else:
                    self._fresh_until = now + _FRESH_SHARE * seconds
                    self._expires_at = now + seconds
            if time.monotonic() >= self._expires_at:
                raise TokenError(self._failure)
            return self._token

    def _run(self) -> bytes:
        """Return what the command prints."""
        deadline = time.monotonic() + COMMAND_SECONDS_MAX
        null = subprocess.DEVNULL
        try:
            process = subprocess.Popen(  # noqa: S603 - the user's own
                self._arguments, stdin=null, stdout=subprocess.PIPE, stderr=null,
                start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            raise TokenError(f"the token command cannot be started: {error.strerror}") from error
        with process:
            assert process.stdout is not None
            try:
                output = _read(process.stdout, deadline)
                code = process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired as error:
                raise TokenError(
                    f"the token command does not end within {COMMAND_SECONDS_MAX:g} seconds"
                ) from error
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, SIGKILL)
        if code:
            raise TokenError(f"the token command failed with exit code {code}; run it to see why")
        return output


def _read(stream: IO[bytes], deadline: float) -> bytes:
    """Return all that comes of a pipe.

    Raises:
        subprocess.TimeoutExpired: it does not end.
        TokenError: it is too much.
    """
    output, poll = b"", select.poll()
    poll.register(stream, select.POLLIN)
    while poll.poll(1000 * max(0.0, deadline - time.monotonic())):
        if not (part := os.read(stream.fileno(), OUTPUT_BYTES_MAX)):
            return output
        output += part
        if len(output) > OUTPUT_BYTES_MAX:
            raise TokenError("the token command prints too much; it should print only a token")
    raise subprocess.TimeoutExpired("", COMMAND_SECONDS_MAX)


def _read_token(output: bytes) -> tuple[str, float]:
    """Return a token and how many seconds it is valid, of what the command has printed."""
    text = output.strip()
    answer = _TokenAnswer(text.decode(errors="replace"))
    if text.startswith(b"{"):
        with suppress(msgspec.MsgspecError, UnicodeDecodeError):
            answer = msgspec.json.decode(text, type=_TokenAnswer)
    token, seconds = answer.access_token, answer.expires_in
    if not _TOKEN.fullmatch(token):
        what = "no token" if text else "nothing"
        raise TokenError(f"the token command prints {what}; it should {_FORMS}")
    if seconds is None and (expires := _claimed_expiry(token)) is not None:
        seconds = expires - time.time()
    if seconds is None:
        raise TokenError(f"the token command does not say until when; it should {_FORMS}")
    if seconds <= 0:
        raise TokenError("the token command prints an expired token; check it and the clock")
    return token, seconds


def _claimed_expiry(token: str) -> float | None:
    """Return when a JWT expires, unverified, in seconds since 1970; None for what is none."""
    try:
        claims = token.split(".")[1]
        data = base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4))
        return msgspec.json.decode(data, type=_Claims).exp
    except (IndexError, msgspec.MsgspecError, ValueError):
        return None


class _Authenticator:
    """Logs a connection in with a token, and again for as long as it is open."""

    def __init__(self, connection: AIOKafkaConnection) -> None:
        self._connection = connection
        self._tokens: TokenCommand = connection._sasl_oauth_token_provider  # noqa: SLF001 - of which the library's own is made

    async def step(self, _payload: bytes | None) -> None:
        """Log in; as the library calls it, once.

        Raises:
            KafkaError: there is no token, or the broker refuses it.
        """
        request = _request(await self._tokens.token())
        if seconds := _session_seconds(await self._connection.send(request)):
            task = asyncio.create_task(self._stay(seconds))
            _staying.add(task)
            task.add_done_callback(_staying.discard)

    async def _stay(self, seconds: float) -> None:
        """Log in again each time before a session of so many seconds ends."""
        connection = self._connection
        closed = {connection._closed_fut}  # noqa: SLF001 - there is no public way
        while True:
            # With the next token, unless the session ends before. A broker takes no second token
            # within a second.
            due = self._tokens.due_seconds
            pause = due if due < _LATEST_SHARE * seconds else _FRESH_SHARE * seconds
            if (await asyncio.wait(closed, timeout=pause))[0]:
                return
            try:
                request = _request(await self._tokens.token())
            except TokenError:
                continue  # until the broker ends the connection
            try:
                # Both are written before anything is awaited: the broker takes nothing between.
                written = [connection.send(SaslHandShakeRequest(OAUTHBEARER))]
                written.append(connection.send(request))
                seconds = _session_seconds((await asyncio.gather(*written))[1])
            except (kafka_errors.KafkaError, OSError) as error:
                connection.close(exc=error)
                return


_staying: set[asyncio.Task[None]] = set()  # an event loop itself does not hold on to its tasks


def _request(token: str) -> SaslAuthenticateRequest:
    return SaslAuthenticateRequest(f"n,,\1auth=Bearer {token}\1\1".encode())


def _session_seconds(answer: Any) -> float:  # noqa: ANN401 - the client library's
    """Return for how many seconds a broker takes a token; 0: without end.

    Raises:
        KafkaError: it refuses the token.
    """
    if (error := kafka_errors.for_code(answer.error_code)) is not kafka_errors.NoError:
        raise error(answer.error_message)
    if answer.sasl_auth_bytes:
        raise kafka_errors.SaslAuthenticationFailed("the token is not accepted")
    return getattr(answer, "session_lifetime_ms", 0) / 1000


AIOKafkaConnection.authenticator_oauth = lambda self: _Authenticator(self)  # noqa: PLW0108 - a class is no method
