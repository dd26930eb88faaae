"""`streamer produce`: load a topic with the pages of files, as a crawler would send them."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Annotated

import typer
from rich.console import Console

from streamer.cli import options
from streamer.cli.options import Fields, Preset, page_parser
from streamer.cli.progress import progress_bar
from streamer.config import load_settings
from streamer.kafka.produce import produce as produce_sources
from streamer.pages.chunk import PAGE_BYTES_MAX
from streamer.pages.files import open_sources


def produce(  # noqa: PLR0913 - the options of the command line
    pages: Annotated[
        list[str],
        typer.Argument(help="JSONL or WARC/WET files, directories of these, or - ."),
    ],
    *,
    topic: Annotated[str, typer.Option(help="Topic to send to; made where there is none.")],
    brokers: options.Brokers = None,
    security_protocol: options.SecurityProtocol = None,
    ssl_cafile: options.SslCafile = None,
    ssl_certfile: options.SslCertfile = None,
    ssl_keyfile: options.SslKeyfile = None,
    sasl_mechanism: options.SaslMechanism = None,
    sasl_username: options.SaslUsername = None,
    sasl_password_file: options.SaslPasswordFile = None,
    partitions: Annotated[int, typer.Option(min=1, help="Partitions of a new topic.")] = 4,
    replicas: Annotated[int, typer.Option(min=1, help="Copies of a new topic.")] = 1,
    preset: Preset = None,
    fields: Fields = None,
    config: options.ConfigFile = None,
) -> None:
    """Send the pages of files to a Kafka topic, keyed by URL.

    Lines are sent as they are, also bad ones; WARC records become messages of the page schema.

    Example: streamer produce crawl.jsonl.gz --topic pages --brokers localhost:9092
    """
    settings = load_settings(
        config, brokers=brokers, security_protocol=security_protocol, ssl_cafile=ssl_cafile,
        ssl_certfile=ssl_certfile, ssl_keyfile=ssl_keyfile, sasl_mechanism=sasl_mechanism,
        sasl_username=sasl_username, sasl_password_file=sasl_password_file,
    )  # fmt: skip
    connection = options.connection_of(settings)
    parser = page_parser(preset, fields, (), PAGE_BYTES_MAX)
    sources = open_sources(pages).sources
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # what fails is raised
    began = time.perf_counter()
    with progress_bar(sources) as report:
        sent = asyncio.run(
            produce_sources(sources, topic, connection, parser, partitions, replicas, report)
        )
    seconds = time.perf_counter() - began
    console = Console()
    console.print(f"messages sent     {sent.messages:,} to {topic}", highlight=False)
    console.print(f"bytes             {sent.message_bytes:,}", highlight=False)
    console.print(f"no pages          {sent.no_pages:,}", highlight=False)
    console.print(f"too large         {sent.too_large:,}", highlight=False)
    console.print(f"messages a second {sent.messages / seconds:,.0f}", highlight=False)
