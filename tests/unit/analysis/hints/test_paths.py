"""Segments that may be left out or vary, soft errors, and traps."""

from collections.abc import Iterable

import pytest

from streamer.analysis.hints import paths
from streamer.analysis.hints.hint import HintLimits
from tests.unit.analysis.hints.test_parameters import pages


def bases(urls: Iterable[tuple[str, object]]) -> paths.Bases:
    return paths.bases_of(pages(urls), {})


def test_bases_leave_out_parameters_by_directory() -> None:
    found = paths.bases_of(
        pages([("/a/x?s=1&id=1", 1), ("/a/x?s=2&id=1", 1), ("/b/x?s=1", 2), ("/b/x?s=2", 3)]),
        {"/a/": frozenset({"s"})},
    )
    assert [page.url for page in found.values()] == ["/a/x?s=1&id=1", "/b/x?s=1", "/b/x?s=2"]


def test_a_segment_may_be_left_out_if_the_url_without_it_is_the_same_page() -> None:
    urls: list[tuple[str, object]]
    urls = [(f"{before}/n/{n}{behind}", n) for n in range(40)
            for before, behind in (("", ""), ("/print", ""), ("", "/amp"))]  # fmt: skip
    found = paths.learn_segments(bases(urls), HintLimits())
    assert [each.name for each in found] == ["amp", "print"]
    left = paths.drop_segments(bases(urls), ["amp", "print"])
    assert [page.url for page in left.values()] == [f"/n/{n}" for n in range(40)]
    urls = [(f"{before}/n/{n}", (before, n)) for n in range(40) for before in ("", "/de")]
    assert paths.learn_segments(bases(urls), HintLimits()) == []


@pytest.mark.parametrize(("path", "count"), [("/en/b", 41), ("/shop/en/c", 3)])
def test_a_segment_stays_where_the_urls_without_it_were_not_seen(path: str, count: int) -> None:
    urls: list[tuple[str, object]]
    urls = [(f"{before}/a{n}", n) for n in range(40) for before in ("", "/en")]
    more: list[tuple[str, object]] = [(f"{path}{n}", f"{path}{n}") for n in range(count)]
    assert [each.name for each in paths.learn_segments(bases(urls), HintLimits())] == ["en"]
    assert paths.learn_segments(bases(urls + more), HintLimits()) == []


def test_a_place_in_the_path_may_vary() -> None:
    urls: list[tuple[str, object]]
    urls = [(f"/s/{n * 7 + s}x/doc{n}.html", n) for n in range(40) for s in range(2)]
    found = paths.learn_varying(bases(urls), HintLimits())
    assert [each.name for each in found] == ["/s/{varies}/*"]
    assert len(paths.drop_varying(bases(urls), ["/s/{varies}/*"])) == 40
    urls = [(f"/{section}/{n}", (section, n)) for n in range(40) for section in "ab"]
    assert paths.learn_varying(bases(urls), HintLimits()) == []


def test_a_page_that_answers_for_unlike_paths_is_a_soft_error() -> None:
    words = ["help", "tours", "jobs", "press", "shop", "terms", "faq", "map", "about", "team"]
    urls: list[tuple[str, object]] = [(f"/{word}", "error") for word in words]
    urls += [(f"/page/{n}", n) for n in range(40)]
    found = paths.learn_soft_404(bases(urls))
    assert [(each.evidence.support, len(each.pages)) for each in found] == [(10, 10)]
    assert paths.learn_soft_404(bases(urls[1:])) == []
    assert paths.learn_soft_404(bases([(f"/item/{n}", "sold") for n in range(100)])) == []


def test_a_family_that_grows_without_new_content_is_a_trap() -> None:
    urls = [(f"/calendar/{n // 12}/{n % 12}", n if n < 20 else "empty") for n in range(100)]
    traps = paths.learn_traps(bases(urls), set(), HintLimits())
    [(name, seen, _)] = traps
    assert (name, seen.support, seen.differing) == ("/calendar/*/*", 50, 0)
    urls = [(f"/calendar/{n // 12}/{n % 12}", n if n % 5 == 0 else "empty") for n in range(100)]
    assert paths.learn_traps(bases(urls), set(), HintLimits()) == []
    assert (
        paths.learn_traps(bases([(f"/news/{n}", n) for n in range(100)]), set(), HintLimits()) == []
    )


def test_urls_whose_segments_repeat_are_a_trap() -> None:
    urls: list[tuple[str, object]] = [(f"/a{'/b/a' * n}/", n % 2) for n in range(1, 61)]
    traps = paths.learn_traps(bases(urls), set(), HintLimits())
    assert [each.name for each in traps] == ["/a/b/{again}"]
