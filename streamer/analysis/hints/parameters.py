"""Parameters that do not change a page.

Pages whose URLs differ in one parameter only are a group; whether their content is the same is the
evidence. Parameters that always change together are tried together (a session and a time stamp, the
names of a campaign), once those that change alone are known. What the rest of a host contradicts
is tried again in each directory: `brand` may be decoration of a product and the subject of a list.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from streamer.analysis.hints.addresses import Address, is_plain
from streamer.analysis.hints.hint import Evidence, HintLimits

NAMES_MAX = 32  # of a host: those that most URLs have
JOINT_SETS_MAX = 8
ROUNDS_MAX = 8  # of trying what is left; one finds most
WHOLE_HOST = "/"

Names = frozenset[str]
ByDirectory = dict[str, Evidence]


class UrlPage(NamedTuple):
    """A URL, and the content of its page."""

    url: str
    address: Address
    directory: str
    content: int


class FoundParameter(NamedTuple):
    """A parameter that does not change pages whose path begins with `under`."""

    name: str
    under: str
    evidence: Evidence


def learn_parameters(pages: Sequence[UrlPage], limits: HintLimits) -> list[FoundParameter]:
    """Return the parameters that do not change a page: for the whole host, else by directory."""
    counts = Counter(name for page in pages for name in {name for name, _ in page.address.items})
    common = [name for name, number in counts.items() if number > 1 and is_plain(name)]
    names = sorted(common, key=lambda name: (-counts[name], name))[:NAMES_MAX]
    if not names:
        return []
    found = _ignorable(pages, names, frozenset(), limits)
    everywhere = frozenset(found)
    result = [FoundParameter(name, WHOLE_HOST, _pool(found[name])) for name in sorted(found)]
    others = [name for name in names if name not in everywhere]
    wanted = set(others)
    by_directory: dict[str, list[UrlPage]] = defaultdict(list)
    for page in pages:
        if page.directory != WHOLE_HOST:  # the root's hint would read as one for the host
            by_directory[page.directory].append(page)
    for under in sorted(by_directory) if others else ():
        part = by_directory[under]
        have_any = (any(name in wanted for name, _ in page.address.items) for page in part)
        if sum(have_any) > limits.support_min:
            here = _ignorable(part, others, everywhere, limits)
            result += [FoundParameter(name, under, _pool(here[name])) for name in sorted(here)]
    return result


def _ignorable(
    pages: Sequence[UrlPage], names: Sequence[str], known: Names, limits: HintLimits
) -> dict[str, ByDirectory]:
    """Return those of `names` that do not change the pages, beyond those that are known."""
    ignored: Names = frozenset()
    tried: set[Names] = set()
    for _ in range(ROUNDS_MAX):
        rest = [name for name in names if name not in ignored]
        sets: Iterable[Names] = [frozenset([name]) for name in rest]
        new = _select_holding(pages, sets, ignored | known, limits)
        if not new:
            sets = [each for each in _joint(pages, set(rest), limits) if each not in tried]
            tried.update(sets)
            new = _select_holding(pages, sets, ignored | known, limits)[:1]
        if not new:
            break
        ignored = ignored.union(*new)
    return _confirm(pages, ignored, known, limits)


def _select_holding(
    pages: Sequence[UrlPage], sets: Iterable[Names], ignored: Names, limits: HintLimits
) -> list[Names]:
    return [each for each in sets if _holds(evidence_of(pages, each, ignored), limits)]


def _confirm(
    pages: Sequence[UrlPage], ignored: Names, known: Names, limits: HintLimits
) -> dict[str, ByDirectory]:
    """Return the evidence for each name, without the names for which there is too little."""
    while True:
        found = {
            name: evidence_of(pages, frozenset([name]), (ignored | known) - {name})
            for name in sorted(ignored)
        }
        kept = frozenset(name for name, evidence in found.items() if _holds(evidence, limits))
        if kept == ignored:
            return found
        ignored = kept


def _holds(evidence: ByDirectory, limits: HintLimits) -> bool:
    if any(each.contradicts(limits) for each in evidence.values()):
        return False
    return _pool(evidence).holds(limits)


def _pool(evidence: ByDirectory) -> Evidence:
    whole = Evidence()
    for own in evidence.values():
        whole.same |= own.same
        whole.differing += own.differing
        whole.extra += own.extra
        whole.without |= own.without
    return whole


def evidence_of(pages: Sequence[UrlPage], names: Names, ignored: Names) -> ByDirectory:
    """Return, by directory, whether pages are the same whose URLs differ in `names` only.

    Parameters that are `ignored` may differ, too.
    """
    groups: dict[object, list[UrlPage]] = {}
    without: list[UrlPage] = []
    left_out = names | ignored
    for page in pages:
        for name, _ in page.address.items:
            if name in names:
                groups.setdefault(_key(page, left_out), []).append(page)
                break
        else:
            without.append(page)
    for page in without:
        if group := groups.get(_key(page, left_out)):
            group.append(page)
    found: ByDirectory = defaultdict(Evidence)
    for group in groups.values():
        if len(group) > 1:  # most are alone
            own = [[each for each in page.address.items if each[0] in names] for page in group]
            if any(varying != own[0] for varying in own):
                contents = {page.content for page in group}
                found[group[0].directory].count(contents, without=not all(own))
    return found


def _key(page: UrlPage, left_out: Names) -> object:
    _, port, segments, items = page.address
    if items:
        items = tuple([each for each in items if each[0] not in left_out])
    return port, segments, items


def _joint(pages: Sequence[UrlPage], names: set[str], limits: HintLimits) -> list[Names]:
    """Return the sets of names in which pages of one path and content differ most often."""
    groups: dict[object, tuple[set[tuple[str, str]], set[tuple[str, str]]]] = {}
    for page in pages:
        key = page.address.port, page.address.segments, page.content
        items = set(page.address.items)
        if key in groups:
            some, every = groups[key]
            some |= items
            every &= items
        else:
            groups[key] = items, items.copy()
    counts = Counter(
        frozenset(name for name, _ in some - every if name in names)
        for some, every in groups.values()
    )
    often = [
        (-number, sorted(each))
        for each, number in counts.items()
        if len(each) > 1 and number >= limits.support_min
    ]
    return [frozenset(each) for _, each in sorted(often)[:JOINT_SETS_MAX]]
