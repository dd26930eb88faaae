"""docs/signature.md in plain Python: from a text and a key to band keys, content key and sketch.

It shares no line with the detector, whose kernels are held against it bit for bit, and it is what
to read next to the document. Nothing here is fast. Integers are unsigned; `& M64` keeps a sum or a
product to 64 bits.
"""

import hashlib
import json
import struct
import unicodedata
from bisect import bisect
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import mmh3

M32, M64 = (1 << 32) - 1, (1 << 64) - 1

# ---- 1. the key's hash parameters --------------------------------------------------------------


class Seeds(NamedTuple):
    """What is derived of a key; seeds have 32 bits, the others 64."""

    token_seed: int
    content_seed: int
    band_seed: int
    content_step: int
    sketch_mask: int
    shingle_powers: list[int]
    round_masks: list[int]


def derive_seeds(key: bytes, width: int, hashes: int) -> Seeds:
    """Return the parameters for shingles of `width` tokens and `hashes` min-hashes."""

    def words(purpose: bytes, form: str) -> list[int]:
        size = struct.calcsize(form)
        return [*struct.unpack(form, hashlib.shake_256(purpose + b"\0" + key).digest(size))]

    token_seed, content_seed, band_seed = words(b"seeds", "<3I")
    base = words(b"shingle", "<Q")[0] | 1
    return Seeds(
        token_seed,
        content_seed,
        band_seed,
        content_step=words(b"content", "<Q")[0] | 1,
        sketch_mask=words(b"sketch", "<Q")[0],
        shingle_powers=[pow(base, width - 1 - i, 1 << 64) for i in range(width)],
        round_masks=words(b"rounds", f"<{2 * hashes}Q"),
    )


# ---- 2. canonical form and tokens ---------------------------------------------------------------


def ranges(text: str) -> list[tuple[int, int]]:
    """Return ranges of code points, each with its first and last, from hexadecimal digits."""
    bounds = ([int(end, 16) for end in each.split("-")] for each in text.split())
    return [(each[0], each[-1]) for each in bounds]


IGNORABLE = ranges(
    "AD 34F 61C 115F-1160 17B4-17B5 180B-180F 200B-200F 202A-202E 2060-206F 3164 FE00-FE0F FEFF "
    "FFA0 FFF0-FFF8 1BCA0-1BCA3 1D173-1D17A E0000-E0FFF "
    "591-5BD 5BF 5C1-5C2 5C4-5C5 5C7 640 64B-652 670"
)
UNSPACED = ranges(
    "E01-E4E E81-ECF EDC-EDF 1000-103F 1050-108F 109A-109F 1780-17D3 17D7-17DD 1950-1974 1980-19C9 "
    "1A20-1A7F 2E80-2FDF 3005-3007 3021-3029 3038-303B 3041-3096 309D-309F 30A1-30FA 30FC-30FF "
    "31F0-31FF 3400-4DBF 4E00-9FFF A9E0-A9EF A9FA-A9FE AA60-AA7F AA80-AADF F900-FAFF 1AFF0-1B16F "
    "20000-3FFFD"
)
ASSIGNED = json.loads(next(Path(__file__).parents[2].glob("*/text/unicode14.json")).read_text())
IOTA_BELOW, IOTA = "\u0345", "\u03b9"
MARKS_MAX = 30
SAME = dict(zip("\u06cc\u06a9\u02bb\u02bc", "\u064a\u0643\u2018\u2019", strict=True))
SAME |= {chr(0x6F0 + digit): chr(0x660 + digit) for digit in range(10)}


def is_in(character: str, among: list[tuple[int, int]]) -> bool:
    """Tell whether a character is in one of the ranges."""
    return any(first <= ord(character) <= last for first, last in among)


@lru_cache(1 << 16)
def folded(character: str) -> tuple[tuple[str, str], ...]:
    """Return what a character becomes, with classes: mark, word, unspaced, sign, separator."""
    if is_in(character, IGNORABLE):
        return ()
    if category(character) == "Cn":
        return ((character, "sign"),)
    before, text = "", unicodedata.normalize("NFKD", character)
    while before != text:
        before = text
        parts = [part.casefold() for part in text.split(IOTA_BELOW)]
        text = unicodedata.normalize("NFKD", IOTA_BELOW.join(parts))
    text = "".join(SAME.get(c, c) for c in text if not is_in(c, IGNORABLE))
    return tuple((c, class_of(c)) for c in text)


def category(character: str) -> str:
    """Return the general category of a character in Unicode 14.0."""
    return unicodedata.category(character) if bisect(ASSIGNED, ord(character)) % 2 else "Cn"


def class_of(character: str) -> str:
    """Return the class of a character that is folded."""
    kind = category(character)
    if kind[0] == "M":
        return "mark"
    if kind[0] in "LN" or character == "_":
        return "unspaced" if is_in(character, UNSPACED) else "word"
    is_invisible = kind[0] == "Z" or kind in {"Cc", "Cf", "Cs"} or character == "\ufffd"
    return "separator" if is_invisible else "sign"


def tokens(text: str) -> list[str]:
    """Return the tokens of a text, and its signs where these prevail."""
    words, signs_too = cut(text, {"sign": "separator"}), cut(text, {"sign": "unspaced"})
    return signs_too if len(words) < 50 and len(signs_too) > 2 * len(words) else words


def cut(text: str, read_as: dict[str, str]) -> list[str]:
    """Return the tokens of a text, with characters of one class read as of another."""
    found = [""]
    alone = False  # the last token is a character of a script without spaces
    for character, own in (piece for each in text for piece in folded(each)):
        kind = read_as.get(own, own)
        if kind == "mark":
            found[-1] += character if found[-1] else ""
            continue
        if found[-1] and (kind != "word" or alone):
            found.append("")
        if kind != "separator":
            found[-1] += character
            alone = kind == "unspaced"
    return [ordered(token) for token in found if token]


def ordered(token: str) -> str:
    """Return a token with its combining characters in canonical order, 30 at a time."""
    starters = [i for i, c in enumerate(token) if not unicodedata.combining(c)]
    result = ""
    for start, end in pairwise([*starters, len(token)]):
        result += token[start]
        for first in range(start + 1, end, MARKS_MAX):
            run = token[first : min(first + MARKS_MAX, end)]
            result += "".join(sorted(run, key=unicodedata.combining))
    return result.replace(IOTA_BELOW, IOTA)


# ---- 3. hashes ----------------------------------------------------------------------------------


def murmur(data: bytes, seed: int) -> int:
    """Return the first half of MurmurHash3 x64 128."""
    return mmh3.hash64(data, seed, signed=False)[0]


def fmix(word: int) -> int:
    """Return MurmurHash3's 64-bit finaliser."""
    word ^= word >> 33
    word = word * 0xFF51AFD7ED558CCD & M64
    word ^= word >> 33
    word = word * 0xC4CEB9FE1A85EC53 & M64
    return word ^ word >> 33


def content_hash(token_hashes: list[int], seeds: Seeds) -> int:
    """Return the content key: the hash of a text's tokens in order."""
    parts = (fmix(t + i * seeds.content_step & M64) for i, t in enumerate(token_hashes))
    return fmix(seeds.content_seed + sum(parts) & M64)


def shingle_set(token_hashes: list[int], seeds: Seeds) -> set[int]:
    """Return the hashes of the shingles."""
    powers = seeds.shingle_powers
    windows = zip(*(token_hashes[i:] for i in range(len(powers))), strict=False)
    return {fmix(sum(t * p for t, p in zip(w, powers, strict=True)) & M64) for w in windows}


def sketch_hashes(shingles: set[int], seeds: Seeds) -> list[int]:
    """Return the sketch hashes, ascending."""
    return sorted({fmix(s ^ seeds.sketch_mask) for s in shingles})


# ---- 4. min-hashes and band keys ----------------------------------------------------------------

EMPTY = M32  # a min-hash without a value
COARSEST, FINEST = 10, 22  # levels of a sketch: the logarithm of the number of its bins
FEW_BINS, FEW_HASHES = 298, 596


def min_hashes(shingles: set[int], seeds: Seeds, count: int) -> list[int]:
    """Return the min-hashes of a shingle set: `count` bins, filled round by round."""
    minima = [EMPTY] * count
    for word in shingles:
        place = (word >> 32) * count >> 32
        minima[place] = min(minima[place], word & M32)
    further = of_further_rounds(sketch_hashes(shingles, seeds))
    for number, mask in enumerate(seeds.round_masks):
        waiting = {place for place, value in enumerate(minima) if value == EMPTY}
        for word in (fmix(h ^ mask) for h in further if waiting):
            place = (word >> 32) * count >> 32 if number < count else number - count
            if place in waiting:
                minima[place] = min(minima[place], word & M32)
    return minima


def of_further_rounds(hashes: list[int]) -> list[int]:
    """Return of sorted sketch hashes all if they are few, else the least one of each bin."""
    least = {h >> 64 - COARSEST: h for h in reversed(hashes)}
    few = len(least) <= FEW_BINS and len(hashes) <= FEW_HASHES
    return hashes if few else [*least.values()]


def band_keys(shingles: set[int], seeds: Seeds, bands: int, rows: int) -> list[int]:
    """Return the band keys of a shingle set."""
    minima = min_hashes(shingles, seeds, bands * rows)
    packed = [struct.pack(f"<{rows}I", *minima[b * rows : (b + 1) * rows]) for b in range(bands)]
    return [murmur(data, seeds.band_seed + b & M32) for b, data in enumerate(packed)]


# ---- 5. the sketch ------------------------------------------------------------------------------

LISTED_BITS = 1792  # of the payload, for the list of filled bins
PAYLOAD_WORDS = 32
ONE = 10_000  # similarities are whole ten-thousandths


def write_filled_bins(hashes: list[int], level: int) -> dict[int, int]:
    """Return the symbols of the filled ones of 2**level bins: of the least hash in each."""
    bins: dict[int, int] = {}
    for value in hashes:
        bins.setdefault(value >> 64 - level, 1 + ((value & M32) * 3 >> 32))
    return bins


def level_for(hashes: list[int]) -> int:
    """Return the finest level whose list of filled bins fits, COARSEST if none does."""
    finer = range(FINEST, COARSEST, -1) if len(hashes) <= FEW_HASHES else ()
    fits = (at for at in finer if len(write_filled_bins(hashes, at)) * (at - 5) <= LISTED_BITS)
    return next(fits, COARSEST)


def pack(hashes: list[int]) -> list[int]:
    """Return the sketch of sorted hashes as 64-bit words."""
    level = level_for(hashes)
    bins = write_filled_bins(hashes, level)
    if level == COARSEST:
        payload = sum(symbol << 2 * place for place, symbol in bins.items())
    else:
        low = level - 8
        high = "".join("1" * sum(b >> low == h for b in bins) + "0" for h in range(256))
        rest = "".join(
            f"{(b & (1 << low) - 1) << 2 | s:0{low + 2}b}"[::-1] for b, s in bins.items()
        )
        payload = int((high + rest)[::-1], 2)
    words = [payload >> 64 * i & M64 for i in range(PAYLOAD_WORDS)]
    return [level | len(bins) << 8, *words]


def estimated_resemblance(a: list[int], b: list[int]) -> int:
    """Return the resemblance of two lists of sketch hashes in ten-thousandths, rounded down."""
    level = min(level_for(a), level_for(b))
    bins_a, bins_b = write_filled_bins(a, level), write_filled_bins(b, level)
    either, both = len(bins_a.keys() | bins_b.keys()), bins_a.keys() & bins_b.keys()
    equal = sum(1 for place in both if bins_a[place] == bins_b[place])
    return max(ONE * (3 * equal - len(both)) // (2 * either), 0) if either else ONE


# ---- all of it ----------------------------------------------------------------------------------


class PlainSignature(NamedTuple):
    """What is kept of a page: band keys and content key, the sketch, two counts."""

    keys: list[int]
    sketch: list[int]
    shingles: int
    tokens: int


def sign(text: str, seeds: Seeds, bands: int, rows: int) -> PlainSignature:
    """Return the signature of visible text."""
    hashes = [murmur(token.encode(), seeds.token_seed) for token in tokens(text)]
    shingles = shingle_set(hashes, seeds)
    return PlainSignature(
        [*band_keys(shingles, seeds, bands, rows), content_hash(hashes, seeds)],
        pack(sketch_hashes(shingles, seeds)),
        len(shingles),
        len(hashes),
    )
