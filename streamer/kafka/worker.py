"""The worker: signers, shards, or both, from the first check to the last flush.

One event loop carries everything; signing and applying run in threads beside it. A stop goes the
way of the pages: the signers finish and leave, then the shards publish, commit, flush and leave.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

import structlog

from streamer.errors import SettingsError
from streamer.index.settings import IndexSettings
from streamer.kafka.connection import Connection, reach
from streamer.kafka.failure import end_process
from streamer.kafka.gauge import FlowControl, follow, last_gauge
from streamer.kafka.health import HealthServer
from streamer.kafka.logs import configure_logs
from streamer.kafka.measures import ShardMeasures, SignMeasures
from streamer.kafka.names import Names
from streamer.kafka.owner import Owner, ShardLog
from streamer.kafka.prepare import Prepared, log_bounds, prepare
from streamer.kafka.publisher import Publisher
from streamer.kafka.reader import Reader, open_reader
from streamer.kafka.shard_app import ShardApp
from streamer.kafka.sign_app import SignApp, SignOptions
from streamer.kafka.signing import ChunkSigner
from streamer.metrics import Metrics
from streamer.sketch.secret import read_secret
from streamer.sketch.settings import SignatureSettings
from streamer.sketch.signer import Signer
from streamer.stream.index_folder import identity_of
from streamer.stream.parse import PageParser
from streamer.stream.warm import warm_kernels

_log = structlog.get_logger()


class Role(StrEnum):
    """What a worker does."""

    ALL = "all"
    SIGN = "sign"
    INDEX = "index"


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """What a worker needs to know; see the settings of the same names."""

    connection: Connection
    names: Names
    signature: SignatureSettings
    index: IndexSettings
    key_file: Path
    index_folder: Path
    parser: PageParser
    role: Role = Role.ALL
    own_shards: tuple[int, ...] = ()  # none given: all
    replicas: int = 1
    verdict_partitions: int = 0
    window: int = 65_536
    head_pages: int = 65_536
    threads: int = 2
    accept_loss: bool = False
    instance_id: str = ""
    health: tuple[str, int] = ("127.0.0.1", 0)
    logs: tuple[str, str] = ("json", "info")

    def check(self) -> None:
        """See what can be seen without the brokers.

        Raises:
            SettingsError: there is no such shard, or the key cannot be read.
        """
        _ = self.shards, read_secret(self.key_file)

    def faust_options(self) -> dict[str, Any]:
        """Return what each Faust app is made with."""
        return {
            **self.connection.faust_options(),
            "consumer_group_instance_id": self.instance_id or None,
        }

    @property
    def shards(self) -> tuple[int, ...]:
        """Return the shards that this worker owns.

        Raises:
            SettingsError: there is no such shard.
        """
        if self.role is Role.SIGN:
            return ()
        for shard in self.own_shards:
            if not 0 <= shard < self.index.shards:
                raise SettingsError(
                    f"There is no shard {shard}: the index has {self.index.shards}, from 0 on. "
                    "Correct --own-shards or --shards."
                )
        return self.own_shards or tuple(range(self.index.shards))


@dataclass(slots=True)
class Worker:
    """A worker on its way; `fail` ends the process."""

    options: WorkerOptions
    fail: Callable[[BaseException], None]
    metrics: Metrics
    shards: list[ShardApp] = field(default_factory=list)
    signers: SignApp | None = None
    _stop: asyncio.Event = field(default_factory=asyncio.Event)
    _following: asyncio.Task[None] | None = None

    def not_ready(self) -> list[str]:
        """Return why this worker is not ready; nothing, if it is."""
        reasons = [
            f"shard {app.owner.number} has not folded its log yet"
            for app in self.shards
            if not app.caught_up
        ]
        wanted = set(self.options.shards) - {app.owner.number for app in self.shards}
        reasons += [f"shard {number} is not open yet" for number in sorted(wanted)]
        if self.options.role is not Role.INDEX and not (self.signers and self.signers.joined):
            reasons.append("the signers have not joined their group yet")
        return reasons

    def stop(self) -> None:
        """End `run` in order; for signal handlers."""
        self._stop.set()

    async def run(self) -> None:
        """Run until `stop` is called.

        Raises:
            StreamerError: the start failed; the message says what to do.
        """
        publisher = Publisher(self.options.connection.client_options())
        async with open_reader(self.options.connection.client_options()) as reader:
            await publisher.start()
            prepared, flow = await self._open(reader, publisher)
        await self._start(publisher, prepared, flow)
        _log.info("worker_started", role=self.options.role, shards=list(self.options.shards))
        await self._stop.wait()
        _log.info("worker_stopping")
        if self.signers:
            await self.signers.stop()
        for app in self.shards:
            await app.stop()
        if self._following:
            self._following.cancel()
        await publisher.stop()
        _log.info("worker_stopped")

    async def _open(self, reader: Reader, publisher: Publisher) -> tuple[Prepared, FlowControl]:
        """Check everything, and open the shards that this worker owns."""
        options, names = self.options, self.options.names
        secret = read_secret(options.key_file)
        identity = identity_of(options.signature, options.index.shards, secret)
        prepared = await prepare(
            reader, publisher, names, options.index, str(identity["fingerprint"]),
            options.replicas, options.verdict_partitions,
        )  # fmt: skip
        for shard in options.shards:
            owner = await asyncio.to_thread(self._owner, shard, prepared)
            owner.check(await log_bounds(reader, names.log(shard), owner.position))
            measures = ShardMeasures(self.metrics, owner.shard, options.head_pages)
            measures.observe_store(owner.stored, owner.index_bytes, owner.filter)
            app = ShardApp(
                names,
                owner,
                options.index,
                publisher,
                prepared.verdict_partitions,
                self.fail,
                options.faust_options(),
                measures,
            )
            self.shards.append(app)
        log_end = (await reader.bounds(names.log(0), 0))[1]
        flow = FlowControl(options.window, log_end)
        if gauge := await last_gauge(reader, names.gauge):
            flow.note_gauge(gauge)
        return prepared, flow

    def _owner(self, shard: int, prepared: Prepared) -> Owner:
        options = self.options
        log = ShardLog(shard, options.index.shards, prepared.log_ids[shard], prepared.identity)
        return Owner(
            options.index_folder / f"shard-{shard}",
            log,
            options.signature,
            options.key_file,
            head_pages=options.head_pages,
        )

    async def _start(self, publisher: Publisher, prepared: Prepared, flow: FlowControl) -> None:
        options = self.options
        starting = [app.start() for app in self.shards]
        if options.role is not Role.INDEX:
            starting.append(self._start_signers(publisher, prepared, flow))
        await asyncio.gather(*starting)

    async def _start_signers(
        self, publisher: Publisher, prepared: Prepared, flow: FlowControl
    ) -> None:
        options = self.options
        secret = read_secret(options.key_file)
        signer = ChunkSigner(
            options.parser, lambda: Signer(options.signature, secret), prepared.identity
        )
        self.signers = SignApp(
            options.names,
            signer,
            publisher,
            flow,
            SignOptions(
                prepared.dead_letter_partitions, options.threads, accept_loss=options.accept_loss
            ),
            self.fail,
            options.faust_options(),
            SignMeasures(self.metrics),
        )
        self._following = asyncio.create_task(self._follow(flow))
        await self.signers.start()

    async def _follow(self, flow: FlowControl) -> None:
        try:
            await follow(self.options.connection.client_options(), self.options.names.gauge, flow)
        except Exception as error:  # noqa: BLE001 - whatever it is, the process may not go on
            self.fail(error)


async def run_worker(options: WorkerOptions) -> None:
    """Run a worker until it is told to stop.

    Raises:
        StreamerError: the start failed. Whatever fails later ends the process at once.
    """
    configure_logs(*options.logs)
    options.check()
    metrics = Metrics()
    worker = Worker(options, end_process, metrics)
    health = HealthServer(*options.health, worker.not_ready, metrics)
    for number in (signal.SIGTERM, signal.SIGINT):  # first, since process 1 has no others
        asyncio.get_running_loop().add_signal_handler(number, worker.stop)
    await health.start()
    try:
        await reach(options.connection)
        await asyncio.to_thread(warm_kernels)  # before the group counts on this worker
        await worker.run()
    finally:
        await health.stop()


def shard_numbers(text: str) -> tuple[int, ...]:
    """Return the shard numbers in `text`, as "0,2"; none for "".

    Raises:
        SettingsError: it is no list of numbers.
    """
    try:
        return tuple(sorted({int(part) for part in text.split(",") if part.strip()}))
    except ValueError as error:
        raise SettingsError(
            f"--own-shards cannot be {text!r}. Give numbers with commas between, as 0,2."
        ) from error
