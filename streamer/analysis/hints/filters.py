r"""Hints as files of crawlers: rules for URLs, in regular expressions of Java.

A rule rewrites a URL to the one without what does not matter, or refuses the URLs of a trap. Java
and Python read these expressions alike, except the name of a group in a replacement: $1 and \1. A
rule has its host in it, since both crawlers apply each rule to each URL.

StormCrawler: a file of URL filters, RegexURLNormalizer and RegexURLFilter, with their rules inside.
Nutch: the file of its urlnormalizer-regex (.xml), and that of its urlfilter-regex (.txt).
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from xml.sax.saxutils import escape

import msgspec

from streamer.analysis.hints.addresses import AGAIN, ANY, VARIES, VARYING
from streamer.analysis.hints.hint import Hint, HintKind, HostHints
from streamer.analysis.hints.parameters import WHOLE_HOST

_PACKAGE = "org.apache.stormcrawler.filtering"
_SEGMENT = "[^/?#;]*"
WITHOUT_MIN = 3  # contents with a URL without the parameter: single ones may be chance
ACCEPT_ALL = "+."  # of what no rule refuses
SUBSTITUTION = "$1"  # of what matches a pattern that rewrites


class FilterRules:
    """The rules of hints.

    Attributes:
        rewritings: the patterns of the rules that rewrite URLs, in their order.
        refusals: the patterns of URLs that are not to be fetched.

    Some hints have none: soft errors, places that vary, parameters that were hardly ever absent,
    and traps whose URLs no expression can match.
    """

    def __init__(self, hosts: Iterable[HostHints] = ()) -> None:
        self.rewritings: list[str] = []
        self.refusals: list[str] = []
        for each in hosts:
            self.add(each)

    def add(self, learned: HostHints) -> None:
        """Add the rules of a host."""
        origin = rf"https?://(?i:{re.escape(learned.host)})(?::[0-9]+)?"
        for hint in learned.hints:
            self.rewritings += _rewritings(origin, hint)
            if hint.kind is HintKind.TRAP:
                self.refusals += _refusal(origin, hint, _list_ignored(learned.hints, hint))

    def storm_crawler(self) -> bytes:
        """Return a file of URL filters for StormCrawler."""
        normalizers = [{"pattern": p, "substitution": SUBSTITUTION} for p in self.rewritings]
        filters = [
            _storm_filter("RegexURLNormalizer", {"urlNormalizers": normalizers}),
            _storm_filter("RegexURLFilter", {"urlFilters": self._refusing()}),
        ]
        return msgspec.json.format(msgspec.json.encode({f"{_PACKAGE}.URLFilters": filters})) + b"\n"

    def nutch(self, name: str) -> bytes:
        """Return a file for Nutch: by the ending of its name, of normalizers or of filters."""
        if name.endswith(".txt"):
            return "".join(f"{rule}\n" for rule in self._refusing()).encode()
        rules = "".join(
            f"<regex>\n  <pattern>{escape(pattern)}</pattern>\n"
            f"  <substitution>{SUBSTITUTION}</substitution>\n</regex>\n"
            for pattern in self.rewritings
        )
        head = '<?xml version="1.0" encoding="UTF-8"?>'
        return f"{head}\n<regex-normalize>\n{rules}</regex-normalize>\n".encode()

    def _refusing(self) -> list[str]:
        return [*(f"-{pattern}" for pattern in self.refusals), ACCEPT_ALL]


def _storm_filter(name: str, params: dict[str, object]) -> dict[str, object]:
    return {"class": f"{_PACKAGE}.regex.{name}", "name": f"{name}-hints", "params": params}


def _rewritings(origin: str, hint: Hint) -> Iterator[str]:
    name = re.escape(hint.name)
    path = "/[^?#]*" if hint.under == WHOLE_HOST else _pattern(hint.under) + "[^/?#]*"
    if not (hint.kind is HintKind.SEGMENT or (hint.without or 0) >= WITHOUT_MIN):
        return
    if hint.kind is HintKind.PARAMETER:
        before = rf"{origin}(?:{path})?" if hint.under == WHOLE_HOST else origin + path
        yield rf"^({before}\?(?:[^#]*&)?){name}(?:=[^&#]*)?&"
        last = rf"[?&]{name}(?:=[^&#]*)?(?=#|$)"  # goes with what is before it
        yield rf"^({before}(?=\?)(?:\?[^#]*(?=&))?){last}"
    elif hint.kind is HintKind.PATH_PARAMETER:
        yield rf"^({origin}{path});{name}(?:=[^/?#;]*)?(?=[/?#;]|$)"
    elif hint.kind is HintKind.SEGMENT:
        own = rf"/{name}(?=[/?#]|$)"  # once, as in the evidence
        yield rf"^({origin}(?:(?!{own})/[^/?#]*)*){own}(?![^?#]*{own})"


def _pattern(path: str) -> str:
    """Return the expression for a path in which numbers, ids and places that vary are masked."""
    parts = (re.escape(part).replace(re.escape(VARIES), _SEGMENT) for part in path.split(ANY))
    return VARYING.join(parts)


def _refusal(origin: str, hint: Hint, ignored: Sequence[str]) -> Iterator[str]:
    """Yield the pattern of the URLs of a trap's family; none where others could match it.

    A URL has all names of the family. Beyond them it has only names that are `ignored`.
    """
    path, _, query = hint.name.partition("?")
    names = query.split("&") if query else []
    in_path = [name for name in names if name.startswith(";")]
    in_query = [name for name in names if not name.startswith(";")]
    behind = _each([*in_path, *(name for name in ignored if name.startswith(";"))])
    behind = rf"(?:{behind}(?:=[^/?#;]*)?)*" if behind else ""
    needed = "".join(rf"(?=[^?#]*{re.escape(name)}(?:[=/?#;]|$))" for name in in_path)
    end = _query(in_query, [name for name in ignored if not name.startswith(";")])
    segments = path.strip("/").split("/")
    if segments[-1] == AGAIN:
        if ANY not in path and VARIES not in path:  # so many numbers in a row are no repetition
            own = "|".join(map(re.escape, segments[:-1]))
            repeated = rf"(?>/(?:{own}){behind}(?=[/?#]|$)){{{len(segments)},}}/?"
            yield f"^{origin}{needed}{repeated}{end}"
    elif VARIES not in path or path.replace(VARIES, "").strip("/*"):  # else each of this length
        whole = "/".join(_pattern(each) + behind for each in path[1:].split("/"))
        yield f"^{origin}{needed}/{whole}{end}"


def _each(names: Iterable[str]) -> str:
    found = "|".join(map(re.escape, dict.fromkeys(names)))
    return f"(?:{found})" if found else ""


def _query(names: Sequence[str], ignored: Sequence[str]) -> str:
    """Return the expression for a query with all `names`, and none but these and the ignored."""
    each = _each([*names, *ignored])
    if not each:
        return r"(?:\?&*)?(?:#|$)"
    item = rf"{each}(?:=[^&#]*)?"
    needed = "".join(rf"(?=(?:[^#]*&)?{re.escape(name)}(?:[=&#]|$))" for name in names)
    query = rf"\?{needed}&*(?:{item}(?:&+{item})*&*)?"
    return rf"{query}(?:#|$)" if names else rf"(?:{query})?(?:#|$)"


def _list_ignored(hints: Iterable[Hint], trap: Hint) -> list[str]:
    """Return the names of parameters that do not matter to the URLs of a trap."""
    path = trap.name.partition("?")[0]
    under = WHOLE_HOST if path.endswith(AGAIN) else path.rpartition("/")[0] + "/"
    heads = {HintKind.PARAMETER: "", HintKind.PATH_PARAMETER: ";"}
    return [
        heads[hint.kind] + hint.name
        for hint in hints
        if hint.kind in heads and hint.under in {WHOLE_HOST, under}
    ]
