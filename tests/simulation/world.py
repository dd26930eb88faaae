"""The simulator: signers, shards, logs and disks under one seed, with everything that goes wrong.

Random interleavings of every step; kills between any two of them; publishes that fail though the
next one may be on its way; zombies that go on publishing but can no longer commit; lost disks, some
restored from snapshots of any age; offsets with gaps, dead letters, a topic made again; outputs cut
into records anyhow; settings that change on the way, and the number of shards, at rest. The shard
is the real class, its store is the real store on a real disk.

Pages have times, some older than those before; they expire after some time, or when there are many
newer ones, or never. URLs come again, and what a page is to the version before is told, or not.
Some are forgotten, by tombstones among them or by commands; owners are killed amidst their sweeps.
What a page replaces is retired, or goes on answering. Some pages have no main text, and a
threshold of their own. Pages of one host answer each other, or those of other hosts only.
Duplicates renew their representatives, or do not. Some pages are better copies than others.

At the end: each page has one verdict, whose repeats are identical, or is a dead letter;
representatives are kept, similar enough and not expired; no two kept pages match that could answer
each other; none answers that was forgotten, or lies on a disk when a command is told so; with one
shard the verdicts are those of a naive serial index; with any number changes are those of a
dictionary of URLs; every restored state and every stream is the fold of the logs; nothing stays
open.
"""

from __future__ import annotations

import itertools
import random
import shutil
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event
from typing import Any

import numpy as np

from streamer.index.forgetting import ASK, BEFORE, HOST, URL, names_of_host
from streamer.index.messages import (
    CONFIG,
    FORGET,
    VERDICTS,
    Forget,
    Pages,
    Record,
    Term,
    Tombstone,
    forget_record,
    shard_name,
    source_name,
    source_records,
)
from streamer.index.rule import CONTENT
from streamer.index.settings import IndexSettings
from streamer.index.shard import Shard
from streamer.index.url_versions import EDITED, NEW, REPLACED, UNCHANGED
from streamer.model import SIMILARITY_ONE, page_ref
from streamer.sketch.resemblance import differs_in_scope, similarity
from streamer.stored.lookup import StoredLookup
from streamer.stored.store import Store
from streamer.upkeep.snapshots import Checkpoint, SnapshotFolder
from tests.helpers.serial_index import containment
from tests.simulation import resharding
from tests.simulation.owner import FOREVER, Killed, NothingFlushed, Owner, canon, copy_disk
from tests.simulation.pages import BANDS, NOT_TRACKED, Signature, alike, join, make_page

PARTITIONS = 3
OPEN_MAX = 12  # the gauge at which signers pause
MEMTABLE_MAX = 12
RECORDS_MAX = 30  # between flushes
CALM = 1200  # steps after which nothing goes wrong any more, so that every run ends
STEPS_MAX = 40_000
MEMORY = Path("/dev/shm")  # noqa: S108 - a file system in memory, where there is one
AGES = (0, 0, 8_000, 30_000)  # after which pages expire; there is one a second, about
KEPT = (0, 0, 0, 9, 25)  # of the newest pages, the others expire
URLS = 30  # that pages are of, about a third as many as there are pages
DELAYS = (0, 0, 0, 0, 2_500, 15_000)  # how much older than its neighbours a page is
_REPLACED = "replaced"  # stands for a command
WORLD_BYTES_MAX = 48 << 20  # the disks of a world; 7 MB were seen


@dataclass(eq=False)
class Signer:
    """Reads one partition of one incarnation of the topic; `box` holds what is not published."""

    partition: int
    incarnation: int
    position: int
    box: list[Record] = field(default_factory=list)
    life: int = FOREVER
    doomed: int = FOREVER


class World:
    """One run; `machine` is the shard class under test, `flaws` are broken rules of the world."""

    def __init__(
        self,
        seed: int,
        folder: Path,
        machine: type[Shard] = Shard,
        flaws: frozenset[str] = frozenset(),
    ) -> None:
        self.random = random.Random(seed)
        self.folder = folder
        self.machine = machine
        self.flaws = flaws
        self.shards = self.random.choice((1, 1, 2, 3, 4))
        self.shards_before = 0  # most that there were, before there were others
        self.disks_made = 0
        self.base: Path | None = None  # what the logs begin with, where it is not nothing
        self.order_before: list[list[Record]] = []  # logs of shard 0 that have ended
        self.forgetful = random.Random(seed + (1 << 40))  # the other draws stay what they were
        self.forget_rate = self.forgetful.choice((0, 0.003, 0.01))
        self.retires = self.forgetful.random() < 0.4  # while changes are told
        self.margin = random.Random(seed + (1 << 41)).choice((0, 0.1, 0.3))  # of near misses
        self.contained = random.Random(seed + (1 << 44)).choice((0, 0, 0.5, 0.8))
        self.texts = random.Random(seed + (1 << 42))  # which pages have main text
        self.falls_back = self.texts.random() < 0.3
        self.across = random.Random(seed + (1 << 43)).random() < 0.25
        self.renews = random.Random(seed + (1 << 44)).random() < 0.4
        self.copies = random.Random(seed + (1 << 45))  # which pages are better copies
        self.prefers = self.copies.random() < 0.5 and not self.across
        self._choose_settings()
        self._choose_pages()
        self.logs: list[list[Record]] = [
            [Record(CONFIG, 0, 1, np.array([0]), self.settings)] for _ in range(self.shards)
        ]
        self.verdict_log: list[tuple[str, int, int, list[tuple[int, Any]]]] = []
        self.dead: set[int] = set()
        self.page_commits = dict.fromkeys(range(PARTITIONS), (0, 0))
        self.log_commits = [0] * self.shards
        self.snapshots = [
            SnapshotFolder(self.folder / f"snapshots-{i}") for i in range(self.shards)
        ]
        self.owners = [[self._own(i, self._new_disk(None), 0)] for i in range(self.shards)]
        self.signers = {p: [Signer(p, 0, 0)] for p in range(PARTITIONS)}
        self.speeds = [
            self.random.choice((0.08, 1, 1)) if self.shards > 1 else 1 for _ in self.logs
        ]

    # ---- what the world is made of
    # -----------------------------------------------------------------

    def _choose_settings(self) -> None:
        draw = self.random
        limits = draw.choice(((64, 128), (64, 128), (2, 128), (64, 2), (3, 3)))
        self.crowded = limits != (64, 128)
        equal = 3 if self.crowded and draw.random() < 0.7 else draw.choice((1, 2, 3))
        # resemblance of pages with `equal` of six components equal is equal / 6, up to chance
        self.settings = IndexSettings(
            threshold=equal / BANDS - 0.08,
            bucket_max=limits[0],
            candidates_max=limits[1],
            shards=self.shards,
            expire_after_ms=draw.choice(AGES),
            keep_pages=draw.choice(KEPT),
            track_changes=draw.random() < 0.7,
            retire_replaced=self.retires,
            near_misses=self.margin,
            contained=self.contained,
            fallback_threshold=(equal + 1) / BANDS - 0.08 if self.falls_back else 0,
            across_scopes=self.across,
            renew_on_match=self.renews,
        )
        changed = self.settings.model_copy(
            update={
                "threshold": (equal + 1) / BANDS - 0.08,
                "expire_after_ms": draw.choice(AGES),
                "keep_pages": draw.choice(KEPT),
                "track_changes": draw.random() < 0.7,
            }
        )
        self.later = changed if draw.random() < 0.4 or "settings-in-code" in self.flaws else None
        self.change_at = (
            {i: draw.randint(20, 300) for i in range(self.shards)} if self.later else {}
        )
        self.flush_rate = draw.choice((0, 0.02, 0.1))
        may = not self.flaws or self.flaws & resharding.FLAWS.keys()
        self.reshard_at = draw.randint(20, 700) if may and draw.random() < 0.3 else FOREVER
        self.renews = self.renews and self.reshard_at == FOREVER
        self.prefers = self.prefers and not self.renews
        both = {"renew_on_match": self.renews, "prefers": self.prefers}
        self.settings = self.settings.model_copy(update=both)
        self.later = self.later and self.later.model_copy(update=both)
        if self.reshard_at < FOREVER:
            self.forget_rate = 0  # or what is to be forgotten would have to be swept before

    def _choose_pages(self) -> None:
        draw, count = self.random, 100
        bases = 3 if self.crowded else draw.choice((3, count // 4))
        base = [tuple(draw.getrandbits(30) for _ in range(BANDS)) for _ in range(bases)]
        altered = 0.6 if self.crowded else draw.choice((0, 0.1, 0.6))
        self.topic: dict[tuple[int, int], list[int]] = defaultdict(list)
        self.pages: dict[int, Pages] = {}
        self.spoilt: dict[int, float] = {}  # how often signing a page fails
        self.tombstones: dict[int, bytes] = {}  # by what would be their pages' refs
        self.commands: list[str] = []
        self.answers: set[tuple[str, int]] = set()  # commands, and shards that are done
        for i in range(count):
            where = (i % PARTITIONS, int(i >= count // 2))
            offsets = self.topic[where]
            offset = (
                offsets[-1] + draw.choice((1, 1, 1, 2, 4)) if offsets else draw.choice((0, 0, 3))
            )
            if self.forgetful.random() < 12 * self.forget_rate:
                self.tombstones[page_ref(self._source(*where), offset)] = self._some_url()
                offsets.append(offset)
                offset += 1
            offsets.append(offset)
            signature: Signature = tuple(
                draw.getrandbits(30) if draw.random() < altered else v for v in draw.choice(base)
            )
            ref = page_ref(self._source(*where), offset)
            time, url = 100_000 + 1000 * i - draw.choice(DELAYS), draw.randrange(URLS)
            main = self.texts.random() < 0.5 if self.falls_back else None
            name = b"https://h%d.example/%d" % (url % 4, url)
            own = {"rank": self.copies.randrange(4)} if self.prefers else {"scope": url % 4}
            self.pages[ref] = make_page(ref, signature, time, name, main=main, **own)
            self.spoilt[ref] = draw.choice((0,) * 12 + (1, 0.5))

    def _some_url(self) -> bytes:
        """Return the URL of a page that has been chosen, if there is any."""
        chosen = self.forgetful.choice([None, *self.pages])
        return b"https://h0.example/" if chosen is None else self.pages[chosen].urls[0]

    def _command(self) -> None:
        """Put what a command wants to be forgotten into the log of shard 0."""
        draw = self.forgetful
        kinds: list[Term] = [(URL, self._some_url()), (HOST, b"h%d.example" % draw.randrange(4))]
        kinds.append((BEFORE, 100_000 + 1000 * draw.randrange(60)))
        # A page that was renewed counts as of that time.
        terms = draw.choices(kinds, (9, 2, not self.renews), k=draw.choice((1, 1, 2)))
        self.commands.append(str(len(self.commands)))
        ask = self.commands[-1]
        self.logs[0].append(forget_record(Forget([*terms, (ASK, ask.encode())], ask)))

    @staticmethod
    def _source(partition: int, incarnation: int) -> int:
        return incarnation * PARTITIONS + partition

    def _new_disk(self, like: Path | None) -> Path:
        self.disks_made += 1
        target = self.folder / f"disk-{self.disks_made}"
        if like is None:
            target.mkdir()
        else:
            copy_disk(like, target)
        return target

    def _take_snapshot(self, owner: Owner) -> None:
        checkpoint = Checkpoint(owner.disk, owner.store)
        self.snapshots[owner.number].take(checkpoint, 0, Event())
        checkpoint.remove()

    def _restored(self, number: int) -> Path:
        """Return a new disk: of a snapshot of any age, or as its log begins."""
        snapshot = self.random.choice([None, *self.snapshots[number].numbers()])
        if snapshot is None:
            return self._new_disk(self._base_of(number))
        disk = self._new_disk(None)
        self.snapshots[number].restore(disk, snapshot)
        return disk

    def _base_of(self, number: int) -> Path | None:
        return self.base / f"shard-{number}" if self.base else None

    def _own(self, number: int, disk: Path, skip: int) -> Owner:
        return Owner(self.machine, number, self.shards, disk, skip)

    # ---- steps
    # --------------------------------------------------------------------------------------

    def paused(self) -> bool:
        """Return whether the gauge at shard 0 stops the signers: every open page is open there."""
        shard = self.owners[0][-1].shard
        unread = sum(
            len(record.items)
            for record in self.logs[0][shard.applied :]
            if isinstance(record.items, Pages)
        )
        return unread + shard.open_pages > OPEN_MAX

    def step_signer(self, signer: Signer, now: int) -> None:
        """Sign some pages, or publish what was signed, or commit."""
        draw = self.random
        left = [o for o in self.topic[signer.partition, signer.incarnation] if o >= signer.position]
        idle = signer.doomed == FOREVER and len(signer.box) < 2 and not self.paused()
        if left and idle and (draw.random() < 0.5 or not signer.box):
            self._sign(signer, left[: draw.randint(1, 3)])
        elif signer.box:
            record = signer.box.pop(0)
            if now < CALM and draw.random() < 0.03 and signer.doomed == FOREVER:
                signer.doomed = 2  # this publish fails; the next may be on its way already
                return
            self.logs[0].append(record)
            if signer.life == signer.doomed == FOREVER:
                self.page_commits[signer.partition] = (signer.incarnation, record.end)

    def _sign(self, signer: Signer, offsets: list[int]) -> None:
        source = self._source(signer.partition, signer.incarnation)
        start, signer.position = signer.position, offsets[-1] + 1
        good: list[Pages] = []
        tombstones: list[Tombstone] = []
        for offset in offsets:
            ref = page_ref(source, offset)
            if ref in self.tombstones:
                tombstones.append((offset, self.tombstones[ref]))
            elif self.random.random() < self.spoilt[ref]:
                self.dead.add(ref)
            else:
                good.append(self.pages[ref])
        items = join(good) if good else self.pages[next(iter(self.pages))].take([])
        assert isinstance(items, Pages), items
        signer.box += source_records(source, start, signer.position, items, tombstones)

    def step_owner(self, owner: Owner, now: int) -> None:
        """Flush, apply a record, or publish some outputs; then commit what is published."""
        draw, shard = self.random, owner.shard
        log = self.logs[owner.number]
        newest = owner is self.owners[owner.number][-1]
        flushed = self._flushed_position(owner)
        due = (
            shard.kept_in_memtable >= MEMTABLE_MAX
            or shard.applied - flushed >= RECORDS_MAX
            or draw.random() < self.flush_rate
        )
        asked = shard.forgetting.is_asked and self.forgetful.random() < 0.5
        unflushed = shard.applied > flushed
        if owner.live and newest and not owner.busy and (asked or (due and unflushed)):
            if not self._flush(owner, sweeps=asked or self.forgetful.random() < 0.2, now=now):
                return
            if draw.random() < 0.3:
                self._take_snapshot(owner)
            return
        may_apply = shard.applied < len(log) and owner.doomed == FOREVER
        if may_apply and (draw.random() < 0.6 or not owner.busy) and not (due and owner.busy):
            owner.take(log[shard.applied])
        elif owner.busy:
            self._publish(owner, now)
        if owner.live and draw.random() < 0.5:
            committed = self.log_commits[owner.number]
            self.log_commits[owner.number] = max(committed, owner.published())
        assert shard.open_pages <= OPEN_MAX + 40, "open pages are unbounded"

    def _flush(self, owner: Owner, *, sweeps: bool, now: int = FOREVER) -> bool:
        """Flush an owner; tell whether it was not killed amidst its sweep."""
        killed_after = FOREVER
        if now < CALM and self.forgetful.random() < 0.3:
            killed_after = self.forgetful.choice((0, 1))
        try:
            owner.flush(sweeps=sweeps, killed_after=killed_after)
        except Killed:
            owner.store.close()
            self.owners[owner.number][-1] = self._restart(owner.number, owner, now)
            return False
        if "answers" not in self.flaws:
            self._note_answers(owner)
        return True

    def _note_answers(self, owner: Owner) -> None:
        """Note which commands a shard is done with; nothing of what they name may be there."""
        done = owner.shard.forgetting.done
        if not done:
            return
        self._note_times()
        held = [page.refs for pages in owner.shard._held.values() for page in pages]  # noqa: SLF001 - as above
        stored = [
            np.array(owner.lookup.rows(part.rows).refs, np.uint64)
            for part in owner.store.keys(0, 1024)
        ]
        there = {int(ref) for refs in (*held, *stored) for ref in refs}
        waiting = [page for pages in owner.shard._held.values() for page in pages]  # noqa: SLF001
        named = [each for page in waiting for each in (page.nearest, page.containers) if each]
        there |= {near.ref for each in named for near in each if near}
        there |= {int(ref) for ref in owner.shard._undecided}  # noqa: SLF001
        there |= self._copies_in(owner)
        arrived: set[int] = set()
        for event in self._log_events():
            if isinstance(event, int):
                arrived.add(event)
            elif event.ask in done:
                left = [ref for ref in arrived & there if self._names(event, ref)]
                assert not left, ("told to be forgotten, and there", owner.number, left)
        self.answers |= {(ask, owner.number) for ask in done}
        done.clear()

    def _copies_in(self, owner: Owner) -> set[int]:
        """Return the better copies of kept pages that an owner has stored."""
        heads = (np.frombuffer(each, np.uint64, 5).tolist() for _, each in owner.store.scan_urls())
        return {head[4] for head in heads if self.prefers and head[0] in self.pages}

    @staticmethod
    def _flushed_position(owner: Owner) -> int:
        """Return the log position of the owner's last flush."""
        meta = owner.store.meta
        from streamer.index.codec import unpack_state  # noqa: PLC0415 - only here

        return unpack_state(meta.shards[0].state).applied if meta else 0

    def _publish(self, owner: Owner, now: int) -> None:
        """Publish the first few items for one destination, as one record."""
        draw = self.random
        destination = draw.choice([d for d, queue in owner.queues.items() if queue])
        queue = owner.queues[destination]
        cut = queue[: draw.randint(1, 4)]
        kinds = [type(item) for _, item, _ in cut]  # a record is of one, and forgets one thing
        same = list(itertools.takewhile(lambda kind: kind is kinds[0], kinds))
        cut = cut[
            : 1 if kinds[0] is Forget else len(alike([item for _, item, _ in cut[: len(same)]]))
        ]
        del queue[: len(cut)]
        if now < CALM and draw.random() < 0.02 and owner.doomed == FOREVER:
            owner.doomed = 2
            return
        start, end = cut[0][0], cut[-1][0] + 1
        source = shard_name(owner.number)
        if destination == VERDICTS:
            self.verdict_log.append((source, start, end, [(n, item) for n, item, _ in cut]))
        else:
            items = join([item for _, item, _ in cut])
            self.logs[destination].append(Record(source, start, end, np.arange(start, end), items))

    # ---- what goes wrong
    # ---------------------------------------------------------------------------

    def disturb(self, now: int) -> None:
        """Kill, replace and rebalance; count down what is doomed."""
        for partition in self.signers:
            self._disturb_signer(partition, now)
        for number in range(self.shards):
            owner = self.owners[number][-1]
            chance = self.random.random() if now < CALM else 1
            owner.doomed -= owner.doomed < FOREVER
            if owner.doomed <= 0 or chance < 0.006:
                owner.store.close()
                self.owners[number][-1] = self._restart(number, owner, now)
            elif chance < 0.010:
                owner.life = self.random.randint(5, 100)  # a zombie from now on
                self.owners[number].append(self._restart(number, owner, now))
        self._let_zombies_die()

    def _let_zombies_die(self) -> None:
        """Count down the lives of those that have been replaced."""
        for signers in self.signers.values():
            for signer in signers[:-1]:
                signer.life -= 1
                if signer.life <= 0 or signer.doomed < FOREVER:
                    signers.remove(signer)
        for owners in self.owners:
            for owner in owners[:-1]:
                owner.life -= 1
                if owner.life <= 0 or owner.doomed < FOREVER:
                    owners.remove(owner)
                    owner.store.close()

    def _disturb_signer(self, partition: int, now: int) -> None:
        signer = self.signers[partition][-1]
        incarnation, offset = self.page_commits[partition]
        chance = self.random.random() if now < CALM else 1
        signer.doomed -= signer.doomed < FOREVER
        if signer.doomed <= 0 or chance < 0.004:
            self.signers[partition][-1] = Signer(partition, incarnation, offset)
        elif chance < 0.008:
            signer.life = self.random.randint(5, 100)
            self.signers[partition].append(Signer(partition, incarnation, offset))
        elif incarnation == 0 and offset > self.topic[partition, 0][-1] and not signer.box:
            self.page_commits[partition] = (1, 0)  # the topic is made again
            self.signers[partition][-1] = Signer(partition, 1, 0)

    def _restart(self, number: int, before: Owner, now: int) -> Owner:
        """Return a new owner: on the same disk, or on one that was lost or went back."""
        if now < CALM and self.random.random() < 0.3:
            disk = self._restored(number)
        else:
            disk = before.disk if before.life == FOREVER else self._new_disk(before.disk)
        owner = self._own(number, disk, self.log_commits[number])
        if "settings-in-code" in self.flaws and now > self.change_at[number]:
            owner.shard.settings = self.later
        elif self.random.random() < 0.3 and not self.flaws:
            self._check_fold(owner)
        return owner

    # ---- the run
    # -------------------------------------------------------------------------------------

    def run(self) -> None:
        """Run to the end and check everything.

        Raises:
            AssertionError: a promise is broken.
        """
        try:
            for now in range(STEPS_MAX):
                actions = list(self._actions(now))
                if actions:
                    action, who = self.random.choice(actions)
                    action(who, now)
                for number, at in self.change_at.items():
                    if now == at and self.later and "settings-in-code" not in self.flaws:
                        self.logs[number].append(Record(CONFIG, 1, 2, np.array([1]), self.later))
                if now < CALM and self.forgetful.random() < self.forget_rate:
                    self._command()
                self.disturb(now)
                if self._is_draining(now):
                    if resharding.is_at_rest(self.owners, self.logs, self.flaws):
                        self._reshard(now)
                elif not actions and self._done():
                    break
            else:
                raise AssertionError("stalled")
            self._check()
        finally:
            for owner in (o for crowd in self.owners for o in crowd):
                owner.store.close()

    def _is_draining(self, now: int) -> bool:
        """Return whether signers have stopped, so that owners come to rest."""
        return now >= self.reshard_at

    def _reshard(self, now: int) -> None:
        """Go on with another number of shards, and logs of their own."""
        draw, in_force = self.random, self.owners[0][-1].shard.settings
        assert in_force is not None
        positions = self.owners[0][-1].shard.positions
        shards = draw.choice((1, 1, 2, 3))
        generation = self.folder / f"generation-{now}"
        self.base = resharding.reshard(self.owners, shards, generation, self.flaws)
        self.shards_before = max(self.shards_before, self.shards)
        self.shards, self.reshard_at = shards, FOREVER
        changes = self.later is not None and in_force != self.later
        now_shards = {"shards": shards}
        in_force = in_force.model_copy(update=now_shards)
        self.settings = self.settings.model_copy(update=now_shards)
        self.later = self.later and self.later.model_copy(update=now_shards)
        self.change_at = {i: now + draw.randint(20, 100) for i in range(shards) if changes}
        self.order_before.append(self.logs[0])
        self.logs = [[Record(CONFIG, 0, 1, np.array([0]), in_force)] for _ in range(shards)]
        self.log_commits, self.speeds = [0] * shards, [1] * shards
        self.snapshots = [SnapshotFolder(generation / f"snapshots-{i}") for i in range(shards)]
        self.owners = [[self._own(i, self._new_disk(self._base_of(i)), 0)] for i in range(shards)]
        if "reshard-no-positions" in self.flaws:
            positions = {}
        for partition, (incarnation, _) in self.page_commits.items():
            position = positions.get(source_name(self._source(partition, incarnation)), 0)
            self.page_commits[partition] = incarnation, position
            self.signers[partition] = [Signer(partition, incarnation, position)]

    def _actions(self, now: int) -> Iterator[tuple[Any, Any]]:
        paused = self.paused() or self._is_draining(now)
        for crowd in self.signers.values():
            for signer in crowd:
                last = self.topic[signer.partition, signer.incarnation][-1]
                if (signer.box and not self._is_draining(now)) or (
                    signer.position <= last and not paused
                ):
                    yield self.step_signer, signer
        for number, owners in enumerate(self.owners):
            for owner in owners:
                work = owner.shard.applied < len(self.logs[number]) or owner.busy
                if work and (
                    now > STEPS_MAX * 3 // 4 or self.random.random() < self.speeds[number]
                ):
                    yield self.step_owner, owner

    def _done(self) -> bool:
        signed = all(
            crowd[-1].incarnation
            and not crowd[-1].box
            and crowd[-1].position > self.topic[p, 1][-1]
            for p, crowd in self.signers.items()
        )
        folded = all(
            not crowd[-1].busy and crowd[-1].shard.applied == len(log)
            for crowd, log in zip(self.owners, self.logs, strict=True)
        )
        return signed and folded

    # ---- the promises
    # --------------------------------------------------------------------------------

    def _fold(self, number: int, end: int | None = None) -> tuple[Any, list[Any]]:
        """Fold a log with a shard that never flushes; return its canonical form and outputs."""
        base = self._base_of(number)
        store = Store.open(base / "store", writable=False) if base else None
        meta = store.meta if store else None
        lookup = StoredLookup(store, 0) if store else NothingFlushed()
        state = meta.shards[0].state if meta else b""
        shard = self.machine(number, self.shards, BANDS, lookup, state=state, memtable_capacity=64)
        outputs = [output for record in self.logs[number][:end] for output in shard.apply(record)]
        found = canon(shard, store)
        if store:
            store.close()
        return found, outputs

    def _check_fold(self, owner: Owner) -> None:
        found, _ = self._fold(owner.number, owner.shard.applied)
        assert found == owner.canon(), "the restored state is not the fold of the log"

    def _check(self) -> None:
        verdicts = self._check_verdicts()
        self._note_times()
        self._note_forgotten(verdicts)
        kept = [ref for ref, verdict in verdicts.items() if verdict[1] < 0]
        self._note_seen(verdicts)
        self._check_representatives(verdicts, set(kept))
        self._check_nearest(verdicts, set(kept))
        self._check_copies(verdicts)
        if not self.crowded:
            self._check_kept(kept)
        assert not any(crowd[-1].shard.open_pages for crowd in self.owners), "pages are left open"
        self._check_answers()
        self._check_streams()
        if max(self.shards, self.shards_before) == 1 and not self.later:
            told = {ref: (*verdict[:4], verdict[5]) for ref, verdict in verdicts.items()}
            assert self._serial() == told, "not the serial index"
        self._check_changes(verdicts)

    def _check_verdicts(self) -> dict[int, tuple[Any, ...]]:
        found: dict[int, set[tuple[Any, ...]]] = defaultdict(set)
        for _, _, _, items in self.verdict_log:
            for _, verdict in items:
                found[verdict[0]].add(verdict)
        lost = [ref for ref in self.pages if ref not in found and ref not in self.dead]
        assert not lost, ("no verdict", len(lost), min(lost))
        twice = [ref for ref, verdicts in found.items() if len(verdicts) > 1]
        assert not twice, ("two verdicts", twice)
        return {ref: next(iter(verdicts)) for ref, verdicts in found.items()}

    def _note_times(self) -> None:
        """Note the times of pages as shard 0 has made them ascend, and the strictest expiry."""
        self.times: dict[int, int] = {}
        newest = 0
        for ref in self._log_order():
            newest = self.times[ref] = max(newest, int(self.pages[ref].times[0]))
        both = [self.settings, *([self.later] if self.later else [])]
        self.ages = [each.expire_after_ms or FOREVER for each in both]
        self.newest = min(each.keep_pages or FOREVER for each in both)

    def _names(self, forget: Forget, ref: int, time: int | None = None) -> bool:
        """Return whether one of the terms names a page, which may have been renewed at a time."""
        url, time = self.pages[ref].urls[0], self.times[ref] if time is None else time
        names: list[Term] = [(URL, url), *((HOST, name) for name in names_of_host(url))]
        return any(
            (kind == BEFORE and time < int(value)) or (kind, value) in names
            for kind, value in forget.terms
        )

    def _note_forgotten(self, verdicts: dict[int, tuple[Any, ...]]) -> None:
        """Note for each page when it came, and when it was named after that."""
        self.came: dict[int, int] = {}
        self.named: dict[int, list[int]] = defaultdict(list)
        self.forgotten: set[int] = set()  # the others that are named were replaced
        self.events = [*self._with_retired(verdicts)]
        for moment, event in enumerate(self.events):
            if isinstance(event, int):
                self.came[event] = moment
            else:
                for ref in self.came:
                    if self._names(event, ref):
                        self.named[ref].append(moment)
                        self.forgotten |= {ref} if event.ask != _REPLACED else set()

    def _with_retired(self, verdicts: dict[int, tuple[Any, ...]]) -> Iterator[int | Forget]:
        """Yield the pages and what is to be forgotten, by what they replace as well."""
        settings = self.settings
        for event in self._log_contents():
            if isinstance(event, IndexSettings):
                settings = event
                continue
            if isinstance(event, int) and settings.track_changes and settings.retire_replaced:
                told = verdicts[event][4]
                if told != NOT_TRACKED and told & 3 == REPLACED:  # that it is so is checked
                    yield Forget([(URL, self.pages[event].urls[0])], _REPLACED)
            yield event

    def _check_answers(self) -> None:
        """Check that each shard is done with each command, and nothing forgotten is stored."""
        for crowd in self.owners:
            self._flush(crowd[-1], sweeps=True)
        wanted = {(ask, shard) for ask in self.commands for shard in range(self.shards)}
        assert self.answers == wanted, ("not all commands are done", wanted - self.answers)
        for crowd in self.owners:
            for part in crowd[-1].store.keys(0, 1024):
                refs = crowd[-1].lookup.rows(part.rows).refs
                assert not self.named.keys() & {*refs}, "what is forgotten is stored"
            assert not self.forgotten & self._copies_in(crowd[-1]), "a forgotten copy is stored"

    def _rank(self, ref: int) -> int:
        return int(self.pages[ref].sketches[0, 0])

    def _similarity(self, a: int, b: int) -> int:
        first, second = (self.pages[ref].sketches[0] for ref in (a, b))
        return int(similarity(first, second))

    def _may_meet(self, a: int, b: int) -> bool:
        """Return whether the scopes of two pages let them answer each other."""
        return not self.across or bool(
            differs_in_scope(self.pages[a].sketches, self.pages[b].sketches)[0]
        )

    def _contained(self, a: int, b: int) -> int:
        first, second = (self.pages[ref].sketches[0] for ref in (a, b))
        return int(containment(self._similarity(a, b), first, second))

    def _least(self, ref: int, settings: IndexSettings) -> int:
        """Return the similarity that a page must have."""
        page = self.pages[ref]
        fell_back = page.main is not None and not page.main[0]
        strict = round(settings.fallback_threshold * SIMILARITY_ONE) if fell_back else 0
        return max(settings.similarity_min, strict)

    def _check_representatives(self, verdicts: dict[int, tuple[Any, ...]], kept: set[int]) -> None:
        for ref, (_, score, _, other, *_) in verdicts.items():
            if score >= 0:
                self._check_answer(ref, other, score, kept)
                assert score >= self._least(ref, self.settings), ("below the threshold", ref, other)

    def _note_seen(self, verdicts: dict[int, tuple[Any, ...]]) -> None:
        """Note when pages came, and duplicates that may have renewed them."""
        self.seen = {ref: {ref} for ref in self.times}
        for ref, (_, score, _, other, *_) in verdicts.items():
            if score >= 0 and self.renews:
                self.seen[other].add(ref)

    def _check_answer(self, ref: int, other: int, score: int, kept: set[int]) -> None:
        """Check that a page that a verdict names might have answered it, and is as similar."""
        assert other in kept, ("the named page was not kept", ref, other)
        assert score == self._similarity(ref, other), ("wrong similarity", ref, other)
        age = min(self.times[ref] - self.times[each] for each in self.seen[other] - {ref})
        assert age <= max(self.ages), ("the named page has expired", ref, other)
        assert self._may_meet(ref, other), ("the named page is of the same scope", ref, other)
        gone = min(self.named.get(other, ()), default=FOREVER)
        assert self.came[ref] < gone, ("the named page was forgotten", ref, other)

    def _check_nearest(self, verdicts: dict[int, tuple[Any, ...]], kept: set[int]) -> None:
        """Check what is nearest to unique pages, and what contains them.

        The former misses the threshold by the margin at most; the latter has the share asked for.
        """
        later, margin = self.later or self.settings, self.settings.margin
        for ref, (*_, (near, inside, _)) in verdicts.items():
            if inside:
                share, other = inside
                self._check_answer(ref, other, self._similarity(ref, other), kept)
                assert share == self._contained(ref, other), ("another containment", ref)
                assert share >= self.settings.contained_min, ("not contained", ref)
            if near:
                score, other = near
                self._check_answer(ref, other, score, kept)
                lowest = self._least(ref, self.settings) - margin
                assert lowest <= score < self._least(ref, later), ("no near miss", ref)

    def _check_copies(self, verdicts: dict[int, tuple[Any, ...]]) -> None:
        """Check that what a page supersedes is a worse copy; and that the best one is left.

        The best one may be forgotten, or expire at shard 0 while others wait for their verdicts.
        """
        ranks = {ref: int(page.sketches[0, 0]) for ref, page in self.pages.items()}
        clusters: dict[int, set[int]] = defaultdict(set)
        superseded: dict[int, list[int]] = defaultdict(list)
        for ref, (_, score, _, other, _, (*_, over)) in verdicts.items():
            if score >= 0:
                clusters[other] |= {ref, other}
            if over:
                same = over.ref == other or verdicts[over.ref][3] == other
                assert same, ("another cluster", ref, over.ref)
                assert over.url == self.pages[over.ref].urls[0], ("another URL", ref, over.ref)
                assert ranks[over.ref] < ranks[ref], ("no better copy", ref, over.ref)
                gone = [at for at in self.named.get(over.ref, ()) if not self._replaced_at(at)]
                assert self.came[ref] < min(gone, default=FOREVER), ("forgotten", ref, over.ref)
                superseded[other].append(over.ref)
        lasts = self.prefers and min(self.ages) == FOREVER and self.newest == FOREVER
        for other, cluster in clusters.items() if lasts else ():
            if not cluster & self.forgotten:
                best = {ref for ref in cluster if verdicts[ref][5][2]} | {other}
                assert len({*superseded[other]}) == len(superseded[other]), ("twice", other)
                [last] = best - {*superseded[other]}
                assert ranks[last] == max(map(ranks.__getitem__, cluster)), ("not the best", other)

    def _replaced_at(self, moment: int) -> bool:
        """Return whether what was forgotten at a moment was only replaced."""
        event = self.events[moment]
        return isinstance(event, Forget) and event.ask == _REPLACED

    def _check_kept(self, kept: list[int]) -> None:
        if self.newest < FOREVER and (self.renews or max(self.shards, self.shards_before) > 1):
            return  # each shard counts its own rows, those of renewed pages too
        ranks = {ref: rank for rank, ref in enumerate(r for r in self.times if r in {*kept})}
        for i, a in enumerate(kept):
            keys = set(self.pages[a].keys[0].tolist())
            for b in kept[:i]:
                if abs(self.times[a] - self.times[b]) > min(self.ages):
                    continue
                if a in self.forgotten or b in self.forgotten or not self._may_meet(a, b):
                    continue
                first, second = sorted((a, b), key=self.came.__getitem__)
                if min(self.named.get(first, ()), default=FOREVER) < self.came[second]:
                    continue  # what its URL had was replaced in between
                if abs(ranks[a] - ranks[b]) > self.newest:
                    continue
                need = self._least(second, self.later or self.settings)
                if max(self.shards, self.shards_before) > 1:  # the other one may have been held
                    need = max(need, self._least(first, self.later or self.settings))
                shares_key = keys & set(self.pages[b].keys[0].tolist())
                assert not shares_key or self._similarity(a, b) < need, (
                    "two kept pages match",
                    a,
                    b,
                )

    def _check_streams(self) -> None:
        """Check that every stream, read by the one rule, is the fold of its source's log."""
        wanted: dict[tuple[str, int], int] = {}
        for number, crowd in enumerate(self.owners):
            found, outputs = self._fold(number)
            if not self.flaws:
                assert found == crowd[-1].canon(), "the last state is not the fold"
                assert not crowd[-1].shard.missing, "a hole is known that was filled"
            for output in outputs:
                wanted[shard_name(number), output.destination] = output.end
        for number, log in enumerate(self.logs):
            positions: dict[str, int] = defaultdict(int)
            for record in log:
                if record.start <= positions[record.source] < record.end:
                    positions[record.source] = record.end
            for source in (s for s in positions if s.startswith("shard")):
                assert positions[source] == wanted[source, number], "a stream has a hole"

    def _serial(self) -> dict[int, tuple[Any, ...]]:  # noqa: C901 - it is to be read in one go
        """Return the verdicts of a plain index over the pages in the order of the log."""
        verdicts: dict[int, tuple[Any, ...]] = {}
        buckets: dict[int, list[int]] = defaultdict(list)
        rows: list[tuple[int, int, list[int]]] = []  # a page, its time, and the keys it is under
        gone: set[int] = set()
        copies: dict[int, int] = {}  # the best one of each kept page that has one

        def candidates(keys: list[int], time: int) -> list[int]:
            for key in keys:
                buckets[key] = [r for r in buckets[key] if r not in gone and may_answer(r, time)]
            return sorted({r for key in keys for r in buckets[key]})

        def may_answer(row: int, time: int) -> bool:
            return time - rows[row][1] <= self.ages[0] and len(rows) - row <= self.newest

        def insert(ref: int, time: int, keys: list[int], *, again: bool = False) -> None:
            candidates(keys, time)
            posted = [key for key in keys if len(buckets[key]) < self.settings.bucket_max]
            if posted or not again:
                for key in posted:
                    buckets[key].append(len(rows))
                rows.append((ref, time, posted))

        for ref in self.events:
            if isinstance(ref, Forget):
                gone |= {row for row, each in enumerate(rows) if self._names(ref, each[0], each[1])}
                if ref.ask != _REPLACED:
                    copies = {a: b for a, b in copies.items() if not self._names(ref, b)}
                continue
            keys, time = self.pages[ref].keys[0].tolist(), self.times[ref]
            found = [r for r in candidates(keys, time) if self._may_meet(ref, rows[r][0])]
            found = found[: self.settings.candidates_max]
            scored = [(-self._similarity(ref, rows[r][0]), r) for r in found]
            least = self._least(ref, self.settings)
            score, row = min(scored, default=(0, 0))
            if scored and -score >= least:
                other = rows[row][0]
                basis = CONTENT if row in buckets[keys[-1]] else 0
                over, best = None, copies.get(other, other)
                if self.prefers and self._rank(ref) > self._rank(best):
                    over, copies[other] = (best, self.pages[best].urls[0]), ref
                verdicts[ref] = (ref, -score, basis, other, ((), (), over))
                newest = max(r for r in found if rows[r][0] == other)
                is_old = rows[newest][1] < time - self.ages[0] // 2
                if self.renews and (is_old or newest < len(rows) - self.newest // 2):
                    insert(other, time, rows[newest][2], again=True)
                continue
            is_near = -score >= least - self.margin * SIMILARITY_ONE
            near = (-score, rows[row][0]) if scored and self.margin and is_near else ()
            shares = [(-self._contained(ref, rows[r][0]), r) for _, r in scored]
            share, row = min(shares, default=(0, 0))
            is_inside = bool(self.contained and shares) and -share >= self.settings.contained_min
            inside = (-share, rows[row][0]) if is_inside else ()
            verdicts[ref] = (ref, -1, 0, 0, (near, inside, None))
            insert(ref, time, keys)
        return verdicts

    def _check_changes(self, verdicts: dict[int, tuple[Any, ...]]) -> None:
        """Check what pages are to the last versions of their URLs, in the order of the log."""
        if self.later and (min(self.ages) < FOREVER or self.newest < FOREVER):
            return  # what settings before have let expire depends on what was held
        if self.newest < FOREVER and (self.renews or max(self.shards, self.shards_before) > 1):
            return  # shard 0 takes in more rows than are kept
        last: dict[bytes, tuple[int, int]] = {}
        rows, settings = 0, self.settings
        for event in self._log_contents():
            if isinstance(event, IndexSettings):
                settings = event
            elif isinstance(event, Forget):
                last = {url: at for url, at in last.items() if not self._names(event, at[0])}
            else:
                before, rows_then = last.get(self.pages[event].urls[0], (-1, 0))
                is_old = before >= 0 and self.times[event] - self.times[before] > self.ages[0]
                if is_old or rows - rows_then > self.newest:
                    before = -1
                verdict = verdicts[event]
                expected = NOT_TRACKED
                if settings.track_changes:
                    expected = self._change(event, before, self._least(event, settings))
                    last[self.pages[event].urls[0]] = event, rows
                assert verdict[4] == expected, ("wrong change", event, before, verdict[4], expected)
                rows += verdict[1] < 0

    def _change(self, ref: int, before: int, need: int) -> int:
        """Return what a page is to the one before, as a column of pages has it."""
        if before < 0:
            return -1 << 2 | NEW
        if self.pages[ref].keys[0, -1] == self.pages[before].keys[0, -1]:
            return SIMILARITY_ONE << 2 | UNCHANGED
        score = self._similarity(ref, before)
        return score << 2 | (EDITED if score >= need else REPLACED)

    def _log_order(self) -> Iterator[int]:
        """Yield the pages as shard 0 takes them."""
        return (event for event in self._log_events() if isinstance(event, int))

    def _log_events(self) -> Iterator[int | Forget]:
        """Yield the pages, and what is to be forgotten, as shard 0 takes them."""
        for event in self._log_contents():
            if not isinstance(event, IndexSettings):
                yield event

    def _log_contents(self) -> Iterator[int | Forget | IndexSettings]:
        """Yield the pages, what is to be forgotten, and settings, as shard 0 takes them."""
        positions: dict[str, int] = defaultdict(int)
        for log in (*self.order_before, self.logs[0]):
            positions.pop(CONFIG, None)
            for record in log:
                if record.source == FORGET:
                    assert isinstance(record.items, Forget), record
                    yield record.items
                    continue
                position = positions[record.source]
                if not record.start <= position < record.end:
                    continue
                positions[record.source] = record.end
                first = int(np.searchsorted(record.numbers, position))
                if isinstance(record.items, IndexSettings):
                    yield record.items
                elif isinstance(record.items, Pages) and record.items.matches is None:
                    yield from record.items.refs[first:].tolist()
                elif isinstance(record.items, Forget):
                    yield Forget(record.items.terms[first:])


def run_seed(seed: int, machine: type[Shard] = Shard, flaws: frozenset[str] = frozenset()) -> None:
    """Run the world of a seed, with its disks in memory where there is room for them.

    Nothing here takes a disk's power away, and a file system in memory is several times faster.

    Raises:
        AssertionError: a promise is broken. A broken machine may raise anything else as well.
    """
    roomy = MEMORY.exists() and shutil.disk_usage(MEMORY).free >= WORLD_BYTES_MAX
    with TemporaryDirectory(prefix="streamer-", dir=MEMORY if roomy else None) as folder:
        World(seed, Path(folder), machine, flaws).run()
