"""The hints of a host, and verdicts sorted by host."""

import sqlite3

import msgspec
import pytest

from streamer.analysis.hints import learn
from streamer.analysis.hints.hint import CanonicalAgreement, HintKind, HintLimits
from streamer.analysis.hints.learn import UrlVerdict, VerdictsByHost, canonical_address, learn_host
from streamer.errors import InputError
from streamer.model import Decision, Location, Representative
from streamer.run.verdict_lines import VerdictLine

KEPT = Representative(Location("pages", 0, 7), "https://a.example/kept")


def visits() -> list[UrlVerdict]:
    """Return a host with a session and views for printing, and a soft error under ten names."""
    urls = [
        UrlVerdict(f"https://a.example{before}/n/{n}?sid={n}{s}", n)
        for n in range(40)
        for s in range(2)
        for before in ("", "/print")
    ]
    words = ["help", "tours", "jobs", "press", "shop", "terms", "faq", "map", "about", "team"]
    return urls + [UrlVerdict(f"https://a.example/{word}", -1, KEPT) for word in words]


def test_each_hint_leaves_out_what_the_hints_before_have_found() -> None:
    found = learn_host("a.example", visits(), HintLimits())
    assert (found.host, found.urls, found.contents, found.left_out) == ("a.example", 170, 41, 0)
    said = [(each.kind, each.name, each.urls, each.support, each.differing) for each in found.hints]
    assert said == [
        (HintKind.PARAMETER, "sid", 160, 40, 0),
        (HintKind.SEGMENT, "print", 40, 40, 0),
        (HintKind.SOFT_404, "", 10, 10, 0),
    ]
    assert [each.error for each in found.hints] == [0.0634, 0.0634, None]
    assert found.hints[0].recheck == pytest.approx(29 / 160, abs=1e-4)
    assert found.hints[0].examples == ["https://a.example/n/0?sid=00",
                                       "https://a.example/print/n/0?sid=00"]  # fmt: skip
    assert found.hints[2].representative == KEPT


def test_of_the_verdicts_on_a_url_the_last_one_counts() -> None:
    changed = [UrlVerdict(each.url, -2 - n) for n, each in enumerate(visits())]
    assert learn_host("a.example", [*changed, *visits()], HintLimits()) == learn_host(
        "a.example", visits(), HintLimits()
    )


def test_of_a_large_host_the_first_urls_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learn, "URLS_MAX", 160)
    found = learn_host("a.example", visits(), HintLimits())
    assert (found.urls, found.left_out) == (160, 10)
    assert [each.kind for each in found.hints] == [HintKind.PARAMETER, HintKind.SEGMENT]


def test_of_long_urls_fewer_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learn, "URL_BYTES_MAX", 10_000)
    urls = [f"https://a.example/{n}?{'&' * 50}" for n in range(10)]
    found = learn_host("a.example", [UrlVerdict(url, 1) for url in urls], HintLimits())
    assert (found.urls, found.left_out) == (1, 9)


def test_canonical_links_agree_or_do_not() -> None:
    links = {each.url: each.url.partition("?")[0] for each in visits()[:100]}
    links |= {each.url: "/n/1?sid=7" for each in visits()[:10]}
    links |= {each.url: "https://elsewhere.example/" for each in visits()[20:30]}
    hints = learn_host("a.example", visits(), HintLimits(), links).hints
    assert hints[0].canonical == CanonicalAgreement(90, 80)
    assert hints[1].canonical == CanonicalAgreement(22, 3)
    assert not hints[2].canonical


@pytest.mark.parametrize(
    ("written", "path"),
    [("/b?c=1", ("b",)), (" x ", ("a", "x")), ("//other.example/", None), ("http://[", None),
     ("mailto:a", None)],
)  # fmt: skip
def test_canonical_links_resolve_on_their_host(written: str, path: tuple[str, ...] | None) -> None:
    found = canonical_address("a.example", "https://a.example/a/", written)
    assert (found and found.segments) == path


def verdict(offset: int, url: str, of: tuple[int, str] | None = None) -> VerdictLine:
    other = Representative(Location("p", 0, of[0]), of[1]) if of else None
    decision = Decision.DUPLICATE if of else Decision.UNIQUE
    return VerdictLine(Location("p", 0, offset), url, decision, other)


def sessions(host: str, first: int = 0) -> list[VerdictLine]:
    found = []
    for n in range(first, first + 60, 2):
        url = f"https://{host}/item?id={n}&sid="
        found += [verdict(n, f"{url}a"), verdict(n + 1, f"{url}b", (n, f"{url}a"))]
    return found


def test_hosts_come_by_name_and_none_without_hints() -> None:
    said = [*sessions("b.example"), *sessions("a.example", 100), verdict(200, "http://c.example/")]
    said += [verdict(201, ""), verdict(202, "dns:a.example")]
    with VerdictsByHost() as table:
        for place, each in enumerate(said):
            table.add(each, place)
        found = list(table.hints(HintLimits()))
    assert [(each.host, each.urls, each.contents) for each in found] == [
        ("a.example", 60, 30), ("b.example", 60, 30),
    ]  # fmt: skip
    assert [hint.name for each in found for hint in each.hints] == ["sid", "sid"]
    assert (table.judged, table.without_host) == (123, 2)


def test_the_order_is_that_of_the_places_and_not_that_of_adding() -> None:
    said = list(enumerate(sessions("a.example")))
    results = []
    for order in (said, said[::-1]):
        with VerdictsByHost() as table:
            for place, each in order:
                table.add(each, place)
            results.append(list(table.hints(HintLimits())))
    assert results[0] == results[1]


def test_verdicts_of_two_indexes_do_not_share_contents() -> None:
    with VerdictsByHost() as table:
        for place, each in enumerate(sessions("a.example")):
            table.add(msgspec.structs.replace(each, index=each.url[-1]), place)
        assert list(table.hints(HintLimits())) == []


def test_a_disk_that_refuses_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", "/scratch")
    with VerdictsByHost() as table:
        table._database.execute("PRAGMA max_page_count = 4")  # noqa: SLF001 - a full disk
        table.add(verdict(0, f"http://a.example/{'x' * 100_000}"), 0)
        with pytest.raises(InputError, match=r"sorted in /scratch .* folder in TMPDIR"):
            list(table.hints(HintLimits()))
    with pytest.raises(sqlite3.ProgrammingError):
        table._database.execute("SELECT 1")  # noqa: SLF001 - it is closed
