"""No query of the view reads more rows than it shows, or sorts them: by SQLite's own plans."""

import pytest

from streamer.console import queries
from streamer.console.answers import ConsoleData
from streamer.console.queries import refs_of, verdicts

VALUES = {
    "url": "u", "url_key": 1, "ref": 1, "host": "h", "code": "c", "name": "n",
    "after": 5, "limit": 10, "offset": 0, "least": 1, "text": "t",
}  # fmt: skip
BY_NUMBER = [queries.OF_ALL, queries.OF_URL, queries.OF_REF, queries.OF_HOST, queries.OF_CLUSTER]
ONES = {
    **{
        f"verdicts {condition}": queries.VERDICTS.format(condition=condition, order="page.number")
        for condition in BY_NUMBER
    },
    "like": queries.VERDICTS.format(condition=queries.OF_PREFIX, order="page.number"),
    "versions": queries.VERDICTS.format(condition=queries.OF_URL, order="page.number DESC"),
    **{
        f"clusters {condition}": queries.CLUSTERS.format(
            among="cluster", condition=condition, order="duplicates DESC"
        )
        for condition in (
            queries.CLUSTER_OF_ALL, queries.CLUSTER_OF_REF,
            f"{queries.CLUSTER_OF_ALL} AND {queries.CLUSTER_OF_HOST}",
        )
    },
    **{
        f"letters {condition}": queries.LETTERS.format(condition=condition)
        for condition in (queries.LETTER_OF_CODE, queries.LETTER_OF_REF)
    },
    "hosts": queries.HOSTS.format(condition="pages >= :least", order="duplicates DESC"),
}  # fmt: skip


@pytest.mark.parametrize("query", ONES.values(), ids=ONES)
def test_a_query_finds_its_rows_by_an_index(data: ConsoleData, query: str) -> None:
    with data.view.read(5) as view:
        plan = [row["detail"] for row in view.execute(f"EXPLAIN QUERY PLAN {query}", VALUES)]
    scans = [step for step in plan if step.startswith("SCAN") and "USING INDEX" not in step]
    assert scans == []
    assert not [step for step in plan if "TEMP B-TREE" in step]


def test_values_are_no_part_of_a_query(data: ConsoleData) -> None:
    name = "x' OR 1=1 --"
    with data.view.read(5) as view:
        assert verdicts(view, queries.OF_HOST, 10, host=name) == []
        assert verdicts(view, queries.OF_URL, 10, url=name) == []
        assert [*refs_of(view, f"{name}:1")] == []
        assert len(verdicts(view, queries.OF_ALL, 500)) == 19
