"""Clusters of a verdict file: scopes, survivors, rows, what is suspicious; and the command."""

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streamer.analysis.clusters import (
    Grouping,
    Scope,
    domain_of,
    group,
    host_or_url,
    numbering,
    ranking,
    rows,
    suspects,
    write_csv,
    write_jsonl,
)
from streamer.errors import InputError, SettingsError
from streamer.run.verdict_lines import VerdictLine


def place(offset: int, topic: str = "pages.jsonl", partition: int = 0) -> dict[str, Any]:
    return {"topic": topic, "partition": partition, "offset": offset}


def verdict(offset: int, of: int | None = None, url: str | None = None, **more: Any) -> Any:
    """Return a verdict on page `offset`; its representative, if any, is page `of`."""
    said: dict[str, Any] = {
        "page": place(offset),
        "url": url or f"http://a.example/{offset}",
        "verdict": "unique" if of is None else "duplicate",
        "representative": None,
    }
    if of is not None:
        said["representative"] = {"page": place(of), "url": f"http://a.example/{of}"}
    return {**said, **more}


def write(path: Path, said: Sequence[Any]) -> Path:
    path.write_text("".join(json.dumps(one) + "\n" for one in said), "utf-8")
    return path


def found(
    path: Path, said: list[Any], policy: str = "earliest", scope: Scope = Scope.NONE
) -> list[list[str]]:
    """Return the URLs of each cluster without what they begin with, the survivor first."""
    file = write(path / "verdicts.jsonl", said)
    clusters: dict[int, list[str]] = {}
    for row in rows(file, group(file, ranking(policy)[0], numbering(scope))):
        members = clusters.setdefault(row.cluster, [])
        assert row.survivor == (not members)
        members.append(row.url.removeprefix("http://a.example/"))
    assert list(clusters) == list(range(1, len(clusters) + 1))
    return list(clusters.values())


HTTPS = ["http://b", "http://c", "HTTPS://d", "https://e"]
# By what is shown: verdicts, the policy, and the clusters, the survivor of each first.
POLICIES: dict[str, tuple[list[Any], str, list[list[str]]]] = {
    "the same offset in another partition or topic is another page": (
        [verdict(0), verdict(1, 0), verdict(0, url="p1", page=place(0, partition=1)),
         verdict(1, url="t2", page=place(1, topic="other"))],
        "earliest", [["0", "1"]]),
    "a representative of an earlier file comes first with the URL it is known by": (
        [verdict(7, 3), verdict(8), verdict(9, 3)], "earliest", [["3", "7", "9"]]),
    "a verdict after the first use of its page is still its verdict": (
        [verdict(5, 2, text_bytes=10), verdict(2, text_bytes=30), verdict(6, 2, text_bytes=20)],
        "earliest", [["5", "2", "6"]]),
    "an https page survives, of several the earliest": (
        [verdict(n, 0 if n else None, url) for n, url in enumerate(HTTPS)],
        "https", [[HTTPS[2], HTTPS[3], HTTPS[0], HTTPS[1]]]),
}  # fmt: skip


@pytest.mark.parametrize("shown", POLICIES)
def test_the_survivor_of_a_cluster_comes_first(tmp_path: Path, shown: str) -> None:
    said, policy, clusters = POLICIES[shown]
    assert found(tmp_path, said, policy) == clusters


def test_dead_letters_and_blank_lines_are_passed_over_and_no_repeat_counts(tmp_path: Path) -> None:
    file = write(tmp_path / "v.jsonl", [verdict(0), {"code": "invalid_json", "page": place(9)}])
    with file.open("a", encoding="utf-8") as more:
        more.write("\n" + json.dumps(verdict(1, 0)) + "\n")
        more.write(json.dumps(verdict(1, 0)) + "\n")
    grouping = group(file, ranking("earliest")[0], numbering(Scope.NONE))
    assert [row.url[-1] for row in rows(file, grouping)] == ["0", "1"]
    assert (grouping.judged, grouping.duplicates) == (3, 2)


def test_nutch_takes_score_then_fetch_time_then_the_decoded_length(tmp_path: Path) -> None:
    def carried(score: object, time: object) -> dict[str, Any]:
        return {"carried": {"score": score, "fetched_at": time}}

    said = [
        verdict(0, None, "http://x/low", **carried(0.5, "2026-01-09T00:00:00Z")),
        verdict(1, 0, "http://x/old", **carried("1.5", "2026-01-01T00:00:00Z")),
        verdict(2, 0, "http://x/newer", **carried(1.5, "2026-01-02T01:00:00+02:00")),
        verdict(3, 0, "http://x/%D0%B6", **carried(1.5, 1767308400)),  # the same moment
        verdict(4, 0, "http://x/none"),
        verdict(5, 0, "http://x/odd", **carried("a lot", "yesterday")),
    ]
    order = ["http://x/%D0%B6", "http://x/newer", "http://x/old", "http://x/low"]
    # Without a score: the shorter URL.
    assert found(tmp_path, said, "nutch") == [[*order, "http://x/odd", "http://x/none"]]


def test_a_field_has_the_greatest_or_the_least_number_or_time() -> None:
    def order(text: str, *values: object) -> list[int]:
        rank, (field,) = ranking(text)
        ranks = [rank(VerdictLine(carried={field: value})) for value in values]
        return sorted(range(len(values)), key=ranks.__getitem__)

    numbers = (2, "10", -1.5, None, "none", 10)
    assert order("a:max", *numbers) == [1, 5, 0, 2, 3, 4]
    assert order("a:min", *numbers) == [2, 0, 1, 5, 3, 4]
    times = ("2026-01-02T00:00:00Z", "2026-01-02T00:00:00+02:00", "2025-12-31", [1])
    assert order("seen:at:max", *times) == [0, 1, 2, 3]
    assert order("seen:at:min", *times) == [2, 1, 0, 3]


@pytest.mark.parametrize("text", ["", "max", ":max", "score", "score:", "score:most"])
def test_a_policy_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match="is none of earliest, longest, https, nutch, FIELD"):
        ranking(text)


def test_a_scope_splits_a_cluster_and_what_is_alone_in_it_is_in_none(tmp_path: Path) -> None:
    urls = [
        "http://www.d.example/", "http://b.co.uk/1", "http://www.b.co.uk/2", "http://b.co.uk/3",
        "http://d.example/", "http://c.co.uk/",
    ]  # fmt: skip
    said = [verdict(n, None if n == 0 else 0, url) for n, url in enumerate(urls)]
    assert found(tmp_path, said) == [urls]
    assert found(tmp_path, said, scope=Scope.HOST) == [[urls[1], urls[3]]]
    assert found(tmp_path, said, scope=Scope.DOMAIN) == [[urls[0], urls[4]], urls[1:4]]


@pytest.mark.parametrize(
    ("url", "host", "domain"),
    [
        ("https://WWW.Example.co.uk:8443/a", "www.example.co.uk", "example.co.uk"),
        ("http://[2001:DB8::1]/", "[2001:db8::1]", "[2001:db8::1]"),
        ("http://co.uk/", "co.uk", "co.uk"),
        ("http://www.пример.рф/", "www.xn--e1afmkfd.xn--p1ai", "xn--e1afmkfd.xn--p1ai"),
        ("no url", "no url", "no url"),
        ("http://[broken/", "http://[broken/", "http://[broken/"),
    ],
)
def test_host_and_domain_of_a_url(url: str, host: str, domain: str) -> None:
    assert host_or_url(url) == host
    assert domain_of(url) == domain


PAIRS = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), max_size=20)


def plain_clusters(pairs: dict[int, int]) -> set[frozenset[int]]:
    """Return the connected sets of a graph by plain search."""
    sets: list[set[int]] = []
    for one, other in pairs.items():
        joined = {one, other}
        for known in [s for s in sets if s & joined]:
            sets.remove(known)
            joined |= known
        sets.append(joined)
    return {frozenset(s) for s in sets if len(s) > 1}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(PAIRS, st.sampled_from(Scope))
def test_clusters_are_the_connected_sets_and_with_single_pages_each_page_is_in_one(
    tmp_path: Path, pairs: list[tuple[int, int]], scope: Scope
) -> None:
    by_page = {one: other for one, other in pairs if one != other}
    said = [verdict(one, by_page.get(one), f"http://{one % 2}/{one}") for one in range(13)]
    file = write(tmp_path / "verdicts.jsonl", said)
    found_ones = []
    for alone in (False, True):
        grouping = group(file, ranking("earliest")[0], numbering(scope), alone=alone)
        clusters: dict[int, list[int]] = {}
        for row in rows(file, grouping):
            clusters.setdefault(row.cluster, []).append(row.page.offset)
        found_ones.append([*clusters.values()])
    large, every = found_ones
    if scope is Scope.NONE:
        assert {*map(frozenset, large)} == plain_clusters(by_page)
    assert [one for one in every if len(one) > 1] == large
    assert sorted(page for one in every for page in one) == [*range(13)]
    assert every == sorted(map(sorted, every))


def grouped(path: Path, said: list[Any]) -> tuple[Path, Grouping]:
    file = write(path / "verdicts.jsonl", said)
    return file, group(file, ranking("earliest")[0], numbering(Scope.NONE))


def test_rows_as_json_lines_and_as_csv(tmp_path: Path) -> None:
    url = 'http://a.example/"1",\u0436'
    file, grouping = grouped(tmp_path, [verdict(0), verdict(1, 0, url)])
    lines, table = io.StringIO(), io.StringIO()
    write_jsonl(lines, rows(file, grouping))
    write_csv(table, rows(file, grouping))
    first, second = map(json.loads, lines.getvalue().splitlines())
    assert first == {
        "cluster": 1, "pages": 2, "survivor": True, "url": "http://a.example/0", "page": place(0),
    }  # fmt: skip
    assert (second["survivor"], second["url"], second["page"]) == (False, url, place(1))
    read = list(csv.DictReader(io.StringIO(table.getvalue())))
    assert [row["survivor"] for row in read] == ["1", "0"]
    assert read[1] == {
        "cluster": "1", "pages": "2", "survivor": "0", "url": url,
        "topic": "pages.jsonl", "partition": "0", "offset": "1",
    }  # fmt: skip


def test_a_cluster_with_a_large_share_of_a_source_is_suspicious(tmp_path: Path) -> None:
    other = [verdict(n, None if n == 0 else 0, page=place(n, "crawl", 3)) for n in range(1, 20)]
    said = [verdict(n) for n in range(80)]
    said += [verdict(80 + n, 0) for n in range(19)]
    file, grouping = grouped(tmp_path, [*said, *other])
    # Of the first source 20 of 99 pages, of the other all 19.
    full, fifth = suspects(file, grouping, 0.2)
    assert full[:3] == ("crawl/3", 19, 1.0)
    assert fifth[:3] == ("pages.jsonl", 20, 20 / 99)
    assert full.survivor == fifth.survivor == "http://a.example/0"
    assert len(suspects(file, grouping, 0.21)) == 1


def test_a_cluster_of_fewer_than_ten_pages_is_never_suspicious(tmp_path: Path) -> None:
    for pages, count in ((9, 0), (10, 1)):
        said = [verdict(n, None if n == 0 else 0) for n in range(pages)]
        assert len(suspects(*grouped(tmp_path, said), 0.2)) == count


@pytest.mark.parametrize("size", [-1, 1 << 63, 10**400])
def test_a_malformed_length_is_an_error_with_its_line(size: int, tmp_path: Path) -> None:
    file = write(tmp_path / "verdicts.jsonl", [verdict(0), verdict(1, of=0, text_bytes=size)])
    with pytest.raises(InputError, match=r"verdicts\.jsonl:2: not a verdict \("):
        group(file, ranking("longest")[0], numbering(Scope.NONE))
