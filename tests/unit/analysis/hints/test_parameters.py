"""Parameters that do not change a page: alone, together, in one directory; and those that do."""

from collections.abc import Iterable

import pytest

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


N = range(40)
LISTS: list[tuple[str, object]] = [(f"/lists/all?brand={b}", f"list {b}") for b in range(30)]
# Paths with their contents, and the parameters that do not matter with the directory.
LEARNED: dict[str, tuple[list[tuple[str, object]], list[tuple[str, str]]]] = {
    "pages that differ in it are the same": (
        [(f"/item?id={n}&sid={n * 31 + s}", n) for n in N for s in range(2)], [("sid", "/")]),
    "too few pages": (
        [(f"/item?id={n}&sid={n * 31 + s}", n) for n in N[:20] for s in range(2)], []),
    "a parameter of the path": (
        [(f"/a/{n}{own}", n) for n in N for own in ("", f";s={n}")], [(";s", "/")]),
    "in another order, and absent": (
        [(f"/a?{query}", n) for n in N for query in (f"id={n}", f"x={n}&id={n}")], [("x", "/")]),
    "two that only change together": (
        [(f"/a?id={n}&s={3 * n + s}&t=t{3 * n + s}", n) for n in N for s in range(3)],
        [("s", "/"), ("t", "/")]),
    "one that matters and changes with another": (
        [(f"/a?id={n}&slug=name-{n}&s={n}{s}", n) for n in N for s in range(2)], [("s", "/")]),
    "decoration in one directory only": (
        [*((f"/products/{n}?brand={b}", n) for n in N for b in range(2)), *LISTS],
        [("brand", "/products/")]),
    "the root directory is not the whole host": (
        [*((f"/item{n}?brand={b}", n) for n in N for b in range(2)), *LISTS], []),
    "one page for all URLs": ([(f"/a/{n}?id={i}", "log in") for n in N for i in range(5)], []),
    "it matters now and then": (
        [(f"/list/{n}{own}", (n, own if n % 5 == 0 else "")) for n in range(100)
         for own in ("", "?page=2")], []),
}  # fmt: skip


@pytest.mark.parametrize("case", LEARNED)
def test_a_parameter_that_does_not_change_pages_is_found_and_no_other(case: str) -> None:
    urls, names = LEARNED[case]
    found = learn_parameters(pages(urls), HintLimits())
    assert [(name, under) for name, under, _ in found] == names


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
