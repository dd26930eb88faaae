"""`streamer worker`: pages in from Kafka, verdicts out, until it is told to stop."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from streamer.cli import options
from streamer.cli.options import Fields, Preset, page_parser
from streamer.config import load_settings
from streamer.errors import SettingsError


def worker(  # noqa: PLR0913 - the options of the command line
    index: Annotated[
        Path,
        typer.Option(help="Folder of the index, one below it a shard.", envvar="STREAMER_INDEX"),
    ] = Path("index"),
    role: Annotated[
        str | None,
        typer.Option(
            help="sign pages, index them, or all. \\[default: all]", rich_help_panel="Kafka"
        ),
    ] = None,
    own_shards: Annotated[
        str | None,
        typer.Option(
            help="Shards that this worker owns, as 0,2. \\[default: all]", rich_help_panel="Kafka"
        ),
    ] = None,
    brokers: options.Brokers = None,
    input_topic: options.InputTopic = None,
    index_name: options.IndexName = None,
    replicas: options.Replicas = None,
    verdict_partitions: Annotated[
        int | None,
        typer.Option(
            help="Partitions of the verdicts. \\[default: as many as the pages]",
            rich_help_panel="Kafka",
        ),
    ] = None,
    window: Annotated[
        int | None,
        typer.Option(
            help="Open pages at which signing pauses. \\[default: 65536]", rich_help_panel="Running"
        ),
    ] = None,
    accept_loss: Annotated[
        bool | None,
        typer.Option(
            "--accept-loss",
            help="Go on where messages have expired before they were read.",
            rich_help_panel="Kafka",
        ),
    ] = None,
    instance_id: Annotated[
        str | None,
        typer.Option(
            help="Name that this worker keeps over restarts, and no other has: a quick restart "
            "then causes no rebalance.",
            rich_help_panel="Kafka",
        ),
    ] = None,
    security_protocol: options.SecurityProtocol = None,
    ssl_cafile: options.SslCafile = None,
    ssl_certfile: options.SslCertfile = None,
    ssl_keyfile: options.SslKeyfile = None,
    sasl_mechanism: options.SaslMechanism = None,
    sasl_username: options.SaslUsername = None,
    sasl_password_file: options.SaslPasswordFile = None,
    preset: Preset = None,
    fields: Fields = None,
    carry: Annotated[
        list[str] | None,
        typer.Option(
            help="Input field to copy into the verdict; may be given several times.",
            envvar="STREAMER_CARRY",
        ),
    ] = None,
    threshold: options.Threshold = None,
    min_shingles: options.MinShingles = None,
    method: options.Method = None,
    accept: options.Accept = None,
    method_option: options.MethodOptions = None,
    canonical: options.Canonical = None,
    shingle_width: options.ShingleWidth = None,
    bands: options.Bands = None,
    rows: options.RowsOption = None,
    shards: options.Shards = None,
    key_file: options.KeyFile = None,
    threads: options.Threads = None,
    head_pages: options.HeadPages = None,
    health_host: Annotated[
        str | None,
        typer.Option(
            help="Address of the health port. \\[default: 127.0.0.1]", rich_help_panel="Running"
        ),
    ] = None,
    health_port: Annotated[
        int | None,
        typer.Option(
            help="Port of health and metrics; 0: none. \\[default: 8080]",
            rich_help_panel="Running",
        ),
    ] = None,
    log_format: Annotated[
        str | None,
        typer.Option(help="json or console. \\[default: json]", rich_help_panel="Running"),
    ] = None,
    log_level: Annotated[
        str | None,
        typer.Option(
            help="debug, info, warning or error. \\[default: info]", rich_help_panel="Running"
        ),
    ] = None,
    config: options.ConfigFile = None,
) -> None:
    """Judge pages as they come in: one verdict a page, whatever is killed meanwhile.

    Workers of one index share the pages; each shard of the index has one owner. SIGTERM ends a
    worker in order, and the next start goes on from there. It needs a key that all workers share.

    Example: openssl rand -hex 32 > key && streamer worker --index my-index --key-file key
    """
    settings = load_settings(
        config, threshold=threshold, min_shingles=min_shingles, method=method, accept=accept,
        method_option=method_option or None, canonical=canonical or None,
        shingle_width=shingle_width, bands=bands, rows=rows, shards=shards,
        key_file=key_file, threads=threads, head_pages=head_pages,
        brokers=brokers, input_topic=input_topic, index_name=index_name,
        role=role, own_shards=own_shards, replicas=replicas,
        verdict_partitions=verdict_partitions, window=window, accept_loss=accept_loss,
        instance_id=instance_id,
        security_protocol=security_protocol, ssl_cafile=ssl_cafile, ssl_certfile=ssl_certfile,
        ssl_keyfile=ssl_keyfile, sasl_mechanism=sasl_mechanism, sasl_username=sasl_username,
        sasl_password_file=sasl_password_file, health_host=health_host, health_port=health_port,
        log_format=log_format, log_level=log_level,
    )  # fmt: skip
    if settings.key_file is None:
        raise SettingsError(
            "A worker needs a key that all workers of the index share. "
            "Make one with `openssl rand -hex 32 > key`, and give it with --key-file key."
        )
    # Faust takes a quarter of a second to import, which the other commands do without.
    from streamer.kafka.topics import Names  # noqa: PLC0415 - as above
    from streamer.kafka.worker import run_worker  # noqa: PLC0415 - as above
    from streamer.kafka.worker_options import (  # noqa: PLC0415 - as above
        Role,
        WorkerOptions,
        shard_numbers,
    )

    wanted = WorkerOptions(
        options.connection_of(settings),
        Names(settings.index_name, settings.input_topic),
        settings.signature,
        settings.index,
        settings.key_file,
        index,
        page_parser(preset, fields, carry or (), settings.page_bytes_max),
        role=Role(settings.role),
        own_shards=shard_numbers(settings.own_shards),
        replicas=settings.replicas,
        verdict_partitions=settings.verdict_partitions,
        window=settings.window,
        head_pages=settings.head_pages,
        threads=settings.signing_threads,
        accept_loss=settings.accept_loss,
        instance_id=settings.instance_id,
        health=(settings.health_host, settings.health_port),
        logs=(settings.log_format, settings.log_level),
    )
    asyncio.run(run_worker(wanted))
