import csv

from streamer.console import answers
from streamer.console.answers import ClusterQuery, ConsoleData, HostsQuery, LettersQuery
from streamer.console.render import csv_of


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
