"""A batch of bodies to signatures in one native call, without the interpreter between the steps.

For each page: undo JSON escapes, take the visible text, hash tokens, then shingles, and let these
lower the min-hashes and the sketch's bins. A page goes through in blocks of tokens, so scratch
memory depends on the longest body of a batch and on nothing else.
"""

import itertools
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from streamer.kernel import kernel
from streamer.machine import int64, uint64
from streamer.sketch import hash_sets, minhash, resemblance
from streamer.sketch.hash_sets import Collected
from streamer.sketch.resemblance import BINS, EMPTY_BIN, SKETCH_WORDS, Words
from streamer.sketch.settings import SignatureSettings, derive_seeds
from streamer.sketch.word_bag import BAG_SLOTS, NO_ROOM, Bag, empty_bag, new_bag, number_words
from streamer.text.main_text import MainText, new_main_text
from streamer.text.scan import Bytes
from streamer.text.short_tokens import Segment, TokenTables, token_tables
from streamer.text.site_pages import Bodies, SitePages, choose_texts, read_pages
from streamer.text.slices import Places, Slices
from streamer.text.tokens import FEW_WORDS, SPARE, TokenScratch, hash_tokens, token_scratch
from streamer.text.visible import ESCAPED, HTML, Buffer, scratch_bytes, visible_span

TOKENS_BLOCK = 4096
DISTINCT_MAX = 32  # enough for any sensible least number of shingles to compare


class Signatures(NamedTuple):
    """The signatures of n pages, in the order of the columns of `Pages`.

    Attributes:
        keys: uint64[n, bands + 1], the band keys, then the content key.
        sketches: uint64[n, 33], see resemblance.py.
        distinct: uint8[n], distinct shingles, counted no further than DISTINCT_MAX.
        tokens: uint32[n], tokens of the visible text.
        text_bytes: int64[n], text in UTF-8 bytes.
        main: bool[n], whether that is the main text; None where none is asked for.
        shingles: their sets as bytes, see hash_sets.py; None where none are asked for.
    """

    keys: Words
    sketches: Words
    distinct: Bytes
    tokens: npt.NDArray[np.uint32]
    text_bytes: npt.NDArray[np.int64]
    main: npt.NDArray[np.bool_] | None = None
    shingles: list[bytes] | None = None


@kernel
def _shift_tail(tokens: Words, count: int, width: int) -> int:
    """Move the last width - 1 tokens to the front: the next block's shingles begin with them."""
    kept = min(count, width - 1)
    for i in range(kept):
        tokens[i] = tokens[count - kept + i]
    return kept


class SignerParameters(NamedTuple):
    """What a signature depends on, in addition to the text.

    Attributes:
        seeds: uint64[5], of tokens, content and band keys, the sketch's mask, the content's step.
        powers, masks: of shingles and of the rounds of min-hashes, as settings.py has them.
        tables, signs: of the token kernel; `signs` for a text in which signs prevail.
    """

    seeds: Words
    powers: Words
    masks: Words
    tables: TokenTables
    signs: TokenTables


class SigningScratch(NamedTuple):
    """Memory that a page is signed in; made once a signer by `_new_scratch`.

    A bag with slots says that bags of words are signed, and no shingles.
    """

    tokens: Words
    shingles: Words
    minima: npt.NDArray[np.uint32]
    bins: Words
    slots: Words
    in_tokens: TokenScratch
    collected: Collected
    bag: Bag


def _new_scratch(hashes: int, collected: int, bag: int) -> SigningScratch:
    """Return memory for so many min-hashes, hashes of a set, and slots of a bag of words."""
    block = TOKENS_BLOCK + SPARE
    tokens, shingles = np.empty((2, block), np.uint64)
    bins, slots = np.empty(BINS, np.uint64), np.empty(minhash.SLOTS, np.uint64)
    minima, in_tokens = np.empty(hashes, np.uint32), token_scratch(ends=block if bag else 0)
    found = Collected(np.empty(collected, np.uint32), np.zeros(1, np.int64))
    return SigningScratch(tokens, shingles, minima, bins, slots, in_tokens, found, new_bag(bag))


@kernel
def _hash_elements(count: int, powers: Words, scratch: SigningScratch) -> int:
    """Turn so many tokens of the scratch into the hashes of what a page is compared by.

    These are its shingles, or its numbered words. Returns their number, or NO_ROOM in the bag.
    """
    tokens, bag = scratch.tokens, scratch.bag
    if bag.counts.shape[0] == 0:
        return minhash.hash_shingles(tokens, count, powers, scratch.shingles)
    return number_words(tokens, scratch.in_tokens.ends, count, bag, scratch.shingles)


@kernel
def _read_text(
    source: Segment, parameters: SignerParameters, tables: TokenTables, scratch: SigningScratch
) -> tuple[int, int, int, bool]:
    """Take what a page is compared by into the scratch, which is empty.

    Returns the sum of its content, its tokens, or NO_ROOM in their place, the distinct shingles in
    `scratch.slots`, and whether these are all.
    """
    text, place, end = source
    seeds, powers = parameters.seeds, parameters.powers
    tokens, shingles, minima, bins, slots, in_tokens, collected, bag = scratch
    is_bag = bag.counts.shape[0] > 0
    content = uint64(0)
    total = kept = members = 0
    more = few = True
    while more:
        place, count = hash_tokens(text, place, end, seeds[0], tables, in_tokens, tokens, kept)
        more = place < end
        content += minhash.sum_content(tokens, kept, count, total, seeds[4])
        total += count - kept
        found = _hash_elements(count, powers, scratch)
        if found == NO_ROOM:
            return uint64(0), NO_ROOM, 0, False
        minhash.lower_minima(shingles, found, minima)
        resemblance.hash_for_sketch(shingles, found, seeds[3])
        resemblance.lower_bins(shingles, found, bins)
        if collected.hashes.shape[0]:
            hash_sets.collect(tokens if is_bag else shingles, found, collected)
        few = few and minhash.may_be_few(bins)
        if few:
            if members == 0:  # only now: most pages need no set, and clearing it takes long
                slots[:] = uint64(EMPTY_BIN)
            members = minhash.add_distinct(shingles, found, slots, members)
            few = members <= minhash.FEW_MAX
        kept = _shift_tail(tokens, count, powers.shape[0])
    return content, total, members, few


@kernel
def _signs_prevail(
    source: Segment, parameters: SignerParameters, scratch: SigningScratch, words: int
) -> bool:
    """Return whether a text with so many words is read with its signs."""
    text, place, end = source
    found, seed, signs = 0, parameters.seeds[0], parameters.signs
    in_tokens, tokens = scratch.in_tokens, scratch.tokens
    while words < FEW_WORDS and found <= 2 * words and place < end:
        place, count = hash_tokens(text, place, end, seed, signs, in_tokens, tokens, 0)
        found += count
    in_tokens.half_read[0] = 0  # this stops where it knows
    return words < FEW_WORDS and found > 2 * words


@kernel
def _empty(scratch: SigningScratch) -> None:
    """Forget the text before."""
    empty_bag(scratch.bag)
    scratch.minima[:] = np.uint32(minhash.EMPTY_MINIMUM)
    scratch.bins[:] = uint64(EMPTY_BIN)
    scratch.collected.held[0] = 0


@kernel
def _sign_text(
    source: Segment, parameters: SignerParameters, scratch: SigningScratch, sketch: Words
) -> tuple[int, int, int]:
    """Set the scratch's minima and write the sketch; return (content hash, tokens, distinct).

    `distinct` counts shingles up to DISTINCT_MAX, or words; it is NO_ROOM if the bag is too small.
    """
    minima, bins, slots, shingles, bag = (
        scratch.minima, scratch.bins, scratch.slots, scratch.shingles, scratch.bag,
    )  # fmt: skip
    _empty(scratch)
    content, total, members, few = _read_text(source, parameters, parameters.tables, scratch)
    if total != NO_ROOM and _signs_prevail(source, parameters, scratch, total):
        _empty(scratch)
        content, total, members, few = _read_text(source, parameters, parameters.signs, scratch)
    if total == NO_ROOM:
        return uint64(0), 0, NO_ROOM
    if few:
        members = minhash.write_sorted_members(slots, shingles)
        minhash.fill_empty(shingles, members, parameters.masks, minima)
    elif minhash.has_empty(minima):
        listed = minhash.write_filled_bins(bins, shingles)
        minhash.fill_empty(shingles, listed, parameters.masks, minima)
    if not few or not resemblance.pack_listed(shingles, members, sketch):
        resemblance.pack_dense(bins, sketch)
    if bag.counts.shape[0] > 0:
        members, few = bag.held[0], True
    distinct = min(members, DISTINCT_MAX) if few else DISTINCT_MAX
    return minhash.content_hash(content, parameters.seeds[1]), total, distinct


@kernel
def _pack_collected(collected: Collected, out: Bytes, at: int) -> int:
    """Write the set of a page that is signed to out[at:]; return where it ends."""
    count = collected.held[0]
    if count > 0:
        count = hash_sets.sort_distinct(collected.hashes, count)
    fits = 0 < count <= hash_sets.SET_MAX
    return hash_sets.pack_into(collected.hashes, count, out, at) if fits else at


@kernel
def _sign_batch(
    bodies: tuple[Bytes, Places, Places, Bytes],
    visible: tuple[tuple[Bytes, Bytes], MainText | None],
    parameters: SignerParameters,
    rows: int,
    scratch: SigningScratch,
    signed: Signatures,
    more: tuple[npt.NDArray[np.bool_], Bytes, npt.NDArray[np.int64]],
    span: tuple[int, int],
) -> int:
    """Sign `bodies` into `signed` and `more`; `visible` is for texts.

    Bodies are data, starts, ends and flags. Signs those from span[0] to span[1] and returns where
    it stops: earlier only if a page has more distinct words than the bag has room for. The main
    text is signed where `visible` has what finds it. `more` is which texts are that, the sets of
    shingles as bytes, and where each ends; no ends where no sets are asked for.
    """
    first, last = span
    texts, main_text = visible
    data, starts, ends, flags = bodies
    main, sets, set_ends = more
    keys, sketches, distinct, token_counts, text_bytes, _, _ = signed
    at = set_ends[first - 1] if first > 0 and set_ends.shape[0] else int64(0)
    bands = keys.shape[1] - 1
    for i in range(first, last):
        body = Segment(data, starts[i], ends[i])
        text, main[i] = visible_span(body, int64(flags[i]), texts, main_text)
        content, token_counts[i], found = _sign_text(text, parameters, scratch, sketches[i])
        if found == NO_ROOM:
            return i
        distinct[i] = found
        minhash.fill_band_keys(scratch.minima, rows, parameters.seeds[2], keys[i, :bands])
        keys[i, bands] = content
        text_bytes[i] = text.end - text.place
        if set_ends.shape[0]:
            at = _pack_collected(scratch.collected, sets, at)
            set_ends[i] = at
    return last


class PageSigner(Protocol):
    """What signs pages, by whichever method; one instance a thread."""

    def sign(self, bodies: Sequence[Buffer], flags: Sequence[int]) -> Signatures:
        """Sign `bodies` (UTF-8 as `flags` say: text/visible.py); any bytes have a signature."""


class NativeSigner:
    """Sign pages under one secret and one set of settings; one instance a thread.

    It signs shingles, or bags of words where `of_bags` says so (settings of one word a shingle).
    """

    def __init__(
        self, settings: SignatureSettings, secret: bytes, *, of_bags: bool = False
    ) -> None:
        self.settings = settings
        own = derive_seeds(secret, settings.shingle_width, settings.hashes)
        seeds = (
            own.token_seed, own.content_seed, own.band_seed, own.sketch_mask, own.content_step,
        )  # fmt: skip
        self._parameters = SignerParameters(
            np.array(seeds, np.uint64), own.shingle_powers, own.round_masks,
            token_tables(), token_tables(signs=True),
        )  # fmt: skip
        collected = 2 * hash_sets.SET_MAX if settings.exact else 0
        self._scratch = _new_scratch(settings.hashes, collected, BAG_SLOTS if of_bags else 0)
        self._visible = (np.empty(1 << 16, np.uint8), np.empty(1 << 16, np.uint8))
        self._main = new_main_text(settings.model) if settings.takes_main_text else None

    def read(
        self, bodies: Sequence[Buffer], flags: Sequence[int], hosts: Words, urls: Words
    ) -> SitePages:
        """Read bodies of which blocks are asked what their sites repeat; hosts, URLs are hashes."""
        assert self._main is not None, "blocks are for main text"
        texts, marks = Slices.joined(bodies), np.array(flags, np.uint8)
        self._grow(scratch_bytes(int(texts.lengths.max(initial=0))))
        kinds = (marks & ESCAPED) != 0, (marks & HTML) != 0
        own = Bodies(texts.data, texts.starts, texts.ends, *kinds)
        return read_pages(own, hosts, urls, self._visible[0], self._main)

    def sign_read(self, pages: SitePages, repeats: Bytes) -> Signatures:
        """Sign bodies that `read` has read, with the repeats of their blocks."""
        assert self._main is not None, "blocks are for main text"
        texts, is_main = choose_texts(pages, repeats, self._visible, self._main)
        signed = self._sign(texts, np.zeros(len(texts), np.uint8), None)
        return signed._replace(main=is_main)

    def sign(self, bodies: Sequence[Buffer], flags: Sequence[int]) -> Signatures:
        """Sign `bodies` (UTF-8 as `flags` say: text/visible.py); any bytes have a signature."""
        texts = Slices.joined(bodies)
        self._grow(scratch_bytes(int(texts.lengths.max(initial=0))))
        return self._sign(texts, np.array(flags, np.uint8), self._main)

    def _sign(self, texts: Slices, flags: Bytes, main_text: MainText | None) -> Signatures:
        pages = len(texts)
        keys = np.empty((pages, self.settings.bands + 1), np.uint64)
        sketches = np.empty((pages, SKETCH_WORDS), np.uint64)
        distinct, tokens = np.empty(pages, np.uint8), np.empty(pages, np.uint32)
        result = Signatures(keys, sketches, distinct, tokens, np.empty(pages, np.int64))
        main, exact = np.empty(pages, np.bool_), self.settings.exact
        sets = np.empty(_set_bytes(texts) if exact else 0, np.uint8)
        set_ends = np.empty(pages if exact else 0, np.int64)
        arrays = texts.data, texts.starts, texts.ends, flags
        done, slots = 0, 0
        while done < pages:
            scratch = self._scratch._replace(bag=new_bag(slots)) if slots else self._scratch
            last = done + 1 if slots else pages
            stopped = _sign_batch(
                arrays, (self._visible, main_text), self._parameters, self.settings.rows,
                scratch, result, (main, sets, set_ends), (done, last),
            )  # fmt: skip
            # A page that stops it goes by itself into bags that are each twice as large.
            slots = 0 if stopped == last else 2 * len(scratch.bag.counts)
            done = stopped
        if main_text is not None:
            result = result._replace(main=main)
        return result._replace(shingles=_cut(sets, set_ends)) if exact else result

    def _grow(self, size: int) -> None:
        """Fit the scratch to the longest body, and release what only a giant needed."""
        if not size <= len(self._visible[0]) <= max(4 * size, 1 << 22):
            size = max(size, 1 << 16)
            self._visible = (np.empty(size, np.uint8), np.empty(size, np.uint8))


def _set_bytes(texts: Slices) -> int:
    """Return room for the sets of texts: a byte gives two tokens at most, in canonical form."""
    return int(np.minimum(10 * texts.lengths + 16, hash_sets.SET_BYTES_MAX).sum()) + 16


def _cut(sets: Bytes, ends: npt.NDArray[np.int64]) -> list[bytes]:
    """Return sets that are stored one after another."""
    data = sets[: ends[-1] if len(ends) else 0].tobytes()
    return [data[start:end] for start, end in itertools.pairwise([0, *ends.tolist()])]
