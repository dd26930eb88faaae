"""Rules made of hints: which URLs they rewrite or refuse, and the files that hold them."""

import json
import re
import time
from xml.etree import ElementTree as ET

import msgspec
import pytest

from streamer.analysis.hints.filters import FilterRules
from streamer.analysis.hints.hint import Hint, HintKind, HostHints


def rules(kind: str, name: str, under: str = "/", host: str = "a.example") -> FilterRules:
    hint = Hint(HintKind(kind), name, under, 9, 9, 0, 0.1, 0.5, [], without=3)
    return FilterRules([HostHints(host, 9, 9, 0, [hint])])


def test_a_parameter_that_was_never_absent_stays() -> None:
    for without in (0, 2, msgspec.UNSET):
        for kind in (HintKind.PARAMETER, HintKind.PATH_PARAMETER):
            hint = Hint(kind, "action", "/", 9, 9, 0, 0.1, 0.5, [], without=without)
            found = FilterRules([HostHints("a.example", 9, 9, 0, [hint])])
            assert found.rewritings == []


def rewritten(found: FilterRules, url: str) -> str:
    for pattern in found.rewritings:
        url = re.sub(pattern, r"\g<1>", url)
    return url


SAME = ""  # in place of what a rule leaves as it is
REWRITINGS: dict[tuple[str, ...], dict[str, str]] = {
    ("parameter", "sid"): {
        "https://a.example/x?sid=1": "https://a.example/x",
        "https://a.example/x?sid=1&b=2": "https://a.example/x?b=2",
        "https://a.example/x?a=1&sid=1&b=2#c": "https://a.example/x?a=1&b=2#c",
        "https://a.example/x?a=1&sid=1#c": "https://a.example/x?a=1#c",
        "http://A.Example:8080/?sid": "http://A.Example:8080/",
        "https://a.example?sid=1": "https://a.example",
        "https://a.example/x?q=what?&sid=1": "https://a.example/x?q=what?",
        "https://a.example/x?sid=1&id=0&sid=1": "https://a.example/x?id=0",
        "https://a.example/x?side=1&xsid=2": SAME,
        "https://b.example/x?sid=1": SAME,
        "https://a.example.org/x?sid=1": SAME,
        "https://aXexample/x?sid=1": SAME,
        "https://b.example/?u=https://a.example/x?sid=1": SAME,
        "https://a.example/x#?sid=1": SAME,
        "https://a.example/x?q=what?": SAME,
        "https://a.example/x?q=a?sid=1": SAME,
        "https://a.example/x&sid=1": SAME,
    },
    ("parameter", "brand", "/products/"): {
        "https://a.example/products/7?brand=1": "https://a.example/products/7",
        "https://a.example/products/7?brand=1&c=2": "https://a.example/products/7?c=2",
        "https://a.example/products/7/more?brand=1": SAME,
        "https://a.example/lists/all?brand=1": SAME,
    },
    ("parameter", "x", "/user/*/posts/"): {
        "http://a.example/user/4/posts/1?x=1": "http://a.example/user/4/posts/1",
        "http://a.example/user/a/b/posts/1?x=1": SAME,
        "http://a.example/user/all/posts/1?x=1": SAME,
        "http://a.example/user/new-4/posts/1?x=1": SAME,
    },
    ("path_parameter", "jsessionid"): {
        "https://a.example/x.html;jsessionid=AB": "https://a.example/x.html",
        "https://a.example/x.html;jsessionid=AB?a=1": "https://a.example/x.html?a=1",
        "https://a.example/x;jsessionid=AB/y": "https://a.example/x/y",
        "https://a.example/x;a=1;jsessionid=AB": "https://a.example/x;a=1",
        "https://a.example/x?a=;jsessionid=AB": SAME,
    },
    ("segment", "print"): {
        "http://a.example/print/x": "http://a.example/x",
        "http://a.example/x/print": "http://a.example/x",
        "http://a.example/x/print/?a": "http://a.example/x/?a",
        "http://a.example/printer/x": SAME,
        "http://a.example/x?u=/print/": SAME,
        "http://a.example/print/x/print/y": SAME,
    },
    ("parameter", "a[]+.$1\\", "/", "x.example"): {
        "http://x.example/?a[]+.$1\\=1&b=2": "http://x.example/?b=2",
        "http://xyexample/?a[]+.$1\\=1": SAME,
    },
}


@pytest.mark.parametrize(
    ("rule", "url"), [(rule, url) for rule, urls in REWRITINGS.items() for url in urls]
)
def test_a_rule_rewrites_what_it_is_about_and_nothing_else(rule: tuple[str, ...], url: str) -> None:
    assert rewritten(rules(*rule), url) == (REWRITINGS[rule][url] or url)


@pytest.mark.parametrize(
    ("name", "refused", "accepted"),
    [
        ("/calendar/*/*", ["/calendar/2031/05", "/calendar/2031/4f3a9c0b12de?#x"],
         ["/calendar/2031", "/calendar/2031/05/1", "/a/calendar/2031/05", "/calendar/7/5?x=1",
          "/calendar/all/5", "/calendar/4f/5"]),
        ("/*/*/", ["/2024/01/"], ["/about/team/", "/products/shoes/", "/a/1/"]),
        ("/list?page&q", ["/list?q=a&page=7", "/list?page&&q=a&", "/list?page=7&q=a#z"],
         ["/list", "/list?page=7", "/list?pages=7&q=a", "/list?page=7&q=a&z=1", "/list?q=1?page"]),
        ("/a/b/{again}", ["/a/b/a/", "/b/a/b/a/b/"],
         ["/a/b/", "/a/b/c/a/b/", "/a/b", "/a/b/a?x=1", "/a/b/ab"]),
        ("/s/{varies}/month-*", ["/s/x.y/month-7"],
         ["/s/x/y/month-7", "/s/x/month-", "/s/x;a=1/month-7"]),
        ("/cal?;v", ["/cal;v=7", "/cal;v"], ["/cal", "/cal;w=1", "/cal;v=7;w=1", "/cal;v=7?a=1"]),
        ("/a%2Ab/*", [], ["/a7b/7", "/axb/7"]),
    ],
)  # fmt: skip
def test_the_urls_of_a_trap_are_refused(name: str, refused: list[str], accepted: list[str]) -> None:
    (pattern,) = rules("trap", name).refusals
    for host in ("a.example", "A.example:81"):
        assert [path for path in refused if not re.search(pattern, f"https://{host}{path}")] == []
    assert [path for path in accepted if re.search(pattern, f"https://a.example{path}")] == []


@pytest.mark.parametrize(
    "name", ["/*/shop/{again}", "/doc*/{varies}/{again}", "/a/{varies}/{again}", "/{varies}/*"]
)
def test_a_trap_without_words_of_its_own_has_no_rule(name: str) -> None:
    found = rules("trap", name)
    assert found.refusals == []


def test_a_trap_has_parameters_that_do_not_matter() -> None:
    hints = [
        Hint(HintKind(kind), name, under, 9, 9, 0, 0.1, 0.5, [])
        for kind, name, under in [
            ("parameter", "sid", "/"), ("path_parameter", "js", "/"), ("parameter", "v", "/day/"),
            ("parameter", "w", "/other/"), ("trap", "/day/*", "/"),
        ]
    ]  # fmt: skip
    (pattern,) = FilterRules([HostHints("a.example", 9, 9, 0, hints)]).refusals
    for path in ("/day/7", "/day/7?sid=1&v=2", "/day/7;js=A?sid=1#x"):
        assert re.search(pattern, f"http://a.example{path}"), path
    for path in ("/day/7?event=3", "/day/7?sid=1&event=3", "/day/7?w=1", "/day/7;x=1"):
        assert not re.search(pattern, f"http://a.example{path}"), path


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("/a/ab/{again}", "/ab" * 200), ("/*-*-*-*-*/x", "/" + "1-" * 500),
        ("/x?a&aa", "/x?" + "a&aa&" * 200), ("/x?;a&;aa", "/x" + ";a;aa" * 200),
    ],
)  # fmt: skip
def test_no_url_takes_long(name: str, path: str) -> None:
    (pattern,) = rules("trap", name).refusals
    begin = time.process_time()
    assert not re.search(pattern, f"http://a.example{path}/x.html")
    assert time.process_time() - begin < 1


def test_the_files_hold_the_rules_as_their_readers_expect() -> None:
    found = rules("parameter", "a&<b")
    found.add(HostHints("b.example", 9, 9, 0, [
        Hint(HintKind.TRAP, "/c/*", "/", 9, 9, 0, 0.1, 1, []),
        Hint(HintKind.SOFT_404, "", "/", 9, 9, 0, None, 1, []),
    ]))  # fmt: skip
    root = ET.fromstring(found.nutch("regex-normalize.xml"))  # noqa: S314 - of our own
    assert root.tag == "regex-normalize"
    pairs = [(each.findtext("pattern"), each.findtext("substitution")) for each in root]
    assert {each.tag for each in root} == {"regex"}
    assert pairs == [(pattern, "$1") for pattern in found.rewritings]
    lines = found.nutch("regex-urlfilter.txt").decode().splitlines()
    assert lines == [f"-{found.refusals[0]}", "+."]
    filters = json.loads(found.storm_crawler())["org.apache.stormcrawler.filtering.URLFilters"]
    assert [each["class"].rpartition(".")[2] for each in filters] == [
        "RegexURLNormalizer", "RegexURLFilter",
    ]  # fmt: skip
    normalizers = filters[0]["params"]["urlNormalizers"]
    assert [(each["pattern"], each["substitution"]) for each in normalizers] == pairs
    assert filters[1]["params"]["urlFilters"] == lines
