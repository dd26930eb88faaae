"""A crowd under one key: a cookie wall in place of pages, each time with another token.

Two walls are tried, each with half of the pages. `token` changes in one word: its pages are
duplicates of the first one. `session` changes in three words of ten: its pages are like none before
and are kept, but share keys with all others, whose buckets are full after the first few.

A crawl comes between the pages of the crowd, and its verdicts have to be those that it gets alone.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from statistics import fmean

import msgspec

from benchmarks.corpus import MESSAGE, SYLLABLES, generate
from tests.campaign.campaign import Campaign, Outcome
from tests.helpers.replayed import Replayed, replay
from tests.integration.chaos import make_crawl

CRAWL_PAGES_MAX = 20_000
# Of the rate of normal pages. A page of `session` is compared with all that its full buckets hold.
LEAST_RATE = {"token": 1.0, "session": 0.5}
# Judged before and after as many of the crowd, without the crawl's larger pages of HTML between.
NORMAL_PAGES = 200_000
TIMED_ROUNDS = 200_000  # with fewer pages the start of a run is most of its time
WALL_WORDS = 560
SESSION_BYTES = 480  # of the changing part of `session`, as words of eight hex digits
KEPT_BYTES = 175  # of memory that a kept page takes, for good
SLACK_BYTES = 48 << 20  # that allocators and full queues may take in the second half of a run
PEAK_BYTES = 512 << 20  # of a run in which nothing is kept; 300 MiB were seen
CROWD_SITE = b"https://www.site9999.example/"

Judged = tuple[object, ...]


def wall(draw: random.Random, words: int) -> bytes:
    """Return a text of so many words, about 7 bytes each, that no page of a corpus is like."""
    return " ".join("".join(draw.choices(SYLLABLES, k=3)) for _ in range(words)).encode()


def token_wall(pages: int, draw: random.Random) -> Iterator[bytes]:
    """Yield pages of equal text but for a token."""
    text = wall(draw, WALL_WORDS)
    middle = text.index(b" ", len(text) // 3)
    for number in range(pages):
        token = b" %016x" % draw.getrandbits(64)
        yield MESSAGE % (9999, 0, number, text[:middle] + token + text[middle:])


def session_wall(pages: int, draw: random.Random) -> Iterator[bytes]:
    """Yield pages of which seven words in ten are equal."""
    text = wall(draw, WALL_WORDS * 7 // 10)
    for number in range(pages):
        changing = draw.randbytes(SESSION_BYTES).hex(" ", 4).encode()
        yield MESSAGE % (9999, 0, number, text + b" " + changing)


def named(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Give each page of a crawl a URL of its own: a crawl fetches some more than once."""
    for number, line in enumerate(lines):
        try:
            page = msgspec.json.decode(line, type=dict[str, object])
        except (msgspec.DecodeError, UnicodeDecodeError):
            yield line  # a dead letter, here and there
            continue
        yield msgspec.json.encode({**page, "url": f"{page.get('url')}#{number}"}) + b"\n"


def between(crowd: Iterator[bytes], pages: int, crawl: list[bytes]) -> Iterator[bytes]:
    """Yield the crowd with the crawl spread over it."""
    step = max(1, pages // len(crawl))
    waiting = iter(crawl)
    for number, line in enumerate(crowd):
        if number % step == 0:
            yield from (page for page in [next(waiting, None)] if page)
        yield line
    yield from waiting


def verdicts(done: Replayed) -> dict[str, Judged]:
    """Return the verdicts of the crawl's pages by URL, and what they are of by its URL."""
    found: dict[str, Judged] = {}
    with done.verdicts.open("rb") as file:
        for line in file:
            said = msgspec.json.decode(line, type=dict[str, object])
            url = str(said["url"])
            if url.startswith(CROWD_SITE.decode()):
                continue
            other = said["representative"]
            of = other.get("url") if isinstance(other, dict) else None
            found[url] = (said["verdict"], said["basis"], said["similarity"], of)
    return found


def growth(done: Replayed) -> int:
    """Return by how many bytes memory grew in the second half, less what kept pages explain."""
    end = done.memory[-1][0]
    first = [size for fed, size in done.memory if end // 4 <= fed <= end // 2]
    second = [size for fed, size in done.memory if fed > end // 2]
    kept = int(done.summary["unique"])
    return max(second) - max(first, default=max(second)) - KEPT_BYTES * kept // 2


def run(rounds: int, seed: int, folder: Path) -> Outcome:
    """Judge the crowd and what it is held against."""
    outcome = Outcome(rounds)
    timed = rounds >= TIMED_ROUNDS
    pages = min(CRAWL_PAGES_MAX, rounds // 10)
    with make_crawl(folder, pages, seed).open("rb") as file:
        crawl = list(named(file))
    alone = verdicts(replay(folder / "alone", crawl, seed))
    normal = [_normal(folder, "before", seed)] if timed else []
    crowds: dict[str, Replayed] = {}
    walls: tuple[tuple[str, Callable[[int, random.Random], Iterator[bytes]]], ...] = (
        ("token", token_wall),
        ("session", session_wall),
    )
    for name, make in walls:
        crowd = between(make(rounds // 2, random.Random(seed)), rounds // 2, crawl)
        done = crowds[name] = replay(folder / name, crowd, seed)
        _compare(name, alone, verdicts(done), outcome)
        _check_memory(name, done, outcome, timed=timed)
        kept, saturated = (int(done.summary[key]) for key in ("unique", "saturated_postings"))
        outcome.figures[f"{name}: kept pages"] = kept
        outcome.figures[f"{name}: postings that full buckets did not take"] = saturated
        done.verdicts.unlink()
    if not crowds["session"].summary["saturated_postings"]:
        outcome.violations.append(f"seed {seed}: no bucket was full, so this was no crowd")
    if timed:
        alike = {
            name: replay(folder / f"{name}-only", make(NORMAL_PAGES, random.Random(seed)), seed)
            for name, make in walls
        }
        normal.append(_normal(folder, "after", seed))
        start = replay(folder / "start", crawl[:1], seed).cpu_seconds
        _rates(alike, normal, start, outcome)
    return outcome


def _compare(
    name: str, alone: dict[str, Judged], beside: dict[str, Judged], outcome: Outcome
) -> None:
    """Hold the verdicts of the crawl beside the crowd against those that it gets alone."""
    outcome.figures["pages of the crawl between"] = len(alone)
    outcome.violations += [
        f"{name}: {url} is {beside.get(url)}, and {alone.get(url)} without the crowd"
        for url in sorted(alone.keys() | beside.keys())
        if alone.get(url) != beside.get(url)
    ]


def _check_memory(name: str, done: Replayed, outcome: Outcome, *, timed: bool) -> None:
    """Bound what a crowd takes; in a short run, whose second half is its start, the peak alone."""
    grown, peak = growth(done), max(size for _, size in done.memory)
    outcome.figures[f"{name}: memory at most, MiB"] = peak >> 20
    outcome.figures[f"{name}: memory grown in the second half beyond kept pages, MiB"] = grown >> 20
    if peak > PEAK_BYTES + KEPT_BYTES * int(done.summary["unique"]):
        outcome.violations.append(f"{name}: it took {peak >> 20} MiB of memory")
    if timed and grown > SLACK_BYTES:
        outcome.violations.append(f"{name}: memory grew by {grown >> 20} MiB in the second half")


def _normal(folder: Path, name: str, seed: int) -> Replayed:
    """Judge normal pages of the same size, a fifth of them copies."""
    file = folder / "normal.jsonl"
    if not file.exists():  # made beforehand: it takes longer than judging
        with file.open("wb") as made:
            made.writelines(generate(NORMAL_PAGES, seed))
    with file.open("rb") as lines:
        done = replay(folder / name, lines, seed)
    done.verdicts.unlink()
    return done


def _rates(
    crowds: dict[str, Replayed], normal: list[Replayed], start: float, outcome: Outcome
) -> None:
    """Hold the crowd's rate against that of normal pages.

    It is too low where it is so by the clock and by CPU time: the one alone may be other work that
    the machine had to do meanwhile.
    """
    rate = fmean(done.rate() for done in normal)
    cpu = fmean(done.cpu_us(start) for done in normal)
    outcome.figures["normal pages a second"] = rate
    outcome.figures["normal pages: CPU us a page"] = cpu
    for name, done in crowds.items():
        its_rate, its_cpu = done.rate(), done.cpu_us(start)
        outcome.figures[f"{name}: pages a second"] = its_rate
        outcome.figures[f"{name}: CPU us a page"] = its_cpu
        least = LEAST_RATE[name]
        if its_rate < least * rate and its_cpu > cpu / least:
            outcome.violations.append(
                f"{name}: {its_rate:,.0f} pages/s and {its_cpu:.1f} us of CPU a page,"
                f" of normal ones {rate:,.0f} and {cpu:.1f}"
            )


CAMPAIGN = Campaign(
    "crowd",
    "A page under the key of all others before: a cookie wall with a changing token, once as"
    " duplicates and once as pages that are kept. Throughput is at least that of normal pages of"
    " the same size in the same run (of kept ones half of it, since each is compared with all that"
    " full buckets hold), memory is flat but for what kept pages take, and the verdicts of a crawl"
    " between them are those that it gets alone.",
    rounds=1_000_000,
    rounds_in_short=TIMED_ROUNDS,
    rounds_in_ci=30_000,
    run=run,
)
