"""The pages of one or several files in their exact form, and which of them a verdict means.

A verdict names its page by file and ordinal; where the files went through Kafka that place is a
topic's, and the page is then found by its URL, if only one page has it. All pages are held in
memory as shingle sets: 4 kB of text take about 6 kB.

What a page's text, tokens and shingles are is said here by definition: a plain reference. It uses
the standard library's HTML parser and a regular expression, and nothing of the detector, so that an
error in the detector cannot hide itself. It is the yardstick, not the product: the detector folds
characters more than this, and their difference counts as the detector's error. Only records are
read by the detector's own reader: with its field mapping, and its charset for bodies in base64.

The score of a verdict stream is page-level precision and recall against exact resemblance.
evaluation.py says what is right. A representative that was not kept before is counted apart, as is
what is within `margin` of the threshold: there the measured text and the detector's canonical form
may differ by a token.
"""

import base64
import heapq
import itertools
import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from html.parser import HTMLParser
from pathlib import Path
from types import MappingProxyType

import msgspec
import numpy as np
import numpy.typing as npt

from streamer.analysis.evaluation import ConfusionCounts, PageVerdict, evaluate
from streamer.errors import InputError
from streamer.model import Decision, Location, Page
from streamer.pages.files import Source
from streamer.run.reading import DEFAULT_READER, PageReader
from streamer.run.verdict_files import read_places
from streamer.run.verdict_lines import VerdictLine
from streamer.text.visible import ESCAPED, HTML, Buffer, visible_array

SHINGLE_WIDTH = 5
MIN_SHINGLES = 5  # pages with fewer are compared by equal token sequences only
HIDDEN = frozenset({"script", "style", "template", "noscript", "svg"})
_BLOCKS = """
address article aside blockquote body br button canvas caption center col colgroup dd details dialog
dir div dl dt fieldset figcaption figure footer form frameset h1 h2 h3 h4 h5 h6 head header hr html
iframe legend li link main menu meta nav noframes ol optgroup option p pre section select summary
table tbody td textarea tfoot th thead title tr ul video
"""
BLOCKS = frozenset(_BLOCKS.split())
# Han, Hiragana and Katakana, whole and half width, with the iteration marks.
_UNSPACED = "\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f\U0001b000-\U0001b16f\U00020000-\U0003ffff"  # noqa: E501 - one range expression
_TOKEN = re.compile(rf"(?=\w)[{_UNSPACED}]|(?:(?![{_UNSPACED}])\w)+")
# An odd multiplier with mixed bits (the golden ratio's), so that all its powers differ widely.
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)

Shingles = npt.NDArray[np.uint64]


class _VisibleText(HTMLParser):
    """Collect text outside of hidden elements, with a space at each tag of a block element."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self._hidden = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002 - the parser's interface
        self._hidden += tag in HIDDEN
        if tag in BLOCKS:
            self.parts.append(" ")

    def handle_endtag(self, tag: str) -> None:
        if tag in HIDDEN and self._hidden:
            self._hidden -= 1
        if tag in BLOCKS:
            self.parts.append(" ")

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self.parts.append(data)


def visible_text(html: str) -> str:
    """Return the text of `html` that a reader sees, the title included."""
    parser = _VisibleText()
    try:
        parser.feed(html)
        parser.close()
    except AssertionError:  # the parser's way to give up on a malformed `<![` declaration
        parser.parts.append(" ")
    return "".join(parser.parts)


def page_text(page: Page) -> str | None:
    """Return the visible text of a page; None where it is no text or cannot be read as such."""
    kind = (page.content_type or "").lower()
    if kind and not re.match(r"\s*(text/|application/(xhtml\+)?xml)", kind):
        return None
    body = page.body
    if isinstance(page.body_base64, str):
        named = re.search(r"charset\s*=\s*[\"']?([\w.:-]+)", kind)
        try:
            encoded = base64.b64decode(page.body_base64, validate=True)
            body = encoded.decode(page.charset or (named[1] if named else "utf-8"), "replace")
        except (ValueError, LookupError):  # no base64; no such charset
            return None
    assert isinstance(body, str), body  # Page holds one of the two
    is_html = "html" in kind or (not kind and body.lstrip().startswith("<"))
    return visible_text(body) if is_html else body


def read_page(line: bytes) -> Page | None:
    """Return the page in a JSON line, None where it is not one."""
    try:
        return msgspec.json.decode(line, type=Page)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def tokens(text: str) -> list[str]:
    r"""Return `\w+` of the lower-cased text; each Han or Kana character is a token by itself."""
    return _TOKEN.findall(text.lower())


@dataclass(frozen=True, slots=True)
class Exact:
    """What is compared: a digest of the token sequence, and the ascending set of shingles."""

    sequence: bytes
    shingles: Shingles


class TextShingler:
    """Turn texts into comparable shingle sets; sets of two shinglers do not compare.

    Tokens are numbered as they come, and a shingle is a polynomial of five numbers modulo 2^64: two
    different shingles of a corpus are one with a probability near 2^-64 a pair.
    """

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def exact(self, text: str) -> Exact:
        """Return the exact comparison form of a text."""
        words = tokens(text)
        numbers = self._numbers
        row = np.array([numbers.setdefault(word, len(numbers) + 1) for word in words], np.uint64)
        count = max(0, len(row) - SHINGLE_WIDTH + 1)
        hashes = np.zeros(count, np.uint64)
        for place in range(SHINGLE_WIDTH):
            hashes = hashes * _MULTIPLIER + row[place : place + count]
        return Exact(blake2b("\0".join(words).encode(errors="replace")).digest(), np.unique(hashes))


def resemblance(left: Exact, right: Exact, min_shingles: int = MIN_SHINGLES) -> float:
    """Return the Jaccard similarity of two shingle sets; of short pages 1 where they are equal."""
    if left.sequence == right.sequence:
        return 1.0
    sizes = len(left.shingles), len(right.shingles)
    if min(sizes) < max(1, min_shingles):
        return 0.0
    common = len(np.intersect1d(left.shingles, right.shingles, assume_unique=True))
    return common / (sum(sizes) - common)


class ReferencePages:
    """Pages in the order of their files, named by an index from 0.

    Records that are no pages (invalid, without a body, no text) have no index.

    Attributes:
        exact: what is compared, by index.
        urls: by index.
        ordinals: the record in the page's file, from 0, by index.
        text_bytes: by index, how long the detector may find the text: what is visible, and all of
            it; as it came, and with what is not UTF-8 replaced.
    """

    def __init__(self) -> None:
        self.exact: list[Exact] = []
        self.urls: list[str] = []
        self.ordinals: list[int] = []
        self.text_bytes: list[tuple[int, ...]] = []
        self._places: dict[tuple[str, int], int] = {}
        self._by_record: dict[tuple[int, str], int | None] = {}
        self._by_url: dict[str, int | None] = {}

    def __len__(self) -> int:
        return len(self.exact)

    def find(self, place: Location | None, url: str) -> int | None:
        """Return the index of the page at `place` with this URL.

        Where no file is called so, it is the only page with that ordinal and URL, whatever its file
        is called; else the only one with the URL.
        """
        if place is not None and place.partition == 0:
            name = place.topic.rpartition("/")[2]
            for topic in (place.topic, name):
                index = self._places.get((topic, place.offset))
                if index is not None and self.urls[index] == url:
                    return index
            if (index := self._by_record.get((place.offset, url))) is not None:
                return index
        return self._by_url.get(url)

    def __contains__(self, url: str) -> bool:
        """Return whether any page has this URL."""
        return url in self._by_url

    def add(
        self,
        names: Sequence[str],
        ordinal: int,
        url: str,
        exact: Exact,
        text_bytes: tuple[int, ...] = (),
    ) -> None:
        """Append a page that verdicts may place in a file of any of `names`."""
        index = len(self.exact)
        self.exact.append(exact)
        self.urls.append(url)
        self.ordinals.append(ordinal)
        self.text_bytes.append(text_bytes)
        for name in names:
            self._places.setdefault((name, ordinal), index)
        record = ordinal, url
        self._by_record[record] = None if record in self._by_record else index
        self._by_url[url] = None if url in self._by_url else index


def pages_of(sources: Sequence[Source], reader: PageReader = DEFAULT_READER) -> ReferencePages:
    """Read the pages of sources, as the detector reads them; their text is of this module.

    Raises:
        StreamerError: as `PageReader.read`.
    """
    pages, shingler = ReferencePages(), TextShingler()
    for source, _, batch in reader.read(sources):
        names = tuple(dict.fromkeys((source, source.rpartition("/")[2])))
        columns = batch.sequences, map(bytes.decode, batch.urls), batch.bodies, batch.flags
        for ordinal, url, body, flags in zip(*columns, strict=True):
            bodies, kinds = {bytes(body), _utf8(body).encode()}, {flags, flags & ~HTML}
            lengths = tuple(len(visible_array(*each)) for each in itertools.product(bodies, kinds))
            pages.add(names, ordinal, url, shingler.exact(body_text(body, flags)), lengths)
    return pages


def _utf8(body: Buffer) -> str:
    return bytes(body).decode("utf-8", "replace")


def body_text(body: Buffer, flags: int) -> str:
    """Return the visible text of a body: UTF-8 as `flags` say (text/visible.py)."""
    text = _utf8(body)
    if flags & ESCAPED:
        text = json.loads(f'"{text}"', strict=False)
    return visible_text(text) if flags & HTML else text


# ---- the score -----------------------------------------------------------------------------------


THRESHOLD = 0.8
MARGIN = 0.05
CLUSTERS_MAX = 10


class Cluster(msgspec.Struct, frozen=True):
    """A kept page with its duplicates: `size` counts it too, `share` is of all pages judged.

    One with a large share is the sign of a block page or of a template taken for content.
    """

    url: str
    size: int
    share: float


@dataclass(slots=True)
class Score:
    """The score of one verdict file.

    Attributes:
        outcomes: of all pages.
        clear: of the pages whose resemblance is not within `margin` of the threshold.
        kinds: by planted kind, where there is a truth file.
        kept: pages said to be unique.
        labels: of each page its representative; itself where it was kept, or that is unknown.
        missing: pages without a verdict.
        repeats: further verdicts of a page; the first one counts.
        bad_representatives: duplicates of a page that was not kept before.
        clusters: the largest of two or more pages, the largest first, ties by URL.
    """

    threshold: float
    outcomes: ConfusionCounts = field(default_factory=ConfusionCounts)
    clear: ConfusionCounts = field(default_factory=ConfusionCounts)
    kinds: dict[str, ConfusionCounts] = field(default_factory=dict)
    kept: int = 0
    labels: list[int] = field(default_factory=list)
    missing: int = 0
    repeats: int = 0
    bad_representatives: int = 0
    clusters: list[Cluster] = field(default_factory=list)


def score_pages(
    table: ReferencePages,
    verdicts: Path,
    threshold: float = THRESHOLD,
    kinds: Mapping[int, str] = MappingProxyType({}),
    *,
    margin: float = MARGIN,
    min_shingles: int = MIN_SHINGLES,
) -> Score:
    """Score the verdicts of pages, in their order.

    `threshold` in (0, 1]. `kinds` say how pages were made, by their ordinals in the first file.

    Raises:
        InputError: the verdicts cannot be read, or are not of these pages.
    """
    assert 0 < threshold <= 1, threshold
    result = Score(threshold, labels=list(range(len(table))))
    by_page = _verdicts_by_page(table, verdicts, result)
    result.missing = len(table) - len(by_page)
    result.clusters = _largest_clusters(by_page.values())
    kept = KeptSoFar(table.exact, max(threshold - margin, threshold / 2), min_shingles)
    for (page, is_duplicate, of), value, of_kept in evaluate(kept, _describe(table, by_page)):
        result.kept += not is_duplicate
        result.bad_representatives += not of_kept
        result.labels[page] = page if of is None else of
        counted = [result.outcomes]
        if abs(value - threshold) >= margin:
            counted.append(result.clear)
        if kind := kinds.get(table.ordinals[page]):
            counted.append(result.kinds.setdefault(kind, ConfusionCounts()))
        for outcomes in counted:
            outcomes.count(said=is_duplicate, right=(value >= threshold) == is_duplicate)
    return result


def _largest_clusters(verdicts: Collection[VerdictLine]) -> list[Cluster]:
    duplicates = Counter(said.representative for said in verdicts if said.representative)
    clusters = (
        Cluster(kept.url, count + 1, (count + 1) / len(verdicts))
        for kept, count in duplicates.items()
    )
    return heapq.nsmallest(CLUSTERS_MAX, clusters, key=lambda one: (-one.size, one.url))


def _describe(
    table: ReferencePages, by_page: Mapping[int, VerdictLine]
) -> Iterator[PageVerdict[int]]:
    """Yield the verdicts in the order of the pages."""
    for page, said in sorted(by_page.items()):
        other = said.representative
        of = table.find(other.page, other.url) if other else None
        yield PageVerdict(page, said.verdict is Decision.DUPLICATE, of)


def _verdicts_by_page(pages: ReferencePages, path: Path, result: Score) -> dict[int, VerdictLine]:
    """Return the first verdict of each page; count the others in `result`.

    Raises:
        InputError: the pages are not those that were judged.
    """
    found: dict[int, VerdictLine] = {}
    wrong: dict[str, list[VerdictLine]] = {
        "not in these files": [],
        "at places that are none of the several pages with their URLs": [],
        "there with another text": [],
    }
    strangers, ambiguous, changed = wrong.values()
    for _, said in read_places(path):
        page = pages.find(said.page, said.url)
        if page is None:
            (ambiguous if said.url in pages else strangers).append(said)
        elif page in found and found[page].page.topic != said.page.topic:
            ambiguous.append(said)  # of two files, of which one is not here
        elif page in found:
            result.repeats += 1
        else:
            found[page] = said
            known = pages.text_bytes[page] if said.text_bytes and said.text != "main" else ()
            if known and said.text_bytes not in known:
                changed.append(said)
    for what, lines in wrong.items():
        if lines:
            raise InputError(
                f"{path}: the pages of {len(lines):,} verdicts are {what}, first {lines[0].url}. "
                "Name all files that were judged, and give the --fields or --preset of that run."
            )
    return found


Ranks = npt.NDArray[np.int64]


class KeptSoFar:
    """The kept pages so far, and the greatest resemblance of any page to one of them.

    Pages are named by their index in `pages`. `floor` in (0, 1] is the least resemblance asked for.
    """

    def __init__(self, pages: Sequence[Exact], floor: float, min_shingles: int) -> None:
        assert 0 < floor <= 1, floor
        self._pages = pages
        self._floor = floor
        self._min_shingles = max(1, min_shingles)
        self._ranks = _ranks([page.shingles for page in pages])
        self._by_shingle: dict[int, list[int]] = defaultdict(list)
        self._sequences: dict[bytes, list[int]] = defaultdict(list)

    def keep(self, page: int) -> None:
        """Add a page to those kept."""
        self._sequences[self._pages[page].sequence].append(page)
        for shingle in self._prefix(page):
            self._by_shingle[shingle].append(page)

    def best(self, page: int) -> float:
        """Return the greatest resemblance to a kept page where it is >= floor, else 0."""
        if self._pages[page].sequence in self._sequences:
            return 1.0
        return max((value for _, value in self.matches(page)), default=0.0)

    def matches(self, page: int) -> Iterator[tuple[int, float]]:
        """Yield all kept pages with a resemblance >= floor, and that; equal texts first, with 1."""
        equal = self._sequences.get(self._pages[page].sequence, [])
        yield from ((kept, 1.0) for kept in equal)
        prefix = self._prefix(page)
        candidates = {kept for shingle in prefix for kept in self._by_shingle.get(shingle, ())}
        for kept in candidates.difference(equal):
            smaller, larger = sorted(len(self._ranks[each]) for each in (page, kept))
            if smaller < self._floor * larger:  # saves the comparison
                continue
            value = self.resemblance(page, kept)
            if value >= self._floor:
                yield kept, value

    def resemblance(self, page: int, other: int) -> float:
        """Return the resemblance of two pages; of short ones 1 where they are equal, else 0."""
        return resemblance(self._pages[page], self._pages[other], self._min_shingles)

    def _prefix(self, page: int) -> list[int]:
        """Return the page's rarest shingles, one of which any match shares; none if it is short."""
        ranks = self._ranks[page]
        if len(ranks) < self._min_shingles:
            return []
        # A product a hair above a whole number must not round up: one shingle more does no harm.
        least = math.ceil(self._floor * len(ranks) - 1e-9)
        prefix: list[int] = ranks[: len(ranks) - least + 1].tolist()
        return prefix


def _ranks(sets: list[Shingles]) -> list[Ranks]:
    """Number all shingles by rising frequency; return each set as ascending numbers."""
    if not sets:
        return []
    _, inverse, counts = np.unique(np.concatenate(sets), return_inverse=True, return_counts=True)
    rank = np.empty(len(counts), np.int64)
    rank[np.argsort(counts, kind="stable")] = np.arange(len(counts))
    parts = np.split(rank[inverse], np.cumsum([len(one) for one in sets])[:-1])
    return [np.sort(part) for part in parts]
