"""Signed pages made by hand or by chance, without any text behind them."""

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from streamer.index.messages import IndexSettings, Pages
from streamer.run.index_folder import IndexFolder
from streamer.run.judge import Judge, JudgeOptions, replay_judge
from streamer.sketch.hash_sets import pack_set
from streamer.sketch.resemblance import DENSE_LEVEL, SKETCH_WORDS
from streamer.sketch.settings import SignatureSettings
from tests.oracles import plain_signature as plain

BANDS = 14
BINS = 1 << DENSE_LEVEL
ENOUGH_SHINGLES = 32
EMPTY_SKETCH = plain.pack([])
SIGNATURE = SignatureSettings(bands=BANDS)

Sketch = list[int]


def dense_sketch(payload: bytes | bytearray) -> Sketch:
    """Return a sketch of 1,024 bins from its 256 bytes of symbols."""
    return [DENSE_LEVEL | BINS << 8, *np.frombuffer(payload, "<u8").tolist()]


def _symbols(symbols: list[int]) -> Sketch:
    quads = zip(*(symbols[i::4] for i in range(4)), strict=True)
    return dense_sketch(bytes(a | b << 2 | c << 4 | d << 6 for a, b, c, d in quads))


def sketch_with(changed: int, first: int = 0) -> Sketch:
    """Return the sketch of equal symbols, except `changed` of them from bin `first` on.

    To the sketch without a change it has resemblance (2048 - 3 * changed) / 2048.
    """
    symbols = [1] * BINS
    symbols[first : first + changed] = [2] * changed
    return _symbols(symbols)


def unlike(number: int) -> Sketch:
    """Return one of six sketches (0 to 5) of which any two agree by chance only."""
    return _symbols([1 + i // 3**number % 3 for i in range(BINS)])


def made_pages(
    keys: Sequence[Sequence[int]],
    sketches: Sequence[Sketch],
    *,
    first_ref: int = 0,
    distinct: int = ENOUGH_SHINGLES,
    tokens: int = 100,
) -> Pages:
    """Return pages with these keys and sketches, and consecutive refs."""
    count = len(keys)
    refs = range(first_ref, first_ref + count)
    return Pages(
        np.array(refs, np.uint64),
        np.array(keys, np.uint64).reshape(count, len(keys[0]) if keys else BANDS + 1),
        np.array(sketches, np.uint64).reshape(count, SKETCH_WORDS),
        np.full(count, distinct, np.uint8),
        np.full(count, tokens, np.uint32),
        np.full(count, 1000, np.int64),
        [b"u%d" % ref for ref in refs],
        [None] * count,
        [b""] * count,
        np.zeros(count, np.int64),
    )


def _long_relative(random: Random, ancestor: bytes) -> Sketch:
    changed = bytearray(ancestor)
    for _ in range(random.choice((0, 0, 10, 40, 60))):
        changed[random.randrange(len(changed))] = random.getrandbits(8)
    return dense_sketch(changed)


def _short_relative(random: Random, ancestor: bytes) -> Sketch:
    """Return the sketch of some 32 hashes, most of them the ancestor's."""
    kept = np.frombuffer(ancestor, "<u8").tolist()[random.choice((0, 0, 1, 3, 8)) :]
    return plain.pack(
        sorted({*kept, *(random.getrandbits(64) for _ in range(random.choice((0, 1, 4))))})
    )


def family_pages(random: Random, count: int) -> Pages:
    """Return pages of which many share keys, and some of these resemble each other.

    A third of the families have few shingles; some pages are too short to compare, and some empty.
    There is one a second, and a few of them are older than those before. Their sets of shingles
    resemble each other by other chances than the sketches do, and some are not known.
    """
    families = [
        ([random.getrandbits(64) for _ in range(BANDS + 1)], random.randbytes(256), number % 3 == 2)
        for number in range(count // 6 + 1)
    ]
    keys: list[list[int]] = []
    sketches: list[Sketch] = []
    for _ in range(count):
        key, ancestor, short = random.choice(families)
        keys.append([k if random.random() < 0.5 else random.getrandbits(64) for k in key])
        relative = _short_relative if short else _long_relative
        sketches.append(relative(random, ancestor))
    pages = made_pages(keys, sketches)
    pages.distinct[:] = random.choices((ENOUGH_SHINGLES, 3), (9, 1), k=count)
    pages.tokens[:] = random.choices((100, 0), (19, 1), k=count)
    pages.urls = [b"http://site%d.example/%d" % (random.randrange(4), i) for i in range(count)]
    delays = random.choices((0, 900, 7000), (3, 1, 1), k=count)
    pages.times[:] = [10_000 + 1000 * place - delay for place, delay in enumerate(delays)]
    pages.shingles = _sets(random, count)
    pages.main = np.array([random.random() < 0.7 for _ in range(count)], np.bool_)
    return pages


def _sets(random: Random, count: int) -> list[bytes]:
    """Return sets of which any two have 0.6 to 1 in common."""
    common = np.array([random.getrandbits(64) for _ in range(40)], np.uint64)
    dropped = random.choices((0, 1, 4, 8), k=count)
    sets = [pack_set(np.delete(common, random.sample(range(40), n))) for n in dropped]
    return [each if random.random() < 0.9 else b"" for each in sets]


def crowded_pages(random: Random, count: int) -> Pages:
    """Return pages that resemble no other, under few keys, of which many agree in 40 bits.

    No two columns have a key of the same lower half: a row tells of its keys' lower halves only.
    """
    columns = [random.getrandbits(32) << 32 | column << 24 for column in range(BANDS + 1)]
    keys = [
        [
            random.choices((top | 1, top | 2, top | 3, random.getrandbits(64)), (12, 4, 1, 3))[0]
            for top in columns
        ]
        for _ in range(count)
    ]
    return made_pages(keys, [dense_sketch(random.randbytes(256)) for _ in range(count)])


def opened(folder: Path, rules: IndexSettings | None = None, **options: Any) -> Judge:
    """Return the judge of the index of such pages in a folder."""
    rules = rules or IndexSettings()
    return replay_judge(IndexFolder.open(folder, SIGNATURE), rules, JudgeOptions(**options))
