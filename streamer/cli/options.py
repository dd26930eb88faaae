"""Options that several commands share, with their help; None means that one is not given.

The options that say where a message has its fields, and the parser that they make.

Options of the commands that talk to Kafka, and the connection that they make.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from streamer.config import Settings
from streamer.errors import SettingsError
from streamer.kafka.connection import Connection
from streamer.pages.mapping import DEFAULT_MAPPING, PRESETS, FieldMapping, parse_fields
from streamer.pages.parse import PageParser

Preset = Annotated[
    str | None, typer.Option(help=f"Field mapping of a crawler: {', '.join(sorted(PRESETS))}.")
]
Fields = Annotated[
    str | None,
    typer.Option(
        help='Field mapping as JSON or a file with it, as {"url": "/uri", "body": "/html"}.'
    ),
]


def page_parser(
    preset: str | None, fields: str | None, carry: Sequence[str], page_bytes_max: int
) -> PageParser:
    """Return the parser that `--preset`, `--fields` and `--carry` ask for.

    Raises:
        SettingsError: one of them cannot be used, or both mappings are given.
    """
    if preset is not None and fields is not None:
        raise SettingsError("Give --preset or --fields, not both.")
    mapping: FieldMapping = DEFAULT_MAPPING
    if preset is not None:
        if preset not in PRESETS:
            raise SettingsError(
                f"There is no preset {preset}; there are {', '.join(sorted(PRESETS))}."
            )
        mapping = PRESETS[preset]
    elif fields is not None:
        mapping = parse_fields(fields)
    try:
        return PageParser(mapping, carry, page_bytes_max)
    except ValueError as error:
        raise SettingsError(f"--carry cannot be used: {error}.") from error


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


_SIGNATURE = "Signature (fixed when an index is made)"
_VERDICTS = "Verdicts"
_RUN = "Running"

Threshold = Annotated[
    float | None,
    typer.Option(
        help="Least similarity of duplicates, 0 to 1. \\[default: the method's, 0.8]",
        rich_help_panel=_VERDICTS,
    ),
]
MinShingles = Annotated[
    int | None,
    typer.Option(
        help="Pages with fewer distinct shingles match equal content only. \\[default: 5]",
        rich_help_panel=_VERDICTS,
    ),
]
Method = Annotated[
    str | None,
    typer.Option(
        help="How pages are compared: a method or preset that `streamer methods` lists, or two of "
        "them, as simhash+minhash. "
        "\\[default: minhash]",
        rich_help_panel=_SIGNATURE,
    ),
]
Accept = Annotated[
    str | None,
    typer.Option(
        help="The second method, that decides on the candidates of --method, if that names one.",
        rich_help_panel=_SIGNATURE,
    ),
]
MethodOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--method-option",
        metavar="NAME=VALUE",
        help="Parameter of the method; accept.NAME=VALUE of the second one. Repeatable.",
        rich_help_panel=_SIGNATURE,
    ),
]
Canonical = Annotated[
    list[str] | None,
    typer.Option(
        "--canonical",
        metavar="NAME=VALUE",
        help="Option of the words' canonical form, as stop_words=english. Repeatable.",
        rich_help_panel=_SIGNATURE,
    ),
]
ShingleWidth = Annotated[
    int | None, typer.Option(help="Tokens a shingle. \\[default: 5]", rich_help_panel=_SIGNATURE)
]
Bands = Annotated[
    int | None,
    typer.Option(
        help="Band keys a page. 14 x 6 find 98.6 % at 0.8. \\[default: 14]",
        rich_help_panel=_SIGNATURE,
    ),
]
RowsOption = Annotated[
    int | None,
    typer.Option("--rows", help="Min-hashes a band. \\[default: 6]", rich_help_panel=_SIGNATURE),
]
Shards = Annotated[
    int | None,
    typer.Option(
        help="Shards that the bands are split over. \\[default: 1]", rich_help_panel=_SIGNATURE
    ),
]
KeyFile = Annotated[
    Path | None,
    typer.Option(
        help="File with the secret of all hashes (64 hexadecimal digits). "
        "Without it a random one is made with the index.",
        rich_help_panel=_SIGNATURE,
    ),
]
Threads = Annotated[
    int | None,
    typer.Option(
        help="Threads that sign pages. \\[default: one more than cores]", rich_help_panel=_RUN
    ),
]
HeadPages = Annotated[
    int | None,
    typer.Option(
        help="Kept pages in memory before a flush. \\[default: 32768]", rich_help_panel=_RUN
    ),
]
ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config",
        help="TOML file with settings; flags and STREAMER_* come before it.",
        rich_help_panel=_RUN,
    ),
]
