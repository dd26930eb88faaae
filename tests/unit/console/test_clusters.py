from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.console import queries
from streamer.console.answers import ClustersQuery, clusters
from streamer.console.clusters import describe_cluster, look_of, relation, relations_of
from streamer.console.view import QueryTooLong
from streamer.model import Verdict
from tests.helpers.verdict_lines import duplicate, unique, url_of
from tests.unit.console.conftest import folded


@pytest.mark.parametrize(
    ("one", "other", "found"),
    [
        ("https://a.example/x", "https://a.example/x", "new fetch"),
        ("https://www.a.example/x/", "http://a.example/X/index.html", "other address"),
        ("https://a.example/", "https://a.example", "other address"),
        ("https://a.example/x", "https://a.example/x?PHPSESSID=1", "session ids"),
        ("https://a.example/x?id=1&s=3f9a0b1c2d4e5f60", "https://a.example/x?id=1", "session ids"),
        ("https://a.example/x;jsessionid=1A", "https://a.example/x;jsessionid=2B", "session ids"),
        ("https://a.example/x?utm_source=a&utm_medium=b", "https://a.example/x", "tracking"),
        ("https://a.example/x?from=berlin", "https://a.example/x?from=paris", "parameters"),
        ("https://a.example/x?source=a", "https://a.example/x?source=b", "parameters"),
        ("https://a.example/x?campaign=a", "https://a.example/x", "parameters"),
        ("http://a.example:8080/x", "http://a.example:9090/x", "mirror"),
        ("http://a.example:80/x", "https://www.a.example:443/x", "other address"),
        ("http://[::1]:8080/x", "http://[::1]/x", "mirror"),
        ("https://a.example/x?sort=up", "https://a.example/x?sort=down", "parameters"),
        ("https://a.example/x?print=1", "https://a.example/x", "print view"),
        ("https://a.example/x/print/", "https://a.example/x/", "print view"),
        ("https://m.a.example/x", "https://a.example/x", "print view"),
        ("https://a.example/x", "https://b.example/x", "mirror"),
        ("https://a.example/", "https://b.example/", "other sites"),
        ("https://a.example/x", "https://b.example/y", "other sites"),
        ("https://a.example/x", "https://a.example/printing-press", "same site"),
        ("https://[a.example/", "https://a.example/", "other sites"),
        ("", "https://a.example/x", "other sites"),
    ],
)
def test_a_duplicate_has_a_relation_to_its_representative(one: str, other: str, found: str) -> None:
    assert (relation(one, other), relation(other, one)) == (found, found)


def members(urls: list[str], similarity: float, text_bytes: int) -> list[Verdict]:
    return [
        msgspec.structs.replace(
            duplicate(n, of=0, similarity=similarity, url=url), text_bytes=text_bytes
        )
        for n, url in enumerate(urls, 1)
    ]


ONE_SITE = [f"https://a.example/{n}" for n in range(10)]
SITES = [f"https://{n}.example/{n}" for n in range(10)]


@pytest.mark.parametrize(
    ("urls", "similarity", "text_bytes", "kind"),
    [
        (ONE_SITE, 1.0, 400, "block page"),
        (SITES, 0.99, 400, "block page"),
        (ONE_SITE[:9], 1.0, 400, "copies"),
        (ONE_SITE, 0.85, 4000, "template"),
        (ONE_SITE, 0.85, 400, "template"),
        (SITES, 0.99, 9000, "copies"),
        (["https://b.example/other"], 1.0, 400, "copies"),
        ([f"https://{n}.example/start/x" for n in range(3)], 1.0, 9000, "mirror"),
        (["https://a.example/start/x?sid=1", "https://b.example/start/x"], 1.0, 9000, "mixed"),
        ([], 1.0, 0, "mixed"),
    ],
)
def test_a_cluster_looks_like_what_most_of_it_is(
    urls: list[str], similarity: float, text_bytes: int, kind: str
) -> None:
    look = look_of("https://a.example/start/x", members(urls, similarity, text_bytes))
    assert look.kind == kind
    assert look.why
    assert (sum(look.relations.values()), look.examined) == (len(urls), len(urls))


@given(st.text(), st.text())
def test_whatever_urls_are_they_have_a_relation(one: str, other: str) -> None:
    assert relation(one, other) == relation(other, one)


def test_the_time_of_a_relation_grows_with_the_url() -> None:
    hostile = f"https://a.example{'/(S(' * 50_000}"  # 200 kB, which took minutes
    assert relation(hostile, f"{hostile}?x") == "parameters"


def test_an_answer_about_urls_ends_in_time(tmp_path: Path) -> None:
    with folded(tmp_path, unique(0), duplicate(1, of=0)) as data, data.read() as view:
        data.view.stopped.set()
        with pytest.raises(QueryTooLong):
            relations_of(view)
        with pytest.raises(QueryTooLong):
            describe_cluster(view, queries.clusters(view, queries.CLUSTER_OF_ALL)[0])


def test_what_grew_last_is_found_first(tmp_path: Path) -> None:
    old = [duplicate(n, of=0, url=f"https://a.example/{n}") for n in range(2, 30)]
    new = [duplicate(n, of=1, url=f"https://a.example/{n}") for n in range(30, 33)]
    with folded(tmp_path, unique(0), unique(1), *old, *new) as data:
        by_size = clusters(data, ClustersQuery())
        assert [(row.duplicates, row.recent) for row in by_size.clusters] == [(28, 1), (3, 3)]
        assert by_size.recent == 4
        growing = clusters(data, ClustersQuery(sort="recent", limit=1))
        assert [row.url for row in growing.clusters] == [url_of(1)]
        rest = clusters(data, ClustersQuery(sort="recent", offset=growing.next or 0))
        assert [row.url for row in rest.clusters] == [url_of(0)]
        of_host = clusters(data, ClustersQuery("www.site0.example", sort="recent")).clusters
        assert [row.recent for row in of_host] == [1]


def test_much_text_without_words_is_lost() -> None:
    lost = [msgspec.structs.replace(one, basis="too_short") for one in members(SITES, 1.0, 4000)]
    assert look_of("https://a.example/", lost).kind == "lost text"
    short = [msgspec.structs.replace(one, text_bytes=12) for one in lost]
    assert look_of("https://a.example/", short).kind == "block page"


def test_the_relations_of_the_newest_duplicates_are_counted(tmp_path: Path) -> None:
    mirror = [duplicate(n, of=0, url=f"https://m{n % 4 // 3}.example/page-0") for n in range(1, 9)]
    print_view = duplicate(9, of=0, url="https://www.site0.example/print/page-0")
    with folded(tmp_path, unique(0), *mirror, print_view) as data:
        found = clusters(data, ClustersQuery())
        assert [msgspec.structs.astuple(row) for row in found.relations] == [
            ("mirror", 8, "m0.example", "www.site0.example", 6),
            ("print view", 1, "www.site0.example", "www.site0.example", 1),
        ]
        assert clusters(data, ClustersQuery("www.site0.example")).relations == []
