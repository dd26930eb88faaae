"""What paths say: segments that do not change a page, pages that answer for many URLs, and traps.

Parameters that do not change a page are left out before. A segment is one that may be left out
(`/print/`) where the URL without it is known too, or a place whose value does not matter (a session
or a category), where several values are known with the rest of the path the same.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from streamer.analysis.hints.addresses import ANY, VARIES, Address, directory, family, is_plain
from streamer.analysis.hints.hint import CONTRADICTING, Evidence, HintLimits
from streamer.analysis.hints.parameters import UrlPage

SEGMENTS_MAX = 64  # that are tried, those that most URLs have
DEPTH_MAX = 10  # of a path, for segments
SOFT_404_FAMILIES = 10  # so many unlike paths
TRAP_URLS_MIN = 50


class FoundPaths(NamedTuple):
    """Pages whose paths have a segment that may be left out, or fit a pattern, and the evidence.

    The pattern has a place whose value does not matter, or is the family of a trap. Those that one
    page answers have nothing in common.
    """

    name: str
    evidence: Evidence
    pages: list[UrlPage]


Bases = dict[Address, UrlPage]  # by what is left of its URL, a page; in the order of the crawl


def bases_of(pages: Iterable[UrlPage], ignored: Mapping[str, frozenset[str]]) -> Bases:
    """Return the pages without parameters that do not matter, by directory; the first of each."""
    bases: Bases = {}
    everywhere = ignored.get("/", frozenset())
    for page in pages:
        address = page.address
        if address.items and ignored:
            names = everywhere | ignored.get(page.directory, frozenset())
            items = tuple([each for each in address.items if each[0] not in names])
            address = address._replace(items=items)
        bases.setdefault(address, page)
    return bases


def learn_segments(bases: Bases, limits: HintLimits) -> list[FoundPaths]:
    """Return the segments that may be left out."""
    by_segment: dict[str, list[Address]] = defaultdict(list)
    for address in bases:
        for segment, number in Counter(address.segments[:DEPTH_MAX]).items():
            if number == 1 and is_plain(segment) and not segment.startswith(";"):
                by_segment[segment].append(address)
    often = [each for each in by_segment if len(by_segment[each]) >= limits.support_min]
    found = []
    for segment in sorted(often, key=lambda each: (-len(by_segment[each]), each))[:SEGMENTS_MAX]:
        evidence = Evidence()
        for address in by_segment[segment]:
            other = bases.get(without(address, segment))
            if other is not None:
                evidence.count({bases[address].content, other.content})
        if evidence.holds(limits) and _is_mostly_seen_without(bases, by_segment[segment], segment):
            pages = [bases[address] for address in by_segment[segment]]
            found.append(FoundPaths(segment, evidence, pages))
    return found


def _is_mostly_seen_without(bases: Bases, addresses: Sequence[Address], segment: str) -> bool:
    """Return whether most URLs without the segment were seen: others may not be there.

    So it must be of all, and of each path before the segment with URLs enough to contradict.
    """
    places: dict[str, list[bool]] = defaultdict(list)
    for address in addresses:
        before = address.segments[: address.segments.index(segment)]
        places[directory((*before, ""))].append(without(address, segment) in bases)
    large = [each for each in places.values() if len(each) >= CONTRADICTING]
    every = [found for each in places.values() for found in each]
    return all(2 * sum(each) > len(each) for each in [*large, every])


def without(address: Address, segment: str) -> Address:
    """Return the address with a segment left out where it occurs last."""
    segments = address.segments
    place = len(segments) - 1 - segments[::-1].index(segment)
    return address._replace(segments=(segments[:place] + segments[place + 1 :]) or ("",))


def drop_segments(bases: Bases, names: Sequence[str]) -> Bases:
    """Return the pages without the segments `names`; the first of each."""
    left: Bases = {}
    for address, page in bases.items():
        short = address
        for name in names:
            if short.segments.count(name) == 1:
                short = without(short, name)
        left.setdefault(short, page)
    return left


def learn_varying(bases: Bases, limits: HintLimits) -> list[FoundPaths]:
    """Return the patterns of paths with a place whose value does not matter."""
    evidence: dict[str, Evidence] = defaultdict(Evidence)
    pages: dict[str, list[UrlPage]] = defaultdict(list)
    for place in range(DEPTH_MAX):
        for name, group in _varying_at(bases, place):
            evidence[name].count({page.content for page in group})
            pages[name] += group
    return [
        FoundPaths(name, evidence[name], pages[name])
        for name in sorted(evidence)
        if evidence[name].holds(limits)
    ]


def _varying_at(bases: Bases, place: int) -> Iterator[tuple[str, list[UrlPage]]]:
    """Yield pattern and pages of each group of paths that differ in this place only."""
    groups: dict[Address, list[UrlPage]] = defaultdict(list)
    for address, page in bases.items():
        segments = address.segments
        if place < len(segments) <= DEPTH_MAX and len(segments) > 1 and segments[place]:
            groups[address._replace(segments=_put(segments, place, VARIES))].append(page)
    for masked, group in groups.items():
        if len(group) > 1:
            yield pattern(masked.segments, place), group


def pattern(segments: tuple[str, ...], place: int) -> str:
    """Return the pattern of a path with a place that varies: its first segment, and its length."""
    first = segments[0] if place else ANY
    whole = [first, *[ANY] * (len(segments) - 1)]
    whole[place] = VARIES
    if not segments[-1]:
        whole[-1] = ""
    return "/".join(("", *whole))


def _put(segments: tuple[str, ...], place: int, value: str) -> tuple[str, ...]:
    return (*segments[:place], value, *segments[place + 1 :])


def drop_varying(bases: Bases, names: Iterable[str]) -> Bases:
    """Return the pages without what varies in the patterns `names`; the first of each."""
    known = set(names)
    if not known:
        return bases
    left: Bases = {}
    for address, page in bases.items():
        segments = address.segments
        for place in range(len(segments)) if len(segments) <= DEPTH_MAX else ():
            if segments[place] and pattern(address.segments, place) in known:
                segments = _put(segments, place, VARIES)
        left.setdefault(address._replace(segments=segments), page)
    return left


def learn_soft_404(bases: Bases) -> list[FoundPaths]:
    """Return the pages of contents that answer for many URLs without anything in common.

    The evidence is how many unlike paths that are.
    """
    families: dict[int, set[str]] = defaultdict(set)
    pages: dict[int, list[UrlPage]] = defaultdict(list)
    for address, page in bases.items():
        families[page.content].add(family(address.segments, ()))
        pages[page.content].append(page)
    return [
        FoundPaths("", Evidence(set(range(len(found)))), pages[content])
        for content, found in families.items()
        if len(found) >= SOFT_404_FAMILIES
    ]


def learn_traps(bases: Bases, swallowed: set[int], limits: HintLimits) -> list[FoundPaths]:
    """Return the families of URLs that grow without new content; `swallowed` are soft errors.

    The evidence is of the later half of a family: whether a URL has a content of its own.
    """
    seen = set(swallowed)
    families: dict[str, list[tuple[UrlPage, bool]]] = defaultdict(list)
    for address, page in bases.items():
        name = family(address.segments, address.items)
        families[name].append((page, page.content not in seen))
        seen.add(page.content)
    traps = []
    for name, found in sorted(families.items()):
        newer = found[len(found) // 2 :]
        new = sum(is_new for _, is_new in newer)
        evidence = Evidence(set(range(len(newer) - new)), new)
        own = sum(page.content not in swallowed for page, _ in found)
        if len(found) >= TRAP_URLS_MIN and 2 * own > len(found) and evidence.holds(limits):
            traps.append(FoundPaths(name, evidence, [page for page, _ in found]))
    return traps
