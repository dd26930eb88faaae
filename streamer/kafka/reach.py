"""The first word with the brokers: a start with a wrong setting ends with its cause.

aiokafka only logs the cause, and raises that it could not bootstrap. So each broker is spoken to
once before any client is made, and what goes wrong is told with the setting to look at.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import Any

from aiokafka.conn import create_conn
from aiokafka.errors import KafkaError, SaslAuthenticationFailed, UnsupportedSaslMechanismError
from aiokafka.protocol.metadata import MetadataRequest

from streamer.errors import StreamerError
from streamer.kafka.connection import Connection

_REFUSALS = (  # the first that fits: the kind of error, what it means, what to check
    (ssl.SSLCertVerificationError, "its certificate is not accepted", "--ssl-cafile and its name"),
    (ssl.SSLError, "TLS fails", "--security-protocol and --ssl-certfile"),
    (SaslAuthenticationFailed, "it refuses the login", "--sasl-username and the password"),
    (UnsupportedSaslMechanismError, "it refuses the login", "--sasl-mechanism"),
    (TimeoutError, "it does not answer", "--brokers and --security-protocol"),
    (ConnectionResetError, "it ends the connection", "--security-protocol"),
    (OSError, "it is not reached", "--brokers"),
    (KafkaError, "it ends the connection", "--security-protocol"),
    (Exception, "it gives a false answer", "--brokers"),
)


async def reach(connection: Connection, timeout_s: float = 10.0) -> None:
    """Speak to the brokers once; one that answers is enough. `timeout_s` is for each.

    Raises:
        StreamerError: no broker lets us in; the message has the cause at each.
    """
    causes = []
    for server in connection.servers:
        try:
            async with asyncio.timeout(timeout_s):
                await _greet(server, connection.security_options())
        except (KafkaError, OSError, ValueError) as error:  # ValueError: a false SCRAM signature
            causes.append(f"{server}: {_cause(error)}")
        else:
            return
    raise StreamerError(
        f"Cannot use the brokers over {connection.security_protocol}: {'; '.join(causes)}."
    )


async def _greet(server: str, security: dict[str, Any]) -> None:
    host, _, port = server.rpartition(":")
    broker = await create_conn(host.strip("[]"), int(port), **security)
    try:
        # A broker that wants SASL says so only when asked for more than its versions.
        await broker.send(MetadataRequest([]))
    finally:
        await broker.close()


def _cause(error: Exception) -> str:
    """Return what went wrong and which setting to look at."""
    if isinstance(error.__cause__, ssl.SSLError):  # an alert that came after the handshake
        error = error.__cause__
    words, remedy = next(rest for kind, *rest in _REFUSALS if isinstance(error, kind))
    return f"{words} ({error}), check {remedy}" if str(error) else f"{words}, check {remedy}"
