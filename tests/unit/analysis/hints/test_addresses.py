"""URLs in parts: what counts and what does not, and what families have in common."""

from typing import Any

import pytest

from streamer.analysis.hints import addresses
from streamer.analysis.hints.addresses import VARIES, directory, family, host_in, is_plain, split


@pytest.mark.parametrize(
    ("url", "host", "address"),
    [
        ("https://A.example/b/c?y=2&x=1#d", "a.example",
         ("", ("b", "c"), (("x", "1"), ("y", "2")))),
        ("http://a.example", "a.example", ("", ("",), ())),
        ("HTTP://a.example:80?x", "a.example", ("", ("",), (("x", ""),))),
        ("http://u:p@a.example:8080/", "a.example", (":8080", ("",), ())),
        ("http://a.example/b;s=1/c;t?u=;v", "a.example",
         ("", ("b", "c"), ((";s", "1"), (";t", ""), ("u", ";v")))),
        ("http://a.example/a*b/{again}?;v=*", "a.example",
         ("", ("a%2Ab", "%7Bagain}"), (("%3Bv", "*"),))),
        ("http://[::1]/x?&&a=1=2&", "[::1]", ("", ("x",), (("a", "1=2"),))),
    ],
)  # fmt: skip
def test_a_url_has_its_parts_in_order(url: str, host: str, address: tuple[Any, ...]) -> None:
    assert split(url) == addresses.Address(host, *address)
    assert host_in(url) == host


@pytest.mark.parametrize(
    "url",
    ["", "a", "dns:a.example", "ftp://a.example/", "https:///b", "http://a b/", "http://[/",
     "http://a.example/x\n-.\n/1", "http://a.example/?\x00", "http://a\x01/"],
)  # fmt: skip
def test_what_is_no_url_of_the_web_or_fits_no_line_has_no_parts(url: str) -> None:
    assert split(url) is None
    assert host_in(url) in {"", "a.example"}


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/calendar/2031/05", "/calendar/*/*"),
        ("/articles/4f3a9c0b12de.html", "/articles/*.html"),
        ("/a/0b1c2d3e-0000-4a5b-8c6d-001122334455/", "/a/*/"),
        ("/s/AbC123dEf456gHi789/", "/s/*/"),
        ("/how-to-cook", "/how-to-cook"),
        ("/b/a/b/a/", "/a/b/{again}"),
        ("/2031/5/5/", "/*/*/*/"),
        ("/list?page=3&q=x", "/list?page&q"),
        ("/%D0%9F%205/7%2A8", "/%D0%9F%20*/*%2A*"),
        ("/a*b/7", "/a%2Ab/*"),
    ],
)
def test_a_family_has_paths_that_differ_in_numbers_and_ids(path: str, name: str) -> None:
    found = split(f"https://a.example{path}")
    assert found is not None
    assert family(found.segments, found.items) == name


def test_places_that_vary_are_no_words_that_repeat() -> None:
    assert family((VARIES, VARIES, "doc1"), ()) == "/{varies}/{varies}/doc*"
    assert family((VARIES, "a", VARIES, "a"), ()) == "/a/{varies}/{again}"


def test_a_directory_is_the_path_up_to_its_last_slash() -> None:
    assert directory(("user", "17", "posts", "x.html")) == "/user/*/posts/"
    assert directory(("",)) == directory(("x",)) == "/"


def test_names_that_no_file_of_rules_can_hold_are_not_plain() -> None:
    assert [name for name in ("sid", ";sid", "ü", "a b", "", ";", "\x00", "a\nb", "x" * 101)
            if is_plain(name)] == ["sid", ";sid", "ü", "a b"]  # fmt: skip
