from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from streamer.console import answers
from streamer.console.answers import (
    ClusterQuery,
    ClustersQuery,
    ConsoleData,
    HostsQuery,
    LettersQuery,
    NotFound,
    PageQuery,
    PagesQuery,
    WrongQuery,
)
from streamer.model import Location, Representative, Verdict
from tests.helpers.verdict_lines import duplicate, unique, url_of
from tests.unit.console.conftest import LINES, folded

encoded = msgspec.json.encode
JUDGED = [line for line in LINES if isinstance(line, Verdict)]


def test_a_page_is_found_by_its_url_with_all_versions(data: ConsoleData) -> None:
    found = answers.page(data, PageQuery(url_of(0)))
    assert [one.place for one in found.found] == ["pages.jsonl:18", "pages.jsonl:0"]
    newest, first = found.found
    assert (newest.verdict.change, newest.cluster_duplicates) == ("replaced", 0)
    assert (first.cluster_duplicates, first.representative_place) == (15, None)
    assert "so it is kept" in first.why


def test_a_page_is_found_by_its_place(data: ConsoleData) -> None:
    (one,) = answers.page(data, PageQuery("pages.jsonl:5")).found
    assert encoded(one.verdict) == encoded(duplicate(5, of=0, similarity=0.85))
    assert one.representative_place == "pages.jsonl:0"
    assert one.why == "The similarity to the nearest kept page reaches the threshold."


def test_a_dead_letter_is_found_by_its_place(data: ConsoleData) -> None:
    (letter,) = answers.page(data, PageQuery("pages.jsonl:24")).letters
    assert letter.record == "\ufffd<script>alert(1)</script>"
    hidden = answers.page(replace(data, shows_text=False), PageQuery("pages.jsonl:24"))
    assert hidden.letters[0].record == ""


@pytest.mark.parametrize(
    "name",
    ["", "other", "pages.jsonl:99", "pages.jsonl:", ":5", "pages.jsonl:-5", "pages.jsonl:\u0665"],
)
def test_what_is_not_there_is_not_found(data: ConsoleData, name: str) -> None:
    found = answers.page(data, PageQuery(name))
    assert (found.found, found.letters) == ([], [])
    for number in (str(2**70), "9" * 5000):
        assert answers.page(data, PageQuery(f"pages.jsonl:{number}")).found == []


def test_offsets_end_where_the_next_one_would_be_refused() -> None:
    least = answers._next(10**5 - 50, 50, 50)  # noqa: SLF001 - 100,000 hosts take a second
    assert (least, answers._next(10**5, 50, 50)) == (10**5, None)  # noqa: SLF001 - as above


def test_pages_come_as_they_were_published(data: ConsoleData) -> None:
    found, after = [], 0
    while True:
        part = answers.pages(data, PagesQuery(after=after, limit=7))
        found += part.pages
        if part.next is None:
            break
        after = part.next
    assert encoded(found) == encoded(JUDGED)


@pytest.mark.parametrize(
    ("query", "offsets"),
    [
        (PagesQuery(url=url_of(0)), [0, 18]),
        (PagesQuery(place="pages.jsonl:3"), [3]),
        (PagesQuery(host="www.site1.example", limit=2), [1, 4]),
        (PagesQuery(cluster="pages.jsonl:1"), [17]),
        (PagesQuery(host="nowhere"), []),
    ],
    ids=["url", "place", "host", "cluster", "none"],
)
def test_pages_are_found_by_one(data: ConsoleData, query: PagesQuery, offsets: list[int]) -> None:
    assert [each.page.offset for each in answers.pages(data, query).pages] == offsets


@pytest.mark.parametrize("by", ["url", "place", "cluster"])
def test_pages_of_names_alike_come_once_each_and_end(tmp_path: Path, by: str) -> None:
    one, other = Location("a", 1, 0), Location("a/1", 0, 0)  # both are written as a/1:0
    lines = [msgspec.structs.replace(unique(0, "same"), page=page) for page in (one, other)]
    lines += [
        msgspec.structs.replace(duplicate(n, of=0), representative=Representative(page, "same"))
        for n, page in ((1, other), (2, one), (3, other), (4, one))
    ]
    name = "same" if by == "url" else "a/1:0"
    with folded(tmp_path, *lines) as data:
        wanted = {"url": lines[:2], "place": lines[:2], "cluster": lines[2:]}[by]
        found, after = [], 0
        for _ in range(len(wanted) + 1):
            query = msgspec.convert({by: name, "after": after, "limit": 1}, PagesQuery)
            part = answers.pages(data, query)
            found += part.pages
            if part.next is None:
                break
            after = part.next
    assert encoded(found) == encoded(wanted)
    assert part.next is None


def test_two_things_are_refused(data: ConsoleData) -> None:
    with pytest.raises(WrongQuery, match="Give one of url and host"):
        answers.pages(data, PagesQuery(url="a", host="b"))


def test_clusters_come_largest_first_and_by_host(data: ConsoleData) -> None:
    first = answers.clusters(data, ClustersQuery(limit=1))
    (row,) = first.clusters
    assert (row.place, row.url, row.host, row.duplicates) == (
        "pages.jsonl:0", url_of(0), "www.site0.example", 15,
    )  # fmt: skip
    rest = answers.clusters(data, ClustersQuery(limit=1, offset=first.next or 0))
    assert rest.clusters == answers.clusters(data, ClustersQuery("www.site1.example")).clusters
    assert [row.duplicates for row in rest.clusters] == [1]


def test_a_cluster_has_its_duplicates_page_by_page(data: ConsoleData) -> None:
    first = answers.cluster(data, ClusterQuery("pages.jsonl:0", limit=10))
    rest = answers.cluster(data, ClusterQuery("pages.jsonl:0", offset=first.next or 0, limit=10))
    members = [each.page.offset for part in (first, rest) for each in part.members]
    assert (members, rest.next) == ([*range(2, 17)], None)
    with pytest.raises(NotFound, match=r"pages\.jsonl:5"):
        answers.cluster(data, ClusterQuery("pages.jsonl:5"))


@pytest.mark.parametrize("sort", ["duplicates", "share", "pages", "host"])
def test_hosts_come_in_each_order(data: ConsoleData, sort: str) -> None:
    query = msgspec.convert({"sort": sort}, HostsQuery)
    found = answers.hosts(data, query).hosts
    assert {row.host: (row.pages, row.duplicates) for row in found} == {
        "www.site0.example": (7, 5),
        "www.site1.example": (6, 5),
        "www.site2.example": (6, 6),
    }
    values = [getattr(row, sort) for row in found]
    assert values == sorted(values, reverse=sort != "host")
    assert len(answers.hosts(data, HostsQuery(least=7)).hosts) == 1


def test_dead_letters_of_a_code_come_with_a_remedy(data: ConsoleData) -> None:
    assert answers.dead_letters(data, LettersQuery()).letters == []
    first = answers.dead_letters(data, LettersQuery("missing_url", limit=3))
    rest = answers.dead_letters(data, LettersQuery("missing_url", first.next or 0))
    (to_do, other) = first.codes
    assert (to_do.code, to_do.letters, to_do.remedy) == ("missing_url", 4, "Check --fields.")
    assert other.remedy.startswith("Look at the producer: ")
    places = [each.place for part in (first, rest) for each in part.letters]
    assert places == [f"pages.jsonl:{n}" for n in range(20, 24)]
    assert first.letters[0].record == '{"uri": "x"}'
