"""Survivors among the pages: the join against a plain oracle, and pages of another run."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streamer.analysis.clusters import Rank, Scope, host_or_url, numbering, ranking
from streamer.analysis.survivors import Survivors, find_survivors, read_urls
from streamer.errors import InputError
from streamer.pages.chunk import PageBatch
from tests.unit.analysis.test_clusters import place, verdict, write

FILES = ("in/a.jsonl", "in/b.jsonl")
PAGES = 8  # of each file
EARLIEST, LONGEST = (ranking(policy)[0] for policy in ("earliest", "longest"))
RANKS = {
    "earliest": (EARLIEST, lambda _said: ()),
    "longest": (LONGEST, lambda said: (-said["text_bytes"],)),
    "least": (ranking("n:min")[0], lambda said: (said["carried"].get("n", 99),)),
}


def url_of(number: int) -> str:
    return f"http://{number % 2}.example/{number}"


def batch(*ordinals: int, first: int = 0) -> PageBatch:
    """Return the pages with these ordinals; the URL is by `first` plus the ordinal."""
    urls = [url_of(first + ordinal).encode() for ordinal in ordinals]
    return PageBatch(0, 99, sequences=[*ordinals], urls=urls)


def survivors(
    path: Path,
    said: list[Any],
    rank: Rank = EARLIEST,
    scope: Scope = Scope.NONE,
    excluded: frozenset[str] = frozenset(),
) -> Survivors:
    file = write(path / "verdicts.jsonl", said)
    return find_survivors(file, rank, numbering(scope), excluded)[1]


def judged(number: int, of: int | None, **more: Any) -> Any:
    """Return a verdict on the page of this number, counted over both files."""
    said = verdict(number, of, url_of(number), page=own_place(number), **more)
    if of is not None:
        said["representative"] = {"page": own_place(of), "url": url_of(of)}
    return said


def own_place(number: int) -> dict[str, Any]:
    return place(number % PAGES, FILES[number // PAGES])


def expected(
    said: list[Any], key: Any, scope: Scope, excluded: frozenset[str]
) -> tuple[list[int], int]:
    """Return the survivors by plain search, and how many pages are left out by their URL."""
    members: dict[int, tuple[int, int, Any]] = {}
    for line, one in enumerate(said):
        members.setdefault(number_of(one["page"]), (1, line, one))
    edges = [(number_of(one["page"]), line, one["representative"]) for line, one in enumerate(said)]
    edges = [(one, line, number_of(other["page"])) for one, line, other in edges if other]
    for _, line, other in edges:  # which may have been judged before the file began
        members.setdefault(other, (0, -line, {"text_bytes": 0, "carried": {}}))
    cluster = {number: number for number in range(2 * PAGES)}
    for _ in range(2 * PAGES):
        for one, _, other in edges:
            cluster[one] = cluster[other] = min(cluster[one], cluster[other])
    clusters: dict[Any, list[Any]] = {}
    for number, (is_judged, line, one) in members.items():
        split = host_or_url(url_of(number)) if scope is Scope.HOST else ""
        ranks = (url_of(number) in excluded, key(one), is_judged, line, number)
        clusters.setdefault((cluster[number], split), []).append(ranks)
    chosen = {min(each)[-1] for each in clusters.values()}
    judged = {number for number, (is_judged, *_) in members.items() if is_judged}
    left_out = {number for number in judged if url_of(number) in excluded}
    return sorted(chosen & judged - left_out), len(left_out)


def number_of(page: Any) -> int:
    return int(FILES.index(page["topic"]) * PAGES + page["offset"])


NUMBERS = st.integers(0, 2 * PAGES - 1)
VERDICTS = st.lists(
    st.tuples(NUMBERS, st.none() | NUMBERS, st.integers(0, 3), st.integers(0, 2)),
    max_size=30, unique_by=lambda each: each[0],
)  # fmt: skip


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(VERDICTS, st.sampled_from([*RANKS]), st.sampled_from([Scope.NONE, Scope.HOST]),
       st.frozensets(NUMBERS, max_size=4))  # fmt: skip
def test_the_join_finds_the_survivors_of_a_plain_search(
    tmp_path: Path,
    pairs: list[tuple[int, int | None, int, int]],
    policy: str,
    scope: Scope,
    numbers: frozenset[int],
) -> None:
    said = [
        judged(one, None if of == one else of, text_bytes=size, carried={"n": n} if n else {})
        for one, of, size, n in pairs
    ]
    excluded = frozenset(map(url_of, numbers))
    rank, key = RANKS[policy]
    found = survivors(tmp_path, said, rank, scope, excluded)
    found.expect(FILES)
    chosen = [
        (of * PAGES + ordinal)
        for of, name in enumerate(FILES)
        for half in ((0, 1, 2, 3), (4, 5, 6, 7))
        for ordinal in found.among(name, batch(*half, first=of * PAGES)).tolist()
    ]
    found.check_found()
    pages = len({one for one, *_ in pairs})
    wanted, left_out = expected(said, key, scope, excluded)
    assert chosen == wanted
    assert (found.written, found.excluded) == (len(wanted), left_out)
    assert found.dropped == pages - len(wanted) - left_out
    assert found.unjudged == 2 * PAGES - pages


def test_files_are_known_by_their_last_part_and_missing_ones_are_named(tmp_path: Path) -> None:
    found = survivors(tmp_path, [judged(0, None), judged(PAGES, 0), judged(PAGES + 1, None)])
    first, second = moved = [f"/elsewhere/{Path(name).name}" for name in FILES]
    found.expect(moved)
    assert found.among(first, batch(0)).tolist() == [0]
    assert found.among(second, batch(0, 1, first=PAGES)).tolist() == [1]
    with pytest.raises(InputError, match=r"the pages of 2 verdicts .* but in in/b\.jsonl"):
        found.expect([first, "x/b.jsonl", "y/b.jsonl"])
    with pytest.raises(InputError, match=r"the pages of 2 verdicts are .* but in in/b\.jsonl\. N"):
        found.expect(FILES[:1])
    found.expect(FILES[:1], some=True)
    assert found.among(FILES[0], batch(0)).tolist() == [0]
    found.check_found()
    with pytest.raises(InputError, match=r"the pages of 3 verdicts"):
        found.expect(["other.jsonl"], some=True)


def test_of_several_pipes_of_one_name_none_is_taken(tmp_path: Path) -> None:
    said = [verdict(0, None, url_of(0), page=place(0, "-", 1))]
    found = survivors(tmp_path, said)
    found.expect(["-"])
    assert found.among("-", batch(0)).tolist() == [0]
    found = survivors(tmp_path, [*said, verdict(0, None, url_of(0), page=place(0, "-", 2))])
    with pytest.raises(InputError, match=r"the pages of 2 verdicts .* but in -/1, -/2\."):
        found.expect(["-"])


def test_urls_are_read_a_line_each_and_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "urls.txt"
    file.write_bytes(
        "\ufeffhttp://a.example/ж\r\n\n  http://b.example/ \nhttp://c.example/".encode()
    )
    assert read_urls(file) == {"http://a.example/ж", "http://b.example/", "http://c.example/"}
    file.write_bytes(b"\xff\n")
    with pytest.raises(InputError, match=r"urls\.txt: "):
        read_urls(file)
    with pytest.raises(InputError, match=r"gone\.txt: No such file"):
        read_urls(tmp_path / "gone.txt")
