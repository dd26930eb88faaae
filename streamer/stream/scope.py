"""Scopes: what pages of a cluster must have in common to stay in one, as a number.

Mirrors on other hosts may be wanted while copies within a site are not. A scope's number is a hash
of the host or the registered domain in a URL, so that a page costs eight bytes. The registered
domain is what stands below a public suffix (example.co.uk), by the Public Suffix List as the
package publicsuffixlist carries it; nothing is fetched.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from functools import lru_cache
from ipaddress import ip_address
from urllib.parse import urlsplit

import mmh3
from publicsuffixlist import PublicSuffixList

HOSTS_REMEMBERED = 65_536


class Scope(StrEnum):
    """Within what pages count as duplicates of each other."""

    NONE = "none"
    HOST = "host"
    DOMAIN = "domain"


def numbering(scope: Scope) -> Callable[[str], int]:
    """Return the function from a URL to the 64-bit number of its scope; all have one with none."""
    if scope is Scope.NONE:
        return lambda _url: 0
    name = host_of if scope is Scope.HOST else domain_of
    return lambda url: mmh3.hash64(name(url).encode(errors="replace"), signed=False)[0]


def host_of(url: str) -> str:
    """Return the host of a URL in lower case, without a port; the URL itself where it has none."""
    try:
        return (urlsplit(url).hostname or "").rstrip(".") or url
    except ValueError:  # brackets that hold no IPv6 address
        return url


def domain_of(url: str) -> str:
    """Return the registered domain of a URL; the host where it has none, as an IP address."""
    return _domain(host_of(url))


@lru_cache(maxsize=HOSTS_REMEMBERED)
def _domain(host: str) -> str:
    try:
        ip_address(host)
    except ValueError:
        return _suffixes().privatesuffix(host) or host
    return host


@lru_cache(maxsize=1)
def _suffixes() -> PublicSuffixList:
    return PublicSuffixList()
