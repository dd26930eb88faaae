"""The hints of one host, from its URLs and the contents of their pages."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import urljoin

import msgspec

from streamer.analysis.hints import paths
from streamer.analysis.hints.addresses import Address, directory, split
from streamer.analysis.hints.hint import (
    CanonicalAgreement,
    Evidence,
    Hint,
    HintKind,
    HintLimits,
    HostHints,
    error_bound,
)
from streamer.analysis.hints.parameters import WHOLE_HOST, FoundParameter, UrlPage, learn_parameters
from streamer.model import Representative

URLS_MAX = 200_000  # of a host: the first ones
# And less of URLs that are long or have many parts: about so many bytes are held of them.
URL_BYTES_MAX = 128 << 20
PART_BYTES = 100  # of a segment or a parameter
EXAMPLES, EXAMPLE_MAX = 2, 2_000  # URLs of a hint, and characters of each

Agrees = Callable[[Address], bool]  # is called with a canonical link


class UrlVerdict(NamedTuple):
    """What is known of a URL: the number of its content and, of a duplicate, the kept page."""

    url: str
    content: int
    kept: Representative | None = None


def learn_host(
    host: str,
    verdicts: Iterable[UrlVerdict],
    limits: HintLimits,
    canonicals: Mapping[str, str] | None = None,
) -> HostHints:
    """Return the hints of a host. Of the verdicts on a URL the last one counts.

    `canonicals` has the canonical links of pages by their URL; None: they were not looked for.
    """
    known: dict[str, UrlVerdict] = {}
    left_out = size = 0
    for verdict in verdicts:
        url = verdict.url
        if url not in known:
            size += len(url) + PART_BYTES * sum(map(url.count, "/&;"))
            if len(known) == URLS_MAX or size > URL_BYTES_MAX:
                left_out += 1
                continue
        known[url] = verdict
    contents = len({verdict.content for verdict in known.values()})
    hints: list[Hint] = []
    # Each hint needs pages with the same content; most hosts are too small, or have none.
    if len(known) - contents >= min(paths.SOFT_404_FAMILIES - 1, int(limits.support_min / 2)):
        hints = _Learner(host, known, limits, canonicals).hints()
    return HostHints(host, len(known), contents, left_out, hints)


@dataclass
class _Learner:
    """The steps that find hints: each leaves out of the URLs what the steps before have found."""

    _host: str
    _known: Mapping[str, UrlVerdict]
    _limits: HintLimits
    _canonicals: Mapping[str, str] | None

    def __post_init__(self) -> None:
        self._pages = [
            UrlPage(url, address, directory(address.segments), verdict.content)
            for url, verdict in self._known.items()
            if (address := split(url)) is not None
        ]

    def hints(self) -> list[Hint]:
        """Return the hints, those first that the others stand on."""
        limits = self._limits
        parameters = learn_parameters(self._pages, limits)
        ignored: dict[str, frozenset[str]] = {}
        for name, under, _ in parameters:
            ignored[under] = ignored.get(under, frozenset()) | {name}
        bases = paths.bases_of(self._pages, ignored)
        segments = paths.learn_segments(bases, limits)
        bases = paths.drop_segments(bases, [each.name for each in segments])
        varying = paths.learn_varying(bases, limits)
        bases = paths.drop_varying(bases, [each.name for each in varying])
        swallowed = paths.learn_soft_404(bases)
        traps = paths.learn_traps(bases, {each.content for each in swallowed}, limits)
        return [
            *map(self._learn_parameter, parameters),
            *map(self._learn_segment, segments),
            *map(self._learn_varying, varying),
            *sorted(map(self._learn_soft_404, swallowed), key=lambda hint: hint.examples),
            *map(self._learn_trap, traps),
        ]

    def _learn_parameter(self, found: FoundParameter) -> Hint:
        name, under, evidence = found
        pages = [
            page
            for page in self._pages
            if under in (WHOLE_HOST, page.directory) and has_parameter(page.address, name)
        ]
        kind = HintKind.PATH_PARAMETER if name.startswith(";") else HintKind.PARAMETER
        hint = self._hint(kind, name.removeprefix(";"), pages, evidence)
        hint = msgspec.structs.replace(hint, under=under, without=len(evidence.without))
        return self._compare(hint, pages, lambda link: not has_parameter(link, name))

    def _learn_segment(self, found: paths.FoundSegment) -> Hint:
        name, evidence, pages = found
        hint = self._hint(HintKind.SEGMENT, name, pages, evidence)
        return self._compare(hint, pages, lambda link: name not in link.segments)

    def _learn_varying(self, found: paths.FoundSegment) -> Hint:
        name, evidence, pages = found
        return self._hint(HintKind.VARYING_SEGMENT, name, pages, evidence)

    def _learn_soft_404(self, found: paths.Swallowed) -> Hint:
        kept = (self._known[page.url].kept for page in found.pages)
        hint = self._hint(HintKind.SOFT_404, "", found.pages, None)
        return msgspec.structs.replace(
            hint,
            support=found.families,
            representative=next(each for each in kept if each is not None),
        )

    def _learn_trap(self, found: paths.Trap) -> Hint:
        hint = self._hint(HintKind.TRAP, found.name, found.pages, None)
        error = round(error_bound(found.new, found.newer), 4)
        return msgspec.structs.replace(hint, support=found.newer, differing=found.new, error=error)

    def _hint(
        self, kind: HintKind, name: str, pages: Sequence[UrlPage], evidence: Evidence | None
    ) -> Hint:
        return Hint(
            kind=kind,
            name=name,
            under=WHOLE_HOST,
            urls=len(pages),
            support=evidence.support if evidence else 0,
            differing=evidence.differing if evidence else 0,
            error=round(evidence.error, 4) if evidence else None,
            recheck=self._limits.recheck(len(pages)),
            examples=[page.url for page in pages if len(page.url) <= EXAMPLE_MAX][:EXAMPLES],
        )

    def _compare(self, hint: Hint, pages: Sequence[UrlPage], agrees: Agrees) -> Hint:
        """Return the hint with what the canonical links of its pages say of it."""
        if self._canonicals is None:
            return hint
        agreeing = [
            agrees(link)
            for page in pages
            if (written := self._canonicals.get(page.url))
            and (link := canonical_address(self._host, page.url, written)) is not None
        ]
        agreement = CanonicalAgreement(len(agreeing), sum(agreeing))
        return msgspec.structs.replace(hint, canonical=agreement)


def has_parameter(address: Address, name: str) -> bool:
    """Return whether a URL has a parameter; the name of the path's begins with ";"."""
    return any(each == name for each, _ in address.items)


def canonical_address(host: str, url: str, written: str) -> Address | None:
    """Return what a canonical link says of a page; None where it names another host."""
    try:
        found = split(urljoin(url, written.strip()))
    except ValueError:  # brackets that hold no IPv6 address
        return None
    return found if found is not None and found.host == host else None
