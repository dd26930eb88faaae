"""What is forgotten, by commands and tombstones, against a serial index that forgets."""

import tempfile
from collections import defaultdict, deque
from pathlib import Path
from random import Random
from unittest.mock import patch

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from streamer.index.messages import Forget, IndexSettings, Pages, Term, Tombstone
from streamer.index.ports import Found
from streamer.index.url_versions import NEW, split_changes, url_of
from streamer.run import judge as judge_module
from streamer.run.judge import Judge
from streamer.stored.rows import scan_rows
from tests.helpers.serial_index import Judged, is_named, judged, serial_verdicts
from tests.helpers.signed_pages import family_pages, opened

LIMITS = (
    IndexSettings(),
    IndexSettings(bucket_max=2),
    IndexSettings(candidates_max=2),
    IndexSettings(keep_pages=20, expire_after_ms=30_000),
)


def pages_with_urls(random: Random, count: int) -> Pages:
    """Return pages of which some have one URL; there is a number before each that is no page's."""
    pages = family_pages(random, count)
    pages.refs = np.arange(1, 2 * count, 2).astype(np.uint64)
    pages.urls = [b"https://h%d.example/%d" % (i % 3, random.randrange(9)) for i in range(count)]
    pages.times = 1000 * np.arange(count)
    return pages


class Events:
    """Pages in batches; what is forgotten before some of them: by tombstones, or by commands."""

    def __init__(self, random: Random, count: int) -> None:
        self.pages = pages_with_urls(random, count)
        self.tombstones: list[Tombstone] = []
        self.forgets: dict[int, list[Forget]] = defaultdict(list)
        self.batches: list[tuple[list[Forget], int, int]] = []
        self.changes: dict[int, int] = {}  # what was said, by refs
        at = 0
        while at < count:
            end = min(count, at + random.randrange(1, 9))
            commands = [self._command(random, end) for _ in range(random.choice((0, 0, 0, 1, 2)))]
            self.forgets[at] += commands
            for place in range(at, end):
                if random.random() < 0.15:
                    url = random.choice(self.pages.urls)
                    self.tombstones.append((2 * place, url))
                    self.forgets[place].append(Forget([("url", url)]))
            self.batches.append((commands, at, end))
            at = end

    def _command(self, random: Random, place: int) -> Forget:
        host = b"h%d.example" % random.randrange(3)
        terms: list[Term] = [
            ("url", random.choice(self.pages.urls)),
            ("host", host),
            ("before", 500 * place),
        ]
        return Forget(random.choices(terms, (6, 2, 1), k=random.choice((1, 2))))

    def apply(self, judge: Judge, random: Random) -> list[Judged]:
        """Give all of it to a judge, from its beginning; flush and sweep whenever."""
        result: list[Judged] = []
        ahead: deque[Found] = deque()
        number = 0
        for place, (commands, at, end) in enumerate(self.batches):
            while len(ahead) < 3 and place + len(ahead) < len(self.batches):
                _, first, last = self.batches[place + len(ahead)]
                ahead.append(judge.shard.look_up(self.pages.take(range(first, last))))
            for command in commands:
                judge.forget(command, number)
                number += 1
            tombstones = [each for each in self.tombstones if at <= each[0] // 2 < end]
            for block in judge.judge(
                0, 2 * at, 2 * end, self.pages.take(range(at, end)), ahead.popleft(),
                tombstones=tombstones,
            ):  # fmt: skip
                result += judged(block)
                if block.changes is not None:
                    codes = split_changes(block.changes)[0].tolist()
                    self.changes |= dict(zip(block.pages.refs.tolist(), codes, strict=True))
            if random.random() < 0.3:
                judge.begin_flush(lambda: b"", sweep=random.random() < 0.5)
            if random.random() < 0.2:
                judge.finish()
        return result


seeds, counts = st.integers(0, 2**32), st.integers(1, 90)
memories = st.sampled_from([None, 0])  # without any, each flush is frozen


@settings(max_examples=20, deadline=None)
@given(seeds, counts, st.sampled_from(LIMITS), memories)
def test_verdicts_are_those_of_a_serial_index_that_forgets(
    seed: int, count: int, rules: IndexSettings, memory: int | None
) -> None:
    random = Random(seed)
    events = Events(random, count)
    with tempfile.TemporaryDirectory() as folder, patch.object(judge_module, "SWEEP_TERMS", 5):
        judge = opened(Path(folder) / "index", rules, index_memory=memory)
        verdicts = events.apply(judge, random)
        judge.flush(b"")
        judge.close()
    assert verdicts == serial_verdicts(events.pages, rules, events.forgets)


def serial_changes(events: Events) -> dict[int, bool]:
    """Return which pages are new to a dictionary of URLs that forgets."""
    pages, last, new = events.pages, dict[bytes, int](), dict[int, bool]()
    for place, (ref, url) in enumerate(zip(pages.refs.tolist(), pages.urls, strict=True)):
        for forget in events.forgets.get(place, ()):
            times = {other: int(pages.times[at]) for other, at in last.items()}
            last = {u: at for u, at in last.items() if not is_named(forget, u, times[u].__lt__)}
        new[ref], last[url] = url not in last, place
    return new


@settings(max_examples=8, deadline=None)
@given(seeds, counts)
def test_the_page_after_what_is_forgotten_is_new(seed: int, count: int) -> None:
    random, rules = Random(seed), IndexSettings(track_changes=True)
    events = Events(random, count)
    with tempfile.TemporaryDirectory() as folder, patch.object(judge_module, "SWEEP_TERMS", 5):
        for _ in range(2):
            judge = opened(Path(folder) / "index", rules)
            events.apply(judge, random)
            judge.close()  # as a kill would: nothing more is flushed
        judge = opened(Path(folder) / "index", rules)
        events.apply(judge, random)
        judge.begin_flush(lambda: b"", sweep=True)
        judge.finish()
        left = {url_of(version) for _, version in judge.store.scan_urls()}
        judge.close()
    expected = serial_changes(events)
    assert {ref: code == NEW for ref, code in events.changes.items()} == expected
    last = {url: at for at, url in enumerate(events.pages.urls)}
    gone = {
        url
        for url, at in last.items()
        for place, forgets in events.forgets.items()
        for forget in forgets
        if place > at and is_named(forget, url, int(events.pages.times[at]).__lt__)
    }
    assert left == set(last) - gone


@settings(max_examples=8, deadline=None)
@given(seeds, counts, memories)
@example(0, 78, 0)  # forgets the last row of a block, and then the one before it
def test_a_judge_that_is_opened_again_repeats_them_and_has_forgotten_all(
    seed: int, count: int, memory: int | None
) -> None:
    random, rules = Random(seed), IndexSettings()
    events = Events(random, count)
    said: dict[int, Judged] = {}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(3):
            judge = opened(Path(folder) / "index", rules, index_memory=memory)
            for verdict in events.apply(judge, random):
                assert said.setdefault(verdict.ref, verdict) == verdict
            judge.close()  # as a kill would: nothing more is flushed
        judge = opened(Path(folder) / "index", rules, index_memory=memory)
        events.apply(judge, random)
        judge.begin_flush(lambda: b"", sweep=True)
        judge.finish()
        forgotten = _forgotten(events)
        for part in scan_rows(judge.store):
            assert not forgotten & {*part.rows.refs}
        judge.close()
    assert len(said) == count
    for verdict in said.values():
        assert verdict.similarity < 0 or said[verdict.representative].similarity < 0


def _forgotten(events: Events) -> set[int]:
    """Return the refs of the pages that were named after they came."""
    columns = zip(events.pages.refs.tolist(), events.pages.urls, events.pages.times, strict=True)
    return {
        ref
        for place, (ref, url, time) in enumerate(columns)
        if any(
            at > place and is_named(forget, url, int(time).__lt__)
            for at, forgets in events.forgets.items()
            for forget in forgets
        )
    }
