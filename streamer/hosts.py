"""What host a URL has: one reading for scopes, rules, sites, forgetting, hints and clusters.

It is the host that a browser would ask (WHATWG URL Standard, 4.4 and 3.5), in ASCII: lower case,
percent signs decoded, a label outside ASCII as `xn--`, full-width letters and dots as plain ones,
no dot at the end. So all spellings of a host are one. URLs themselves are never changed.
"""

import re
import socket
from contextlib import suppress
from functools import lru_cache
from ipaddress import IPv6Address
from typing import NamedTuple
from urllib.parse import unquote

import idna

_HOSTS_KEPT = 4096  # of which the reading is known
USUAL_PORTS = {"", ":", ":80", ":443"}

# Of the web's own schemes a browser takes any number of slashes.
_URL = re.compile(
    r"((?i:https?|wss?|ftp):(?=[/\\]*[^/\\?#])|[A-Za-z][A-Za-z0-9+.-]*:(?=[/\\]{2}))"
    r"[/\\]*([^/\\?#]*)([^#]*)"
)
_PORT = re.compile(r":[0-9]*$")
_PLAIN = re.compile(r"[a-z0-9_-]+(?:\.[a-z0-9_-]+)*")
_PLAIN_URL = re.compile(
    rb"[a-z][a-z0-9+.-]*://(?:[a-z0-9_-]+\.)*[a-z_-][a-z0-9_-]*(?::[0-9]*)?(?![^/?#])"
)
_NO_HOST = re.compile(r"[\s\x00-\x1f\x7f/@?#\\^|<>\[\]:%]")
_SURROGATE = re.compile("[\ud800-\udfff]")  # a byte of a command line that is no UTF-8
_NUMBER = re.compile(r"(?:.*\.)?(?:[0-9]+|0x[0-9a-f]*)")


class SplitUrl(NamedTuple):
    """A URL's host, "" where it has none; its port with the colon, or ""; path and query."""

    host: str
    port: str
    path: str


def split_url(url: str) -> SplitUrl:
    """Return the parts of a URL that say where it leads."""
    found = _URL.match(url)
    return SplitUrl(*_read(found[2]), found[3]) if found else SplitUrl("", "", "")


def host_of(url: str) -> str:
    """Return the host of a URL; "" where it has none. IPv6 addresses have brackets."""
    return split_url(url).host


def same_url_key(url: bytes) -> bytes:
    """Return a URL with its scheme and host as they are read here; equal for the same URL."""
    if _PLAIN_URL.match(url):
        return url
    text = url.decode(errors="surrogateescape")
    found = _URL.match(text)
    if found is None or not (host := _read(found[2])[0]):
        return url
    user, at, _ = found[2].rpartition("@")
    own = f"{found[1].lower()}//{user}{at}{host}{_read(found[2])[1]}{text[found.end(2) :]}"
    return own.encode(errors="surrogateescape")


def is_same_url(one: bytes, other: bytes) -> bool:
    """Return whether two URLs are the same, however their hosts are spelled."""
    return one == other or same_url_key(one) == same_url_key(other)


def plain_host(name: str) -> str:
    """Return the name of a host as `host_of` does; "" for what is no name of one."""
    host, port = _read(name)
    return "" if port or "@" in name or ".." in host or _SURROGATE.search(name) else host


def plain_labels(name: str) -> str:
    """Return a part of a host's name in ASCII and lower case."""
    lower = name.lower()
    if _PLAIN.fullmatch(lower):
        return lower
    name = unquote(name, errors="surrogateescape")
    mapped = name.lower()
    with suppress(idna.IDNAError):
        mapped = idna.uts46_remap(name, std3_rules=False)
    return ".".join(map(_ascii, mapped.split(".")))


@lru_cache(_HOSTS_KEPT)
def _read(authority: str) -> tuple[str, str]:
    """Return the host and the port of what is between the slashes of a URL."""
    name = authority.rpartition("@")[2]
    port = _PORT.search(name)
    name = name[: port.start()] if port else name
    if name.startswith("["):
        return _address(name), port[0] if port else ""
    host = plain_labels(name).rstrip(".")
    if _NUMBER.fullmatch(host):
        try:
            host = socket.inet_ntoa(socket.inet_aton(host))  # with four decimal parts
        except OSError:
            host = ""
    return "" if _NO_HOST.search(host) else host, port[0] if port else ""


def _address(name: str) -> str:
    """Return an IPv6 address in its brackets, in its shortest form; "" for what is none."""
    with suppress(ValueError):
        if name.endswith("]"):
            return f"[{IPv6Address(name[1:-1])}]"
    return ""


def _ascii(label: str) -> str:
    """Return a label, as `xn--` where it has letters outside ASCII."""
    if label.isascii():
        return label
    with suppress(UnicodeError):
        return f"xn--{label.encode('punycode').decode()}"
    return label
