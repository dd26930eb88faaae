"""The simulator: signers, an owner, its log and its disk under one seed, and all that goes wrong.

Random interleavings of every step; kills between any two of them; publishes that fail though the
next one may be on its way; zombies that go on publishing but can no longer commit; lost disks, some
restored from snapshots of any age; offsets with gaps, dead letters, a topic made again; settings
that change on the way. The shard is the real class, its store is the real store on a real disk.

Pages have dates: some are older than those before, some are wrong, and there are pauses. They
expire after some time, or when there are many newer ones, or never. URLs come again, and what a
page is to the version before is compared, or not. Some are forgotten, by tombstones among them or
by commands; owners are killed amidst their sweeps. Some pages have no main text, and a threshold of
their own.

At the end: each page has one verdict, whose repeats are identical, or is a dead letter; the
verdicts are those of a naive serial index; representatives are kept, similar enough and not
expired; no two kept pages match that could answer each other; none answers that was forgotten, or
is on a disk when a command is answered; changes are those of a dictionary of URLs; every restored
state is the fold of the log.
"""

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

from streamer.hosts import same_url_key
from streamer.index import messages
from streamer.index.forgetting import ASK, BEFORE, HOST, URL, names_of_host, normalize_term
from streamer.index.messages import (
    CONFIG,
    Forget,
    IndexSettings,
    Pages,
    Record,
    Term,
    source_records,
)
from streamer.index.rule import CONTENT
from streamer.index.shard import Shard
from streamer.index.url_versions import EDITED, NEW, REPLACED, UNCHANGED
from streamer.model import SIMILARITY_ONE, page_ref
from streamer.sketch.resemblance import similarity
from streamer.upkeep.snapshots import SnapshotFolder, StoreCheckpoint
from tests.helpers.dates import few_dates
from tests.oracles.log_time import PlainTime
from tests.simulation.owner import (
    FOREVER,
    Killed,
    NothingFlushed,
    Owner,
    Reported,
    canon,
    copy_disk,
    reported,
)
from tests.simulation.pages import BANDS, NOT_TRACKED, Signature, join, make_page

PARTITIONS = 3
OPEN_MAX = 12  # the gauge at which signers pause
MEMTABLE_MAX = 12
RECORDS_MAX = 30  # between flushes
CALM = 1200  # steps after which nothing goes wrong any more, so that every run ends
STEPS_MAX = 40_000
MEMORY = Path("/dev/shm")  # noqa: S108 - a file system in memory, where there is one
AGES = (0, 0, 8_000, 30_000)  # after which pages expire; there is one a second, about
KEPT = (0, 0, 0, 9, 25)  # of the newest pages, the others expire
PAUSE, WRONG = 60_000, 10**8  # by which a page is dated later than the page before
URLS = 30  # that pages are of, about a third as many as there are pages
DATES = 7  # whose median may move the time
DELAYS = (0, 0, 0, 0, 2_500, 15_000)  # how much older than its neighbours a page is
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
        self.disks_made = 0
        self.forgetful = random.Random(seed + (1 << 40))  # the other draws stay what they were
        self.forget_rate = self.forgetful.choice((0, 0.003, 0.01))
        self.margin = random.Random(seed + (1 << 41)).choice((0, 0.1, 0.3))  # of near misses
        self.texts = random.Random(seed + (1 << 42))  # which pages have main text
        self.falls_back = self.texts.random() < 0.3
        self.dates = random.Random(seed + (1 << 43))  # which are wrong, and where there is a pause
        self.pause_at = self.dates.choice((FOREVER, FOREVER, 40, 70))
        self.wrong_rate = self.dates.choice((0, 0, 0.05, 0.2))
        self._choose_settings()
        self._choose_pages()
        self.log: list[Record] = [Record(CONFIG, 0, 1, np.array([0]), self.settings)]
        self.verdict_log: list[tuple[int, Reported]] = []
        self.dead: set[int] = set()
        self.page_commits = dict.fromkeys(range(PARTITIONS), (0, 0))
        self.log_commit = 0
        self.snapshots = SnapshotFolder(self.folder / "snapshots")
        self.owners = [self._own(self._new_disk(None), 0)]  # zombies first, the last one is live
        self.signers = {p: [Signer(p, 0, 0)] for p in range(PARTITIONS)}

    # ---- what the world is made of ---------------------------------------------------------------

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
            expire_after_ms=draw.choice(AGES),
            keep_pages=draw.choice(KEPT),
            track_changes=draw.random() < 0.7,
            near_misses=self.margin,
            fallback_threshold=(equal + 1) / BANDS - 0.08 if self.falls_back else 0,
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
        self.change_at = draw.randint(20, 300) if self.later else FOREVER
        self.flush_rate = draw.choice((0, 0.02, 0.1))

    def _choose_pages(self) -> None:
        draw, count = self.random, 100
        bases = 3 if self.crowded else draw.choice((3, count // 4))
        base = [tuple(draw.getrandbits(30) for _ in range(BANDS)) for _ in range(bases)]
        altered = 0.6 if self.crowded else draw.choice((0, 0.1, 0.6))
        self.topic: dict[tuple[int, int], list[int]] = defaultdict(list)
        self.pages: dict[int, Pages] = {}
        self.spoilt: dict[int, float] = {}  # how often signing a page fails
        self.tombstones: dict[int, bytes] = {}  # by what would be their pages' refs
        self.commands: set[str] = set()
        self.answers: set[str] = set()  # commands that are answered
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
            time += PAUSE * (i >= self.pause_at)
            time += WRONG * (self.dates.random() < self.wrong_rate)
            main = self.texts.random() < 0.5 if self.falls_back else None
            name = b"https://h%d.example/%d" % (url % 4, url)
            self.pages[ref] = make_page(ref, signature, time, name, main=main)
            self.spoilt[ref] = draw.choice((0,) * 12 + (1, 0.5))

    def _some_url(self) -> bytes:
        """Return the URL of a page that has been chosen, if there is any."""
        chosen = self.forgetful.choice([None, *self.pages])
        return b"https://h0.example/" if chosen is None else self.pages[chosen].urls[0]

    def _command(self) -> None:
        """Put what a command wants to be forgotten into the log."""
        draw = self.forgetful
        kinds: list[Term] = [(URL, self._some_url()), (HOST, b"h%d.example" % draw.randrange(4))]
        kinds.append((BEFORE, 100_000 + 1000 * draw.randrange(60)))
        terms = draw.choices(kinds, (9, 2, 1), k=draw.choice((1, 1, 2)))
        ask = str(len(self.commands))
        self.commands.add(ask)
        self.log.append(messages.forget_record(Forget([*terms, (ASK, ask.encode())], ask)))

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
        checkpoint = StoreCheckpoint(owner.disk, owner.store)
        self.snapshots.take(checkpoint, 0, Event())
        checkpoint.remove()

    def _restored(self) -> Path:
        """Return a new disk: of a snapshot of any age, or an empty one."""
        disk = self._new_disk(None)
        snapshot = self.random.choice([None, *self.snapshots.numbers()])
        if snapshot is not None:
            self.snapshots.restore(disk, snapshot)
        return disk

    def _own(self, disk: Path, skip: int) -> Owner:
        return Owner(self.machine, disk, skip)

    # ---- steps -----------------------------------------------------------------------------------

    def paused(self) -> bool:
        """Return whether the gauge stops the signers."""
        unread = self.log[self.owners[-1].shard.applied :]
        return sum(len(r.items) for r in unread if isinstance(r.items, Pages)) > OPEN_MAX

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
            self.log.append(record)
            if signer.life == signer.doomed == FOREVER:
                self.page_commits[signer.partition] = (signer.incarnation, record.end)

    def _sign(self, signer: Signer, offsets: list[int]) -> None:
        source = self._source(signer.partition, signer.incarnation)
        start, signer.position = signer.position, offsets[-1] + 1
        good: list[Pages] = []
        tombstones: list[messages.Tombstone] = []
        for offset in offsets:
            ref = page_ref(source, offset)
            if ref in self.tombstones:
                tombstones.append((offset, self.tombstones[ref]))
            elif self.random.random() < self.spoilt[ref]:
                self.dead.add(ref)
            else:
                good.append(self.pages[ref])
        items = join(good) if good else self.pages[next(iter(self.pages))].take([])
        signer.box += source_records(source, start, signer.position, items, tombstones)

    def step_owner(self, owner: Owner, now: int) -> None:
        """Flush, apply a record, or publish some verdicts; then commit what is published."""
        draw, shard = self.random, owner.shard
        flushed = owner.flushed_position
        due = (
            shard.unflushed_rows >= MEMTABLE_MAX
            or shard.applied - flushed >= RECORDS_MAX
            or draw.random() < self.flush_rate
        )
        asked = shard.forgetting.is_asked and self.forgetful.random() < 0.5
        unflushed = shard.applied > flushed
        is_newest = owner is self.owners[-1]
        if owner.live and is_newest and not owner.waiting and (asked or (due and unflushed)):
            sweeps = asked or self.forgetful.random() < 0.2
            if self._flush(owner, sweeps=sweeps, now=now) and draw.random() < 0.3:
                self._take_snapshot(owner)
            return
        may_apply = shard.applied < len(self.log) and owner.doomed == FOREVER
        if may_apply and (draw.random() < 0.6 or not owner.waiting) and not (due and owner.waiting):
            owner.take(self.log[shard.applied])
        elif owner.waiting:
            self._publish(owner, now)
        if owner.live and draw.random() < 0.5:
            self.log_commit = max(self.log_commit, owner.published())

    def _flush(self, owner: Owner, *, sweeps: bool, now: int = FOREVER) -> bool:
        """Flush an owner; return whether it was not killed amidst its sweep."""
        killed_after = FOREVER
        if now < CALM and self.forgetful.random() < 0.3:
            killed_after = self.forgetful.choice((0, 1))
        try:
            owner.flush(sweeps=sweeps, killed_after=killed_after)
        except Killed:
            owner.store.close()
            self.owners[-1] = self._restart(owner, now)
            return False
        self._note_answers(owner)
        return True

    def _note_answers(self, owner: Owner) -> None:
        """Note which commands are answered; nothing of what they name may be on the disk."""
        done = owner.shard.forgetting.done
        if not done:
            return
        there = {
            int(ref) for part in owner.store.keys(1024) for ref in owner.lookup.rows(part.rows).refs
        }
        arrived: set[int] = set()
        for event in self._log_events():
            if isinstance(event, int):
                arrived.add(event)
            elif event.ask in done:
                left = [ref for ref in arrived & there if self._names(event, ref)]
                assert not left, ("answered as forgotten, and there", left)
        self.answers |= {*done}
        done.clear()

    def _publish(self, owner: Owner, now: int) -> None:
        """Publish the first few verdicts."""
        cut = owner.waiting[: self.random.randint(1, 4)]
        del owner.waiting[: len(cut)]
        if now < CALM and self.random.random() < 0.02 and owner.doomed == FOREVER:
            owner.doomed = 2
            return
        self.verdict_log += [(number, verdict) for number, verdict, _ in cut]

    # ---- what goes wrong -------------------------------------------------------------------------

    def disturb(self, now: int) -> None:
        """Kill, replace and rebalance; count down what is doomed."""
        for partition in self.signers:
            self._disturb_signer(partition, now)
        owner = self.owners[-1]
        chance = self.random.random() if now < CALM else 1
        owner.doomed -= owner.doomed < FOREVER
        if owner.doomed <= 0 or chance < 0.012:
            owner.store.close()
            self.owners[-1] = self._restart(owner, now)
        elif chance < 0.020:
            owner.life = self.random.randint(5, 100)  # a zombie from now on
            self.owners.append(self._restart(owner, now))
        self._let_zombies_die()

    def _let_zombies_die(self) -> None:
        """Count down the lives of those that have been replaced."""
        for signers in self.signers.values():
            for signer in signers[:-1]:
                signer.life -= 1
                if signer.life <= 0 or signer.doomed < FOREVER:
                    signers.remove(signer)
        for owner in self.owners[:-1]:
            owner.life -= 1
            if owner.life <= 0 or owner.doomed < FOREVER:
                self.owners.remove(owner)
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

    def _restart(self, before: Owner, now: int) -> Owner:
        """Return a new owner: on the same disk, or on one that was lost or went back."""
        if now < CALM and self.random.random() < 0.3:
            disk = self._restored()
        else:
            disk = before.disk if before.life == FOREVER else self._new_disk(before.disk)
        owner = self._own(disk, self.log_commit)
        if "settings-in-code" in self.flaws and now > self.change_at:
            owner.shard.settings = self.later
        elif self.random.random() < 0.3 and not self.flaws:
            self._check_fold(owner)
        return owner

    # ---- the run ---------------------------------------------------------------------------------

    def run(self) -> None:
        """Run to the end and check everything.

        Raises:
            AssertionError: a promise is broken.
        """
        try:
            for now in range(STEPS_MAX):
                actions = list(self._actions())
                if actions:
                    action, who = self.random.choice(actions)
                    action(who, now)
                if now == self.change_at and self.later and "settings-in-code" not in self.flaws:
                    self.log.append(Record(CONFIG, 1, 2, np.array([1]), self.later))
                if now < CALM and self.forgetful.random() < self.forget_rate:
                    self._command()
                self.disturb(now)
                if not actions and self._done():
                    break
            else:
                raise AssertionError("stalled")
            self._check()
        finally:
            for owner in self.owners:
                owner.store.close()

    def _actions(self) -> Iterator[tuple[Any, Any]]:
        paused = self.paused()
        for crowd in self.signers.values():
            for signer in crowd:
                last = self.topic[signer.partition, signer.incarnation][-1]
                if signer.box or (signer.position <= last and not paused):
                    yield self.step_signer, signer
        for owner in self.owners:
            if owner.shard.applied < len(self.log) or owner.waiting:
                yield self.step_owner, owner

    def _done(self) -> bool:
        signed = all(
            crowd[-1].incarnation
            and not crowd[-1].box
            and crowd[-1].position > self.topic[p, 1][-1]
            for p, crowd in self.signers.items()
        )
        newest = self.owners[-1]
        return signed and not newest.waiting and newest.shard.applied == len(self.log)

    # ---- the promises ----------------------------------------------------------------------------

    def _fold(self, end: int | None = None) -> tuple[Any, list[tuple[int, Reported]]]:
        """Fold the log with a shard that never flushes; return its canonical form and verdicts."""
        shard = self.machine(BANDS, NothingFlushed(), memtable_capacity=64)
        outputs = [shard.apply(record) for record in self.log[:end]]
        found = [each for output in outputs if output is not None for each in reported(output)]
        return canon(shard, None), found

    def _check_fold(self, owner: Owner) -> None:
        found, _ = self._fold(owner.shard.applied)
        assert found == owner.canon(), "the restored state is not the fold of the log"

    def _check(self) -> None:
        verdicts = self._check_verdicts()
        self._note_times()
        self._note_forgotten()
        kept = [ref for ref, verdict in verdicts.items() if verdict.similarity < 0]
        self._check_representatives(verdicts, {*kept})
        self._check_nearest(verdicts, {*kept})
        if not self.crowded:
            self._check_kept(kept)
        self._check_answers()
        self._check_last_fold()
        if not self.later:
            plain = {ref: verdict._replace(change=NOT_TRACKED) for ref, verdict in verdicts.items()}
            assert self._serial() == plain, "not the serial index"
        self._check_changes(verdicts)

    def _check_last_fold(self) -> None:
        """Check that state and verdicts are those of a fold of the log, and no hole is left."""
        found, verdicts = self._fold()
        newest = self.owners[-1]
        if not self.flaws:
            assert found == newest.canon(), "the last state is not the fold"
            assert not newest.shard.missing, "a hole is known that was filled"
        assert {*verdicts} == {*self.verdict_log}, "the verdicts are not those of the fold"

    def _check_verdicts(self) -> dict[int, Reported]:
        found: dict[int, set[Reported]] = defaultdict(set)
        for _, verdict in self.verdict_log:
            found[verdict.ref].add(verdict)
        lost = [ref for ref in self.pages if ref not in found and ref not in self.dead]
        assert not lost, ("no verdict", len(lost), min(lost))
        twice = [ref for ref, verdicts in found.items() if len(verdicts) > 1]
        assert not twice, ("two verdicts", twice)
        return {ref: next(iter(verdicts)) for ref, verdicts in found.items()}

    def _note_times(self) -> None:
        """Note the time at each page, and the strictest expiry."""
        self.times: dict[int, int] = {}
        for ref in self._log_order():
            self.times[ref] = self.clock.now
        both = [self.settings, *([self.later] if self.later else [])]
        self.ages = [each.expire_after_ms or FOREVER for each in both]
        self.newest = min(each.keep_pages or FOREVER for each in both)

    def _names(self, forget: Forget, ref: int) -> bool:
        """Return whether one of the terms names a page, at this place of the log."""
        url, number = self.pages[ref].urls[0], self.numbers[ref]
        names: list[Term] = [
            (URL, same_url_key(url)),
            *((HOST, name) for name in names_of_host(url)),
        ]
        return any(
            (kind == BEFORE and self.clock.is_before(number, int(value)))
            or normalize_term((kind, value)) in names
            for kind, value in forget.terms
        )

    def _note_forgotten(self) -> None:
        """Note for each page when it came, and when it was named after that."""
        self.came: dict[int, int] = {}
        self.named: dict[int, list[int]] = defaultdict(list)
        for moment, event in enumerate(self._log_events()):
            if isinstance(event, int):
                self.came[event] = moment
                continue
            for ref in self.came:
                if self._names(event, ref):
                    self.named[ref].append(moment)

    def _check_answers(self) -> None:
        """Check that each command is answered, and nothing forgotten is stored."""
        owner = self.owners[-1]
        self._flush(owner, sweeps=True)
        assert self.answers == self.commands, ("no answer", self.commands - self.answers)
        for part in owner.store.keys(1024):
            refs = owner.lookup.rows(part.rows).refs
            assert not self.named.keys() & {*refs}, "what is forgotten is stored"

    def _similarity(self, a: int, b: int) -> int:
        first, second = (self.pages[ref].sketches[0] for ref in (a, b))
        return int(similarity(first, second))

    def _least(self, ref: int, settings: IndexSettings) -> int:
        """Return the similarity that a page must have."""
        page = self.pages[ref]
        fell_back = page.main is not None and not page.main[0]
        strict = round(settings.fallback_threshold * SIMILARITY_ONE) if fell_back else 0
        return max(settings.similarity_min, strict)

    def _check_representatives(self, verdicts: dict[int, Reported], kept: set[int]) -> None:
        for ref, verdict in verdicts.items():
            if verdict.similarity >= 0:
                self._check_answer(ref, verdict.representative, verdict.similarity, kept)
                least = self._least(ref, self.settings)
                assert verdict.similarity >= least, ("below the threshold", ref)

    def _check_answer(self, ref: int, other: int, score: int, kept: set[int]) -> None:
        """Check that a page that a verdict names might have answered it, and is as similar."""
        assert other in kept, ("the named page was not kept", ref, other)
        assert score == self._similarity(ref, other), ("wrong similarity", ref, other)
        age = self.times[ref] - self.clock.counts[self.numbers[other]]
        assert age <= max(self.ages), ("the named page has expired", ref, other)
        gone = min(self.named.get(other, ()), default=FOREVER)
        assert self.came[ref] < gone, ("the named page was forgotten", ref, other)

    def _check_nearest(self, verdicts: dict[int, Reported], kept: set[int]) -> None:
        """Check that what is nearest to a unique page is within the margin below the threshold."""
        later = self.later or self.settings
        for ref, verdict in verdicts.items():
            if verdict.near:
                score, other = verdict.near
                self._check_answer(ref, other, score, kept)
                lowest = self._least(ref, self.settings) - self.settings.margin
                assert lowest <= score < self._least(ref, later), ("no near miss", ref)

    def _check_kept(self, kept: list[int]) -> None:
        order = {ref: rank for rank, ref in enumerate(r for r in self.times if r in {*kept})}
        for i, a in enumerate(kept):
            keys = set(self.pages[a].keys[0].tolist())
            for b in kept[:i]:
                if abs(self.times[a] - self.times[b]) > min(self.ages):
                    continue
                if a in self.named or b in self.named:
                    continue
                if abs(order[a] - order[b]) > self.newest:
                    continue
                least = self._least(
                    max(a, b, key=self.came.__getitem__), self.later or self.settings
                )
                shared = keys & {*self.pages[b].keys[0].tolist()}
                match = shared and self._similarity(a, b) >= least
                assert not match, ("two kept pages match", a, b)

    def _serial(self) -> dict[int, Reported]:
        """Return the verdicts of a plain index over the pages in the order of the log."""
        verdicts: dict[int, Reported] = {}
        buckets: dict[int, list[int]] = defaultdict(list)
        rows: list[int] = []  # the pages that are kept
        gone: set[int] = set()

        def may_answer(row: int) -> bool:
            age = self.clock.age(self.numbers[rows[row]])
            is_old = age > self.ages[0] or len(rows) - row > self.newest
            return row not in gone and not is_old

        for event in self._log_events():
            if isinstance(event, Forget):
                gone |= {row for row, ref in enumerate(rows) if self._names(event, ref)}
                continue
            keys = self.pages[event].keys[0].tolist()
            for key in keys:
                buckets[key] = [row for row in buckets[key] if may_answer(row)]
            found = sorted({row for key in keys for row in buckets[key]})
            found = found[: self.settings.candidates_max]
            scored = [(-self._similarity(event, rows[row]), row) for row in found]
            least = self._least(event, self.settings)
            score, row = min(scored, default=(0, 0))
            if scored and -score >= least:
                basis = CONTENT if row in buckets[keys[-1]] else 0
                verdicts[event] = Reported(event, -score, basis, rows[row])
                continue
            is_near = -score >= least - self.margin * SIMILARITY_ONE
            near = (-score, rows[row]) if scored and self.margin and is_near else ()
            verdicts[event] = Reported(event, -1, 0, 0, near)
            for key in keys:
                if len(buckets[key]) < self.settings.bucket_max:
                    buckets[key].append(len(rows))
            rows.append(event)
        return verdicts

    def _check_changes(self, verdicts: dict[int, Reported]) -> None:
        """Check what pages are to the last versions of their URLs, in the order of the log."""
        if self.later and (min(self.ages) < FOREVER or self.newest < FOREVER):
            return  # what settings before have let expire stays so
        last: dict[bytes, tuple[int, int]] = {}
        rows, settings = 0, self.settings
        for event in self._log_contents():
            if isinstance(event, IndexSettings):
                settings = event
            elif isinstance(event, Forget):
                last = {url: at for url, at in last.items() if not self._names(event, at[0])}
            else:
                before, rows_then = last.get(self.pages[event].urls[0], (-1, 0))
                is_old = before >= 0 and self.clock.age(self.numbers[before]) > self.ages[0]
                if is_old or rows - rows_then > self.newest:
                    before = -1
                verdict = verdicts[event]
                expected = NOT_TRACKED
                if settings.track_changes:
                    expected = self._change(event, before, self._least(event, settings))
                    last[self.pages[event].urls[0]] = event, rows
                assert verdict.change == expected, ("wrong change", event, before, expected)
                rows += verdict.similarity < 0

    def _change(self, ref: int, before: int, need: int) -> int:
        """Return what a page is to the one before, as a column of verdicts has it."""
        if before < 0:
            return -1 << 2 | NEW
        if self.pages[ref].keys[0, -1] == self.pages[before].keys[0, -1]:
            return SIMILARITY_ONE << 2 | UNCHANGED
        score = self._similarity(ref, before)
        return score << 2 | (EDITED if score >= need else REPLACED)

    def _log_order(self) -> Iterator[int]:
        """Yield the pages as the shard takes them."""
        return (event for event in self._log_events() if isinstance(event, int))

    def _log_events(self) -> Iterator[int | Forget]:
        """Yield the pages, and what is to be forgotten, as the shard takes them."""
        for event in self._log_contents():
            if not isinstance(event, IndexSettings):
                yield event

    def _log_contents(self) -> Iterator[int | Forget | IndexSettings]:
        """Yield the pages, what is to be forgotten, and settings, as the shard takes them.

        `clock` is the time of the log at each, and knows pages by `numbers`.
        """
        self.clock, self.numbers = PlainTime(), dict[int, int]()
        positions: dict[str, int] = defaultdict(int)
        for record in self.log:
            if record.source == messages.FORGET:
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
            elif isinstance(record.items, Pages):
                for ref in record.items.refs[first:].tolist():
                    self.numbers[ref] = len(self.numbers)
                    self.clock.take(int(self.pages[ref].times[0]))
                    yield ref
            else:
                yield Forget(record.items.terms[first:])


def run_seed(seed: int, machine: type[Shard] = Shard, flaws: frozenset[str] = frozenset()) -> None:
    """Run the world of a seed, with its disks in memory where there is room for them.

    Nothing here takes a disk's power away, and a file system in memory is several times faster.

    Raises:
        AssertionError: a promise is broken. A broken machine may raise anything else as well.
    """
    roomy = MEMORY.exists() and shutil.disk_usage(MEMORY).free >= WORLD_BYTES_MAX
    with (
        TemporaryDirectory(prefix="streamer-", dir=MEMORY if roomy else None) as folder,
        few_dates(DATES),
    ):
        World(seed, Path(folder), machine, flaws).run()
