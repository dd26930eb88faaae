"""Verdicts sorted by host: what is added, in which order, and what the disk refuses."""

import sqlite3

import msgspec
import pytest

from streamer.analysis.hints.hint import HintLimits
from streamer.analysis.hints.learn import VerdictsByHost
from streamer.errors import InputError
from streamer.model import Decision, Location, Representative
from streamer.run.verdict_lines import VerdictLine


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
        with pytest.raises(InputError, match=r"sorted in /scratch .* folder in TMPDIR"):
            table.add(verdict(0, f"http://a.example/{'x' * 100_000}"), 0)
    with pytest.raises(sqlite3.ProgrammingError):
        table._database.execute("SELECT 1")  # noqa: SLF001 - it is closed
