"""One reading of hosts: all spellings of a host are one, for all that asks."""

import pytest

from streamer.errors import SettingsError
from streamer.hosts import host_of, is_same_url, plain_host, same_url_key, split_url
from streamer.index.forgetting import HOST, names_of_host, terms_of
from streamer.rules import Rule, rule_finder

SPELLINGS = [
    "https://bücher.example/a", "https://BÜCHER.Example./a", "HTTPS://xn--bcher-kva.example/a",
    "https://b%C3%BCcher.example/a", "https://XN--BCHER-KVA.EXAMPLE/a",
    "https://bücher\u3002example/a", "https://\uff42ücher\uff0e\uff45xample/a",
    "https://user:secret@bücher.example:443/a", "https:\\\\bücher.example\\a",
    "https://b\u00adücher.example/a",
]  # fmt: skip


@pytest.mark.parametrize("url", SPELLINGS)
def test_all_spellings_of_a_host_are_one(url: str) -> None:
    assert host_of(url) == "xn--bcher-kva.example"
    rules = [Rule(host="*.example", path="/never", skip=True), Rule(host="BÜCHER.*", skip=True)]
    assert rule_finder(tuple(rules))(url) == rules[1]
    for named in ("bücher.example", "xn--bcher-kva.example", ".example", "\u3002Example."):
        ((kind, name),) = terms_of((), (named,), None)
        assert kind == HOST
        assert name in {*names_of_host(url.encode())}


@pytest.mark.parametrize(
    ("url", "host", "port"),
    [
        ("https://User:pw@WWW.Example.org:8080/a?b#c", "www.example.org", ":8080"),
        ("https://example.org.", "example.org", ""), ("https://a_b.example/", "a_b.example", ""),
        ("http://example.org?q=//x", "example.org", ""),
        ("http://[2001:DB8:0::1]:80/", "[2001:db8::1]", ":80"),
        ("http://[::1].example/", "", ""), ("http://[broken/", "", ""),
        ("https://example.org\\@other.example/", "example.org", ""),
        ("https://a b.example/", "", ""), ("https://a%2Fb.example/", "", ""),
        ("https://💩.example/", "xn--ls8h.example", ""), ("http://0x7f.1/", "127.0.0.1", ""),
        ("https://straße.example/", "xn--strae-oqa.example", ""),
        ("mailto:someone", "", ""), ("/path//of/nothing", "", ""),
        ("https:///example.org/path", "example.org", ""), ("HTTP:/a.example", "a.example", ""),
        ("http:a.example/b", "a.example", ""), ("https:///", "", ""), ("urn:/a.example", "", ""),
        ("http://2130706433:8/", "127.0.0.1", ":8"), ("http://a%00b.example/", "", ""),
        ("http://1.2.3.4.5/", "", ""), ("", "", ""),
    ],
)  # fmt: skip
def test_the_host_of_a_url(url: str, host: str, port: str) -> None:
    assert host_of(url) == host
    assert split_url(url)[:2] == (host, port)


def test_a_url_is_the_same_in_all_spellings_of_its_host_only() -> None:
    plain = b"https://a.example/Path?Q"
    assert same_url_key(plain) is plain
    for other in (b"HTTPS://A.Example./Path?Q", "https://\uff41.example/Path?Q".encode()):
        assert is_same_url(plain, other)
    for other in (
        b"http://a.example/Path?Q",
        b"https://a.example/path?Q",
        b"https://a.example/Path",
    ):
        assert not is_same_url(plain, other)
    assert not is_same_url(b"https://u@a.example/", b"https://a.example/")
    assert not is_same_url(b"https://a.example:8443/", b"https://a.example/")
    assert same_url_key(b"no url \xff") == b"no url \xff"
    assert same_url_key(b"HTTPS://A.example/\xff") == b"https://a.example/\xff"


@pytest.mark.parametrize(
    "name", ["a.example:80", "u@a.example", "a/b", "a b", "", ".", "a..b", "a:b:c", "?", "\udcff.a"]
)
def test_what_is_no_name_of_a_host_is_refused(name: str) -> None:
    assert plain_host(name) == ""
    with pytest.raises(SettingsError, match=r"no name of a host\. Give one as example\.org"):
        terms_of((), (name,), None)
