import csv

import pytest

from streamer.console import answers
from streamer.console.answers import ClusterQuery, ConsoleData, HostsQuery, LettersQuery
from streamer.console.render import Renderer, amount, csv_of, percent, visible


@pytest.mark.parametrize(
    ("part", "said"),
    [(0, "0.0 %"), (0.0004, "< 0.1 %"), (0.421, "42.1 %"), (0.9999, "> 99.9 %"), (1, "100.0 %")],
)
def test_a_share_is_near_none_and_all_only_where_it_is(part: float, said: str) -> None:
    assert percent(part) == said


@pytest.mark.parametrize(
    ("size", "said"), [(0, "0 bytes"), (999, "999 bytes"), (1500, "1.5 kB"), (2**51, "2,251.8 TB")]
)
def test_an_amount_has_its_unit(size: int, said: str) -> None:
    assert amount(size) == said


def test_what_steers_a_reader_is_replaced() -> None:
    assert visible("a\x00b\u202ec\x9b d\n") == "a\ufffdb\ufffdc\ufffd d\n"
    assert visible(5) == 5


def test_a_link_has_its_parameters_escaped() -> None:
    link = Renderer("/console").link
    assert link("/page", page="a b&c=<d>", host=None) == "/console/page?page=a+b%26c%3D%3Cd%3E"
    assert link("/hosts") == "/console/hosts"


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(text.splitlines()))


def test_rows_have_the_fields_of_an_answer_flat(data: ConsoleData) -> None:
    found = rows_of(csv_of(answers.cluster(data, ClusterQuery("pages.jsonl:0")), ("members",)))
    assert len(found) == 15
    assert found[0] | {"url": ""} == found[0] | {
        "url": "", "page_offset": "2", "similarity": "0.82", "representative_page_offset": "0",
    }  # fmt: skip


def test_the_first_list_with_rows_is_the_table(data: ConsoleData) -> None:
    for query, columns in (
        (LettersQuery(), {"code", "letters", "sources", "remedy"}),
        (LettersQuery("invalid_json"), {"number", "place", "code", "detail", "key", "record"}),
    ):
        (first, *_) = rows_of(csv_of(answers.dead_letters(data, query), ("letters", "codes")))
        assert columns <= first.keys()


def test_an_answer_without_rows_is_an_empty_table(data: ConsoleData) -> None:
    assert csv_of(answers.hosts(data, HostsQuery(least=999)), ("hosts",)).strip() == ""
