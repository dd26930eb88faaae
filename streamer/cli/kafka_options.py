"""Options of the commands that talk to Kafka, and the connection that they make."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from streamer.config import Settings
from streamer.kafka.connection import Connection

_KAFKA = "Kafka"
_SECURITY = "Security"

Brokers = Annotated[
    str | None,
    typer.Option(
        help="HOST:PORT of some brokers, with commas between. \\[default: localhost:9092]",
        rich_help_panel=_KAFKA,
    ),
]
InputTopic = Annotated[
    str | None,
    typer.Option(help="Topic of crawled pages. \\[default: pages]", rich_help_panel=_KAFKA),
]
IndexName = Annotated[
    str | None,
    typer.Option(
        help="How the index's topics and groups begin. \\[default: streamer]",
        rich_help_panel=_KAFKA,
    ),
]
Replicas = Annotated[
    int | None,
    typer.Option(help="Copies of topics that are made. \\[default: 1]", rich_help_panel=_KAFKA),
]
SecurityProtocol = Annotated[
    str | None,
    typer.Option(
        help="PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL. \\[default: PLAINTEXT]",
        rich_help_panel=_SECURITY,
    ),
]
SslCafile = Annotated[
    Path | None,
    typer.Option(help="Certificates that brokers may show.", rich_help_panel=_SECURITY),
]
SslCertfile = Annotated[
    Path | None, typer.Option(help="Certificate to show to brokers.", rich_help_panel=_SECURITY)
]
SslKeyfile = Annotated[
    Path | None, typer.Option(help="Its private key.", rich_help_panel=_SECURITY)
]
SaslMechanism = Annotated[
    str | None,
    typer.Option(help="PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512.", rich_help_panel=_SECURITY),
]
SaslUsername = Annotated[
    str | None, typer.Option(help="User to log in as.", rich_help_panel=_SECURITY)
]
SaslPasswordFile = Annotated[
    Path | None,
    typer.Option(
        help="File with the password; STREAMER_SASL_PASSWORD is another way.",
        rich_help_panel=_SECURITY,
    ),
]


def connection_of(settings: Settings) -> Connection:
    """Return the connection that the settings ask for.

    Raises:
        SettingsError: they do not make sense together.
    """
    return Connection(
        settings.brokers,
        settings.security_protocol,
        settings.ssl_cafile,
        settings.ssl_certfile,
        settings.ssl_keyfile,
        settings.sasl_mechanism,
        settings.sasl_username,
        settings.password,
    )
