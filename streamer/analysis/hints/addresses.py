"""URLs in parts: segments of the path, and parameters of query and path.

The order of parameters, the scheme and the fragment do not count; a port does. A family is what
URLs have in common whose paths differ in numbers and ids only. The marks of families, "*" and "{",
are percent-encoded in segments, and so is a ";" at the head of a query's name: no URL has a mark.
"""

import re
import sys
from typing import NamedTuple

from streamer.hosts import USUAL_PORTS, host_of, split_url

Items = tuple[tuple[str, str], ...]

# Ids: a UUID, eight hexadecimal digits or more, 16 letters and digits or more; and numbers.
# Java reads this alike. The group is atomic: a rule with many of them takes linear time. The digits
# of percent-encoded characters are those of words.
VARYING = (
    r"(?<!%)(?<!%[0-9A-Fa-f])(?>[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"
    r"|\b(?=[A-Fa-f]*[0-9])[0-9A-Fa-f]{8,}\b|\b(?=[A-Za-z]*[0-9])[0-9A-Za-z]{16,}\b|[0-9]+)"
)
_VARYING = re.compile(VARYING)
_NAME_LENGTH_MAX = 100
_OF_WEB = re.compile(r"https?://(?!/)", re.IGNORECASE)
AGAIN = "{again}"  # in the name of a family whose segments repeat
VARIES, ANY = "{varies}", "*"  # a place whose value does not matter; numbers and ids


class Address(NamedTuple):
    """A URL in parts.

    Attributes:
        host: in lower case.
        port: as ":8080", or "".
        segments: of the path, without their parameters; the last one is "" after a slash.
        items: names and values of all parameters, sorted; a name of the path's begins with ";".
    """

    host: str
    port: str
    segments: tuple[str, ...]
    items: Items


def host_in(url: str) -> str:
    """Return the host of a URL in lower case, without a port; "" where it is no URL of the web."""
    return host_of(url) if _OF_WEB.match(url) else ""


def split(url: str) -> Address | None:
    """Return a URL in parts; None where it is no URL of the web, or has control characters."""
    if not url.isprintable():  # a line break would end a rule in a crawler's file
        return None
    host, port, rest = split_url(url)
    if not (host and _OF_WEB.match(url)):
        return None
    path, _, query = rest.removeprefix("/").partition("?")
    items: list[tuple[str, str]] = []
    if ";" in path:
        path, items = _cut_parameters(path)
    if "*" in path or "{" in path:
        path = path.replace("*", "%2A").replace("{", "%7B")
    for part in query.split("&") if query else ():
        if part:
            name, _, value = part.partition("=")
            if name.startswith(";"):
                name = f"%3B{name[1:]}"
            items.append((sys.intern(name), value))
    items.sort()
    port = "" if port in USUAL_PORTS else port
    return Address(sys.intern(host), port, tuple(map(sys.intern, path.split("/"))), tuple(items))


def _cut_parameters(path: str) -> tuple[str, list[tuple[str, str]]]:
    items = []
    segments = []
    for segment in path.split("/"):
        stem, *parameters = segment.split(";")
        segments.append(stem)
        for part in parameters:
            name, _, value = part.partition("=")
            items.append((sys.intern(f";{name}"), value))
    return "/".join(segments), items


def is_plain(name: str) -> bool:
    """Return whether a name can stand in a hint and in the files made of it."""
    return 0 < len(name.lstrip(";")) <= len(name) <= _NAME_LENGTH_MAX and name.isprintable()


def mask_segment(segment: str) -> str:
    """Return a segment with "*" for numbers and ids."""
    return _VARYING.sub(ANY, segment)


def directory(segments: tuple[str, ...]) -> str:
    """Return the path up to its last slash, with "*" for numbers and ids."""
    return "/".join(("", *map(mask_segment, segments[:-1]), ""))


def family(segments: tuple[str, ...], items: Items) -> str:
    """Return the path with "*" for numbers and ids, and the names of the parameters.

    Of a path whose segments repeat they are sorted, each once, with a mark after.
    """
    masks = [mask_segment(each) for each in segments]
    pairs = zip(segments, masks, strict=True)
    words = [each for each, mask in pairs if each and mask not in {ANY, VARIES}]
    path = "/".join(("", *masks))
    if len(set(words)) < len(words):  # others may be the same by chance
        path = "/".join(("", *sorted({mask for mask in masks if mask}), AGAIN))
    names = "&".join(dict.fromkeys(name for name, _ in items))
    return f"{path}?{names}" if names else path
