"""The worker: signers, shards, or both, from the first check to the last flush.

One event loop carries everything; signing and applying run in threads. A stop follows the pages:
the signers finish and leave, then the shards publish, commit, flush and leave.

A process that must not continue ends at once, with one message and the error's exit code. The next
start repeats what was not committed, and repeats change nothing. Continuing after a failure, or an
orderly shutdown, could publish what follows a hole.
"""

# A stop has one timer, from the signal on, because Faust's services swallow cancellations. It can
# end the process at any point. After that all shards are written, and only what was published.

import asyncio
import logging
import math
import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import structlog

from streamer.config import Settings
from streamer.errors import SettingsError, StoreMismatch, StreamerError
from streamer.garbage import freeze_gc
from streamer.kafka.connection import Connection
from streamer.kafka.gauge import FlowControl, follow, last_gauges
from streamer.kafka.health import HealthServer
from streamer.kafka.kept_copies import KeptThread
from streamer.kafka.kept_topic import check_kept_topic, prepare_kept_topic
from streamer.kafka.owner import Owner
from streamer.kafka.prepare import check_groups, log_bounds, prepare
from streamer.kafka.progress_log import ProgressLog
from streamer.kafka.publisher import Publisher
from streamer.kafka.reader import Reader, await_brokers, ends_of, open_reader
from streamer.kafka.role_metrics import ShardMetrics, SignMetrics, snapshot_report
from streamer.kafka.shard_app import CatchUp, ShardApp
from streamer.kafka.sign_app import SignApp
from streamer.kafka.signing import ChunkSigner
from streamer.kafka.sites_topic import PartitionSites
from streamer.kafka.tasks import begin_task
from streamer.kafka.topics import Names, TopicWatch
from streamer.kafka.watches import BrokerWatch
from streamer.kafka.wire import ShardLog, read_position
from streamer.kafka.worker_log import configure_logs, log_uncaught
from streamer.kernel import FOLDER, has_all_compiled
from streamer.metrics import Metrics
from streamer.pages.parse import PageParser
from streamer.panels import Role, seconds_of
from streamer.run.index_folder import Identity, check_folder, identity_of, meta_of
from streamer.run.judge import LOG_FLUSHES, JudgeOptions
from streamer.run.reference_indexes import ReferenceIndexes
from streamer.run.site_store import make_index_signer, new_sites
from streamer.run.warm import compile_kernels, warm_kernels
from streamer.sketch.settings import read_secret
from streamer.stored.opening import has_index
from streamer.upkeep.snapshots import RegularSnapshots, SnapshotFolder
from streamer.version import __version__

# An orchestrator waits for a minute before it kills (deploy/): both together are less.
LEAVE_SECONDS_MAX = 20.0  # from the signal on: it takes one or two, unless the brokers are away
CLOSE_SECONDS_MAX = 30.0  # for each shard, and all are closed at once

_log = structlog.get_logger()


def end_process(error: BaseException) -> None:
    """Report the error and end this process without any cleaning up."""
    if isinstance(error, StreamerError):
        code = error.exit_code
        _log.critical("worker_failed", reason=str(error), exit_code=code)
    else:
        code = 1
        _log.critical("worker_failed", reason=repr(error), exit_code=code, exc_info=error)
    logging.shutdown()
    sys.stderr.flush()
    os._exit(code)


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """What a worker needs to know, checked as far as it can be without the brokers."""

    settings: Settings
    connection: Connection
    names: Names
    index_folder: Path
    key_file: Path
    parser: PageParser

    def check(self) -> None:
        """See what can be seen without the brokers.

        A folder knows each setting that an index was made with, its log their fingerprint alone: so
        the folders are asked first, and the message names what differs.

        Raises:
            SettingsError: there is no such shard, the key cannot be read, or a setting is not for
                workers.
            StoreMismatch: a shard's index was made with other settings, or one is in the wrong
                place.
            StoreUnavailable: it cannot be opened, or its snapshots would be in it.
        """
        wanted = self.identity
        if self.settings.kept_topic:
            check_kept_topic(self.names, self.settings.kept_topic)
        if self.settings.snapshot_to:
            SnapshotFolder(self.settings.snapshot_to).check_outside(self.index_folder)
        self._check_place()
        there = [int(path.name[6:]) for path in self.index_folder.glob("shard-[0-9]*")]
        for shard in self.shards(range(max(there, default=0) + 1)):
            check_folder(self.shard_folder(shard), wanted)

    def _check_place(self) -> None:
        """Raise StoreMismatch if the index folder is an index itself, which no shard would read."""
        folder = self.index_folder
        if not has_index(folder):
            return
        found = read_position(meta_of(folder).owner)
        if found is None:
            raise StoreMismatch(f"A replay of files made the index {folder}. Name another --index.")
        place = self.shard_folder(found.shard)
        raise StoreMismatch(
            f"The folder {folder} is itself the index of shard {found.shard}, which the worker "
            f"expects in {place}. Move its content there, or restore the snapshot to {place}."
        )

    def shard_folder(self, shard: int) -> Path:
        """Return the folder of a shard's index."""
        return self.index_folder / f"shard-{shard}"

    def about(self) -> dict[str, Any]:
        """Return what this worker is and what it reads and writes, for its log and its page.

        Raises:
            SettingsError: the key cannot be read, or there is no such shard.
        """
        settings, names = self.settings, self.names
        port = settings.health_port
        return {
            "version": __version__,
            "brokers": self.connection.servers,
            "index": names.index,
            "pages": names.pages,
            "verdicts": names.verdicts,
            "dead_letters": names.dead_letters,
            "kept": settings.kept_topic or "none",
            "role": str(settings.role),
            "shards": "none" if settings.role is Role.SIGN else settings.own_shards or "all",
            "key": self.identity["key"],
            "health": f"http://{settings.health_host}:{port}" if port else "none",
        }

    @property
    def identity(self) -> Identity:
        """Return what the index of these settings and this key is known by."""
        return identity_of(self.settings.signature, read_secret(self.key_file))

    @property
    def signs(self) -> bool:
        """Return whether this worker signs pages."""
        return self.settings.role is not Role.INDEX

    def shards(self, there: Sequence[int]) -> tuple[int, ...]:
        """Return those of an index's shards that this worker owns.

        The setting is "0,2", "1/3" (of each three the second), or "" (all).

        Raises:
            SettingsError: there is no such shard, or the setting is no list of numbers.
        """
        if self.settings.role is Role.SIGN:
            return ()
        text = self.settings.own_shards
        try:
            first, every, count = text.partition("/")
            if every:
                one, of = int(first), range(int(count))
                own = tuple(shard for shard in there if of.index(one) == shard % len(of))
            else:
                numbers = {int(part) for part in text.split(",") if part.strip()}
                own = tuple(sorted(numbers)) or tuple(there)
        except ValueError as error:
            raise SettingsError(
                f"--own-shards cannot be {text!r}. Give numbers with commas between, as 0,2, or "
                "1/3: of each three the second."
            ) from error
        if wrong := sorted({*own} - {*there}) if not self.names.per_partition else []:
            raise SettingsError(
                f"There is no shard {wrong[0]}: an index has one, shard 0, or with --per-partition "
                "as many as the pages have partitions. Correct --own-shards."
            )
        return own


@dataclass
class Worker:
    """A worker on its way; `fail` ends the process."""

    options: WorkerOptions
    fail: Callable[[BaseException], None]
    metrics: Metrics
    shards: list[ShardApp] = field(default_factory=list)
    wanted: tuple[int, ...] | None = None  # the shards that are to be opened, once these are known
    signers: SignApp | None = None
    _stop: asyncio.Event = field(default_factory=asyncio.Event)
    _beside: list[asyncio.Task[None]] = field(default_factory=list)
    _references: ReferenceIndexes | None = None
    _kept: KeptThread | None = None
    _deadline: asyncio.TimerHandle | None = None

    def __post_init__(self) -> None:
        signs, owns = self.options.signs, self.options.settings.role is not Role.SIGN
        self.progress = ProgressLog(self.metrics.counts, signs=signs, owns=owns)
        self._client = self.options.connection.client_options()
        self._brokers = BrokerWatch(self.options.connection, self.metrics)

    def not_ready(self) -> list[str]:
        """Return why this worker is not ready; nothing, if it is."""
        reasons = [
            f"shard {app.owner.number} has not folded its log yet"
            for app in self.shards
            if not app.progress.caught_up
        ]
        reasons += [hole for app in self.shards for hole in app.owner.holes()]
        if self.wanted is None:
            reasons.append("the topics are not known yet")
        wanted = {*(self.wanted or ())} - {app.owner.number for app in self.shards}
        reasons += [f"shard {number} is not open yet" for number in sorted(wanted)]
        if self.options.signs and not (self.signers and self.signers.joined):
            reasons.append("the signers have not joined their group yet")
        registry = self.options.parser.registry
        complaints = self._brokers.complaint, registry.complaint if registry else ""
        return [each for each in (*complaints, *reasons) if each]

    def stop(self) -> None:
        """End `run` in order, or the process if that takes too long; for signal handlers.

        No task is waited for by a timeout of its own: Faust's services swallow a cancellation.
        """
        if self._deadline is None:
            self._deadline = asyncio.get_running_loop().call_later(LEAVE_SECONDS_MAX, self._give_up)
        self._stop.set()

    def _give_up(self) -> None:
        why = self._brokers.complaint
        self.fail(
            StreamerError(
                f"The worker could not stop in order within {LEAVE_SECONDS_MAX:.0f} "
                f"seconds{': ' + why if why else ''}. What it has not committed is done again at "
                "the next start."
            )
        )

    async def run(self) -> None:
        """Run until `stop` is called.

        Raises:
            StreamerError: the start failed; the message says what to do.
        """
        names, settings = self.options.names, self.options.settings
        self._publisher = Publisher(self._client)
        self._beside.append(asyncio.create_task(self._brokers.run()))
        try:
            async with open_reader(self._client) as reader:
                await self._publisher.start()
                flows = await self._open(reader)
                kept = await prepare_kept_topic(reader, names, self._prepared, settings)
            await self._start(flows)
            if kept is not None:
                self._kept = KeptThread(self._client, kept, self.metrics.copying, self.fail)
            _log.info("worker_started", role=settings.role, shards=list(self.wanted or ()))
            self._beside.append(asyncio.create_task(self.progress.run()))
            await self._stop.wait()
            _log.info("worker_stopping")
            await self._leave()
            await self._close()
        finally:
            await self._publisher.stop()
            if self._references is not None:
                self._references.close()
        _log.info("worker_stopped")

    async def _leave(self) -> None:
        """Do all that needs the brokers, in the order of the pages' way; see `stop`."""
        if self._kept:
            await self._kept.leave()
        if self.signers:
            await self.signers.stop()
        await asyncio.gather(*(app.leave() for app in self.shards))
        await self._publisher.stop()
        for task in self._beside:
            task.cancel()
        await asyncio.gather(*self._beside, return_exceptions=True)
        if self._deadline:
            self._deadline.cancel()

    async def _close(self) -> None:
        """Flush and close the shards, all at once; end the process if one takes too long."""
        closing = {asyncio.create_task(app.close()): app.owner.number for app in self.shards}
        if not closing:
            return
        closed, late = await asyncio.wait(closing, timeout=CLOSE_SECONDS_MAX)
        if late:
            shards = ", ".join(map(str, sorted(closing[each] for each in late)))
            self.fail(
                StreamerError(
                    f"Shard {shards} could not be written within {CLOSE_SECONDS_MAX:.0f} seconds. "
                    "What its folder does not hold yet is folded from its log at the next start."
                )
            )
        for each in closed:
            each.result()

    async def _open(self, reader: Reader) -> list[FlowControl]:
        """Check everything, and open the shards that this worker owns; return all shards' flows."""
        options, names, settings = self.options, self.options.names, self.options.settings
        identity = options.identity
        fingerprint = str(identity["fingerprint"])
        self._references = ReferenceIndexes(settings.also, fingerprint, identity)
        index = self._references.name_in(settings.index)
        self._prepared = prepared = await prepare(
            reader, self._publisher, names, index, fingerprint, settings
        )
        ids = {names.log(shard): found for shard, found in enumerate(prepared.log_ids)}
        ids[names.pages] = prepared.identity.origin
        self._topics = TopicWatch(self._client, ids, names)
        own = {"consumer_group_instance_id": settings.instance_id or None, "topics": self._topics}
        self._faust_options = options.connection.faust_options() | own
        signs = [names.sign_group] if options.signs else []
        self.wanted = options.shards(range(len(prepared.log_ids)))
        await check_groups(reader, [*signs, *map(names.shard_group, self.wanted)])
        sending = names, self._publisher, prepared.verdict_partitions
        for shard in self.wanted:
            owner = await asyncio.to_thread(self._owner, shard)
            owner.check(await log_bounds(reader, names.log(shard), owner.offset))
            metrics = ShardMetrics(self.metrics, owner.shard, shard, settings.head_pages)
            owner.show_in(metrics)
            catch_up = CatchUp(self._client, names.log(shard), owner, metrics)
            self.shards.append(
                ShardApp(owner, *sending, catch_up, index, metrics, self.fail, self._faust_options)
            )
        gauges = await last_gauges(reader, names.gauge)
        log_ends = await ends_of(self._client, map(names.log, range(len(prepared.log_ids))))
        flows = [
            FlowControl(settings.window, log_ends[names.log(shard)], log_id)
            for shard, log_id in enumerate(prepared.log_ids)
        ]
        for flow, gauge in product(flows, gauges):
            flow.note_gauge(gauge)
        return flows

    def _owner(self, shard: int) -> Owner:
        options, settings = self.options, self.options.settings
        log = ShardLog(shard, self._prepared.log_ids[shard], self._prepared.identity)
        judging = JudgeOptions(
            LOG_FLUSHES, settings.head_pages,
            settings.index_memory_bytes // len(self.wanted or (0,)), self._references,
        )  # fmt: skip
        return Owner(
            options.shard_folder(shard), log, settings.signature, options.key_file, judging,
            self._snapshots(shard),
        )  # fmt: skip

    def _snapshots(self, shard: int) -> RegularSnapshots | None:
        settings, folder = self.options.settings, self.options.shard_folder(shard)
        if not settings.snapshot_to:
            return None
        to = SnapshotFolder(settings.snapshot_to).below(folder.name)
        report = snapshot_report(self.metrics, shard, to.name)
        seconds, keep = seconds_of(settings.snapshot_every), settings.snapshot_keep
        return RegularSnapshots(folder, to, seconds, keep, report)

    async def _start(self, flows: Sequence[FlowControl]) -> None:
        self._beside.append(begin_task(self._topics.run(), self.fail))
        starting = [app.start() for app in self.shards]
        if self.options.signs:
            starting.append(self._start_signers(flows))
        await asyncio.gather(*starting)

    async def _start_signers(self, flows: Sequence[FlowControl]) -> None:
        options, settings, prepared = self.options, self.options.settings, self._prepared
        secret, signature, sites = read_secret(options.key_file), settings.signature, None
        signer = ChunkSigner(
            options.parser, partial(make_index_signer, new_sites(signature), signature, secret),
            prepared.identity,
            takes_tombstones=settings.tombstones == "forget", pass_headers=settings.pass_headers,
        )  # fmt: skip
        if size := signature.site_memory:
            own = f"{prepared.identity.fingerprint}.{prepared.identity.origin}"
            sites = PartitionSites(
                self._client, options.names, own, size, settings.replicas, signer.learn
            )
        self.signers = SignApp(
            options.names, signer, self._publisher, flows, self.fail, self._faust_options,
            SignMetrics(self.metrics), prepared, settings, partial(ends_of, self._client), sites,
        )  # fmt: skip
        self._beside.append(begin_task(follow(self._client, options.names.gauge, flows), self.fail))
        if sites:
            self._beside.append(begin_task(sites.run(self._publisher), self.fail))
        await self.signers.start()


async def run_worker(options: WorkerOptions) -> None:
    """Run a worker until it is asked to stop.

    Raises:
        StreamerError: the start failed. Whatever fails later ends the process at once.
    """
    settings = options.settings
    configure_logs(settings.log_format, settings.log_level)
    log_uncaught()
    about = options.about()
    _log.info("worker_starting", **about, settings=settings.in_force)
    options.check()
    metrics = Metrics()
    worker = Worker(options, end_process, metrics)
    health = HealthServer(
        settings.health_host, settings.health_port, worker.not_ready, metrics, about,
        worker.progress.figures,
    )  # fmt: skip
    for number in (signal.SIGTERM, signal.SIGINT):  # first, since process 1 has no others
        asyncio.get_running_loop().add_signal_handler(number, worker.stop)
    async with health.serving():
        await await_brokers(
            options.connection, lambda reason: _log.warning("brokers_unreachable", reason=reason)
        )
        if options.signs and (registry := options.parser.registry):
            await asyncio.to_thread(registry.check)
            registry.patience_s = math.inf
        # Before the group counts on this worker.
        main_text = settings.signature.takes_main_text
        if not has_all_compiled(main_text=main_text):
            where = "once for this version and machine" if FOLDER else "in memory"
            _log.info("kernels_compiling", note=where)
            await asyncio.to_thread(compile_kernels, main_text=main_text)
        await asyncio.to_thread(warm_kernels, settings.signature)
        freeze_gc()
        await worker.run()
