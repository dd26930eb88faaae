"""`streamer produce`: load a topic with the pages of files, as a crawler would send them."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Annotated

import typer
from rich.console import Console

from streamer.cli.options import command, connection_of, page_parser
from streamer.cli.progress import progress_bar
from streamer.config import SECURITY, Settings
from streamer.kafka.produce import produce as produce_sources
from streamer.pages.files import open_sources


@command
def produce(
    pages: Annotated[
        list[str],
        typer.Argument(help="JSONL or WARC/WET files, directories of these, or - ."),
    ],
    *,
    topic: Annotated[str, typer.Option(help="Topic to send to; made where there is none.")],
    partitions: Annotated[int, typer.Option(min=1, help="Partitions of a new topic.")] = 4,
    replicas: Annotated[int, typer.Option(min=1, help="Copies of a new topic.")] = 1,
    settings: Annotated[Settings, "preset", "fields", "brokers", SECURITY],
) -> None:
    """Send the pages of files to a Kafka topic, keyed by URL.

    Lines are sent as they are, also bad ones; WARC records become messages of the page schema.

    Example: streamer produce crawl.jsonl.gz --topic pages --brokers localhost:9092
    """
    connection, parser = connection_of(settings), page_parser(settings)
    sources = open_sources(pages, settings.page_bytes_max).sources
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
