"""Parameters that do not change a page: alone, together, in one directory; and those that do."""

import itertools
from collections.abc import Iterable

from streamer.analysis.hints.addresses import directory, split
from streamer.analysis.hints.hint import HintLimits
from streamer.analysis.hints.parameters import UrlPage, evidence_of, learn_parameters


def pages(urls: Iterable[tuple[str, object]]) -> list[UrlPage]:
    """Return pages with their contents by (path with query, content)."""
    numbers: dict[object, int] = {}
    found = []
    for path, content in urls:
        parts = split(f"https://a.example{path}")
        assert parts is not None
        number = numbers.setdefault(content, len(numbers))
        found.append(UrlPage(path, parts, directory(parts.segments), number))
    return found


def learned(urls: Iterable[tuple[str, object]]) -> list[tuple[str, str]]:
    return [(name, under) for name, under, _ in learn_parameters(pages(urls), HintLimits())]


def test_a_parameter_does_not_matter_if_pages_that_differ_in_it_are_the_same() -> None:
    urls = [(f"/item?id={n}&sid={n * 31 + s}", n) for n in range(40) for s in range(2)]
    assert learned(urls) == [("sid", "/")]
    assert learned(urls[:40]) == []  # too few


def test_a_parameter_of_the_path_is_one_too() -> None:
    urls = [(f"/a/{n}{own}", n) for n in range(40) for own in ("", f";s={n}")]
    assert learned(urls) == [(";s", "/")]


def test_order_and_absence_of_parameters_do_not_hide_one() -> None:
    urls = [(f"/a?{query}", n) for n in range(40) for query in (f"id={n}", f"x={n}&id={n}")]
    assert learned(urls) == [("x", "/")]


def test_parameters_that_only_change_together_are_found_together() -> None:
    number = itertools.count()
    urls = [
        (f"/a?id={n}&s={next(number)}&t={next(number)}", n) for n in range(40) for _ in range(3)
    ]
    assert learned(urls) == [("s", "/"), ("t", "/")]


def test_a_parameter_that_matters_is_not_taken_for_one_that_changes_with_it() -> None:
    urls = [(f"/a?id={n}&slug=name-{n}&s={n}{s}", n) for n in range(40) for s in range(2)]
    assert learned(urls) == [("s", "/")]


def test_a_parameter_may_be_decoration_in_one_directory_only() -> None:
    urls: list[tuple[str, object]]
    urls = [(f"/products/{n}?brand={b}", n) for n in range(40) for b in range(2)]
    urls += [(f"/lists/all?brand={b}", f"list {b}") for b in range(30)]
    assert learned(urls) == [("brand", "/products/")]


def test_the_root_directory_is_not_the_whole_host() -> None:
    urls: list[tuple[str, object]]
    urls = [(f"/item{n}?brand={b}", n) for n in range(40) for b in range(2)]
    urls += [(f"/lists/all?brand={b}", f"list {b}") for b in range(30)]
    assert learned(urls) == []


def test_one_page_for_all_urls_says_nothing_of_a_parameter() -> None:
    assert learned([(f"/a/{n}?id={i}", "log in") for n in range(40) for i in range(5)]) == []


def test_a_parameter_that_matters_now_and_then_is_kept() -> None:
    urls = [(f"/list/{n}{own}", (n, own if n % 5 == 0 else "")) for n in range(100)
            for own in ("", "?page=2")]  # fmt: skip
    assert learned(urls) == []


def test_pages_without_the_parameter_belong_to_a_group() -> None:
    found = evidence_of(
        pages([("/a?x=1", 1), ("/a", 2), ("/b?x=1", 3), ("/b?x=2", 3), ("/c", 4)]),
        frozenset({"x"}),
        frozenset(),
    )
    assert [(each.support, each.differing) for each in found.values()] == [(2, 1)]
    found = evidence_of(
        pages([("/a?x=1", 1), ("/a", 1), ("/b?x=1", 2), ("/b?x=2", 2), ("/c", 3), ("/c?x", 4)]),
        frozenset({"x"}),
        frozenset(),
    )
    assert [len(each.without) for each in found.values()] == [1]
