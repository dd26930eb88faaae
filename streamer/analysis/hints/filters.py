r"""Hints as files of crawlers: rules for URLs, in regular expressions of Java.

A rule rewrites a URL to the one without what does not matter, or refuses the URLs of a trap. Java
and Python read these expressions alike, but for the name of a group in a replacement: $1 and \1. A
rule has its host in it, since both crawlers apply each rule to each URL.

StormCrawler: a file of URL filters, RegexURLNormalizer and RegexURLFilter, with their rules inside.
Nutch: the file of its urlnormalizer-regex (.xml), and that of its urlfilter-regex (.txt).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple
from xml.sax.saxutils import escape

import msgspec

from streamer.analysis.hints.addresses import AGAIN
from streamer.analysis.hints.hint import Hint, HintKind, HostHints
from streamer.analysis.hints.parameters import WHOLE_HOST
from streamer.analysis.hints.paths import ANY, VARIES

_PACKAGE = "org.apache.stormcrawler.filtering"
_SEGMENT = "[^/?#]*"
ACCEPT_ALL = "+."  # of what no rule refuses


class Rewriting(NamedTuple):
    """A rule: what matches `pattern` is replaced by `substitution`."""

    pattern: str
    substitution: str = "$1"


class FilterRules:
    """The rules of hints.

    Attributes:
        rewritings: the rules that rewrite URLs, in their order.
        refusals: the patterns of URLs that are not to be fetched.
        without_rule: hints for which there is none: soft errors, and places that vary.
    """

    def __init__(self, hosts: Iterable[HostHints] = ()) -> None:
        self.rewritings: list[Rewriting] = []
        self.refusals: list[str] = []
        self.without_rule = 0
        for each in hosts:
            self.add(each)

    def add(self, learned: HostHints) -> None:
        """Add the rules of a host."""
        origin = rf"https?://(?i:{re.escape(learned.host)})(?::[0-9]+)?"
        found = (rule for hint in learned.hints for rule in _rewritings(origin, hint))
        self.rewritings += dict.fromkeys(found)
        refused = [_refusal(origin, hint) for hint in learned.hints if hint.kind is HintKind.TRAP]
        self.refusals += refused
        ruled = {HintKind.TRAP, HintKind.PARAMETER, HintKind.PATH_PARAMETER, HintKind.SEGMENT}
        self.without_rule += sum(hint.kind not in ruled for hint in learned.hints)

    def storm_crawler(self) -> bytes:
        """Return a file of URL filters for StormCrawler."""
        normalizers = [rule._asdict() for rule in self.rewritings]
        refusals = [*(f"-{pattern}" for pattern in self.refusals), ACCEPT_ALL]
        filters = [
            _storm_filter("RegexURLNormalizer", {"urlNormalizers": normalizers}),
            _storm_filter("RegexURLFilter", {"urlFilters": refusals}),
        ]
        whole = {f"{_PACKAGE}.URLFilters": filters}
        return msgspec.json.format(msgspec.json.encode(whole)) + b"\n"

    def nutch(self, name: str) -> bytes:
        """Return a file for Nutch: by the ending of its name, of normalizers or of filters."""
        return (self._nutch_xml() if name.endswith(".xml") else self._nutch_txt()).encode()

    def _nutch_xml(self) -> str:
        rules = "".join(
            f"<regex>\n  <pattern>{escape(pattern)}</pattern>\n"
            f"  <substitution>{escape(substitution)}</substitution>\n</regex>\n"
            for pattern, substitution in self.rewritings
        )
        head = '<?xml version="1.0" encoding="UTF-8"?>'
        return f"{head}\n<regex-normalize>\n{rules}</regex-normalize>\n"

    def _nutch_txt(self) -> str:
        return "".join(f"-{pattern}\n" for pattern in self.refusals) + f"{ACCEPT_ALL}\n"


def _storm_filter(name: str, params: dict[str, object]) -> dict[str, object]:
    return {"class": f"{_PACKAGE}.regex.{name}", "name": f"{name}-hints", "params": params}


def _rewritings(origin: str, hint: Hint) -> Iterator[Rewriting]:
    name = re.escape(hint.name)
    path = "/[^?#]*" if hint.under == WHOLE_HOST else _pattern(hint.under) + "[^/?#]*"
    if hint.kind is HintKind.PARAMETER:
        before = rf"{origin}(?:{path})?" if hint.under == WHOLE_HOST else origin + path
        yield Rewriting(rf"^({before}\?(?:[^#]*&)?){name}(?:=[^&#]*)?(?:&|(?=#|$))")
        yield Rewriting(rf"^({before}(?:\?[^#]*[^#&?])?)[?&]+(?=#|$)")  # what that leaves behind
    elif hint.kind is HintKind.PATH_PARAMETER:
        yield Rewriting(rf"^({origin}{path});{name}(?:=[^/?#;]*)?(?=[/?#;]|$)")
    elif hint.kind is HintKind.SEGMENT:
        yield Rewriting(rf"^({origin}(?:/[^?#]*)?)/{name}(?=[/?#]|$)")


def _pattern(path: str) -> str:
    """Return the expression for a path in which numbers, ids and places that vary are masked."""
    parts = (re.escape(part).replace(re.escape(VARIES), _SEGMENT) for part in path.split(ANY))
    return "[0-9A-Za-z-]+".join(parts)


def _refusal(origin: str, hint: Hint) -> str:
    """Return the pattern of the URLs of a trap's family."""
    path, _, names = hint.name.partition("?")
    query = "(?:[?#]|$)"
    if names:
        each = (rf"(?=(?:[^#]*&)?{re.escape(name)}(?:[=&#]|$))" for name in names.split("&"))
        query = rf"\?{''.join(each)}"
    segments = path.strip("/").split("/")
    if segments[-1] != AGAIN:
        return rf"^{origin}{_pattern(path)}{query}"
    own = "|".join(map(_pattern, segments[:-1]))
    return rf"^{origin}(?:/(?:{own})){{{len(segments)},}}/?{query}"
