from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from streamer.console import answers
from streamer.console.answers import ClusterQuery, ClustersQuery, ConsoleData, PageQuery, PagesQuery
from streamer.model import Location, Representative, Verdict
from tests.helpers.verdict_lines import duplicate, unique, url_of
from tests.unit.console.conftest import LINES, folded, texts_of

encoded = msgspec.json.encode
JUDGED = [line for line in LINES if isinstance(line, Verdict)]


def test_a_page_is_found_by_its_url_with_all_versions(data: ConsoleData) -> None:
    found = answers.page(data, PageQuery(url_of(0)))
    assert [one.place for one in found.found] == ["pages.jsonl:18", "pages.jsonl:0"]
    assert encoded(answers.page(data, PageQuery(f" {url_of(0)}\n"))) == encoded(found)
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


def parts(data: ConsoleData, **query: Any) -> list[Verdict]:
    """Return the verdicts of all parts of an answer, which end."""
    found: list[Verdict] = []
    after: int | None = 0
    while after is not None:
        assert len(found) <= len(LINES)
        part = answers.pages(data, msgspec.convert({**query, "after": after}, PagesQuery))
        found, after = [*found, *part.pages], part.next
    return found


def test_pages_come_as_they_were_published(data: ConsoleData) -> None:
    assert encoded(parts(data, limit=7)) == encoded(JUDGED)


@pytest.mark.parametrize(
    ("query", "offsets"),
    [
        (PagesQuery(url=url_of(0)), [0, 18]),
        (PagesQuery(place="pages.jsonl:3"), [3]),
        (PagesQuery(host="WWW.site1\uff0eexample", limit=2), [1, 4]),
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
        assert encoded(parts(data, limit=1, **{by: name})) == encoded(wanted)


def test_two_things_are_refused(data: ConsoleData) -> None:
    with pytest.raises(answers.WrongQuery, match="Give one of url and host"):
        answers.pages(data, PagesQuery(url="a", host="b"))


def test_clusters_come_largest_first_and_by_host(data: ConsoleData) -> None:
    first = answers.clusters(data, ClustersQuery(limit=1))
    (row,) = first.clusters
    assert (row.place, row.url, row.host, row.duplicates) == (
        "pages.jsonl:0", url_of(0), "www.site0.example", 15,
    )  # fmt: skip
    rest = answers.clusters(data, ClustersQuery(limit=1, offset=first.next or 0))
    assert rest.clusters == answers.clusters(data, ClustersQuery("www.Site1.example")).clusters
    assert [row.duplicates for row in rest.clusters] == [1]


def test_a_cluster_has_its_duplicates_page_by_page(data: ConsoleData) -> None:
    first = answers.cluster(data, ClusterQuery("pages.jsonl:0", limit=10))
    rest = answers.cluster(data, ClusterQuery("pages.jsonl:0", offset=first.next or 0, limit=10))
    members = [each.page.offset for part in (first, rest) for each in part.members]
    assert (members, rest.next) == ([*range(2, 17)], None)
    with pytest.raises(answers.NotFound, match=r"pages\.jsonl:5"):
        answers.cluster(data, ClusterQuery("pages.jsonl:5"))


@pytest.mark.parametrize("sort", ["duplicates", "share", "pages", "host"])
def test_hosts_come_in_each_order(data: ConsoleData, sort: str) -> None:
    found = answers.hosts(data, msgspec.convert({"sort": sort}, answers.HostsQuery)).hosts
    assert {row.host: (row.pages, row.duplicates) for row in found} == {
        "www.site0.example": (7, 5),
        "www.site1.example": (6, 5),
        "www.site2.example": (6, 6),
    }
    values = [getattr(row, sort) for row in found]
    assert values == sorted(values, reverse=sort != "host")
    assert len(answers.hosts(data, answers.HostsQuery(least=7)).hosts) == 1


def test_dead_letters_of_a_code_come_with_a_remedy(data: ConsoleData) -> None:
    assert answers.dead_letters(data, answers.LettersQuery()).letters == []
    first = answers.dead_letters(data, answers.LettersQuery("missing_url", limit=3))
    rest = answers.dead_letters(data, answers.LettersQuery("missing_url", first.next or 0))
    (to_do, other) = first.codes
    assert (to_do.code, to_do.letters, to_do.remedy) == ("missing_url", 4, "Check --fields.")
    assert other.remedy.startswith("Look at the producer: ")
    places = [each.place for part in (first, rest) for each in part.letters]
    assert places == [f"pages.jsonl:{n}" for n in range(20, 24)]
    assert first.letters[0].record == '{"uri": "x"}'


@pytest.mark.parametrize(
    ("text", "offsets"),
    [
        ("https://www.site2.example/page-1", [11, 14, 17]),
        ("www.site1.example/page-1", [16, 13, 10, 1]),
        ("SITE1.example/PAGE-1", [16, 13, 10, 1]),
        ("page-17", [17]),
        ("page-99", []),
    ],
    ids=["beginning", "part", "capitals", "end", "none"],
)
def test_a_page_is_found_by_parts_of_urls(data: ConsoleData, text: str, offsets: list[int]) -> None:
    found = answers.page(data, PageQuery(text))
    assert found.found == []
    assert [each.page.offset for each in found.like] == offsets


def test_a_part_is_sought_in_the_newest(data: ConsoleData, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "LIKE_AMONG", 3)
    assert [one.page.offset for one in answers.page(data, PageQuery("page-1")).like] == [17, 16]


@pytest.mark.parametrize(
    ("query", "offsets"),
    [
        (ClusterQuery("pages.jsonl:0", sort="similarity", limit=2), [16, 15]),
        (ClusterQuery("pages.jsonl:0", sort="similarity", reverse="yes", limit=2), [2, 3]),
        (ClusterQuery("pages.jsonl:0", sort="url", limit=2), [12, 15]),
        (ClusterQuery("pages.jsonl:0", least=0.95), [15, 16]),
        (ClusterQuery("pages.jsonl:0", url="site1.example/page-1"), [10, 13, 16]),
    ],
)
def test_the_pages_of_a_cluster_are_sorted_and_filtered(
    data: ConsoleData, query: ClusterQuery, offsets: list[int]
) -> None:
    assert [each.page.offset for each in answers.cluster(data, query).members] == offsets


@pytest.mark.parametrize(
    ("query", "duplicates"),
    [
        (ClustersQuery(sort="url"), [15, 1]),
        (ClustersQuery(sort="host", reverse="yes"), [1, 15]),
        (ClustersQuery(reverse="yes"), [1, 15]),
        (ClustersQuery(least=2), [15]),
        (ClustersQuery(url="PAGE-1"), [1]),
        (ClustersQuery(host="site0"), [15]),
        (ClustersQuery(host="site", url="page-0", least=15), [15]),
        (ClustersQuery(host="site", sort="recent"), [1]),
    ],
)
def test_clusters_are_sorted_and_filtered(
    data: ConsoleData, query: ClustersQuery, duplicates: list[int]
) -> None:
    assert [row.duplicates for row in answers.clusters(data, query).clusters] == duplicates


def test_hosts_are_filtered_and_turned(data: ConsoleData) -> None:
    found = answers.hosts(data, answers.HostsQuery("host", host="SITE", reverse="yes")).hosts
    assert [row.host for row in found] == [f"www.site{n}.example" for n in (2, 1, 0)]
    assert answers.hosts(data, answers.HostsQuery(host="site1", least=7)).hosts == []


def test_a_page_without_an_index_has_its_text_and_what_takes_long_is_left_out_unless_asked_for(
    data: ConsoleData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = {"url": url_of(0), "body": "<p>what  the page says"}
    data = replace(data, texts=texts_of(tmp_path / "pages.jsonl", page))
    found = answers.page(data, PageQuery("pages.jsonl:0"))
    assert "".join(part.text for part in found.text) == "what the page says"
    assert answers.page(replace(data, shows_text=False), PageQuery("pages.jsonl:0")).text == []
    monkeypatch.setattr(answers, "_AT_ONCE_SECONDS", -1.0)
    found = answers.page(data, PageQuery("pages.jsonl:0"))
    assert (len(found.found), found.text) == (1, [])
    assert found.note == "Reading the index and the text takes more than -1 seconds."
    assert answers.page(data, PageQuery("pages.jsonl:0", "yes")).text != []
