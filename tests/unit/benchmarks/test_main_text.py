import pytest

from benchmarks import main_text, main_text_pages, main_text_picture, main_text_sites
from benchmarks.main_text_stream import Reader, Stream
from benchmarks.training.marked import MarkedPage
from streamer.text.main_text import new_main_text, read_model
from tests.unit.text.test_main_text import ARTICLE, PAGE


def test_tables_are_made_of_a_few_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(main_text_pages, "ARTICLES", 2)
    tables = list(main_text.made_tables(main_text.WHAT))
    assert [table.row_count > 0 for table in tables] == [True]
    reader = Reader(new_main_text(read_model()))
    who = main_text.ways([reader] * main_text.FOLDS, {})
    marked = main_text.Marked("a", main_text.NEWSPAPERS, MarkedPage(PAGE, "\n".join(ARTICLE)))
    other = main_text.Marked("b", "other", marked.page)
    assert main_text.marked_table([marked, other], who).row_count == 2
    assert main_text.kinds_table([marked, other], who).row_count == 2
    assert main_text.speed_table("a page", [PAGE], {}, 1).row_count == 6


def test_a_stream_finds_an_article_on_another_site() -> None:
    page = main_text.SitePage("http://a.example/1", PAGE, "river", "one")
    stream, found = main_text_sites.judged([page, page._replace(group="two")], [read_model()])
    assert (stream.outcome.new, stream.outcome.found_elsewhere) == (1, 1)
    assert found == {"two": "1.000"}
    assert Stream(0.8).outcome.f1 == 0


def test_the_picture_has_two_pages() -> None:
    assert main_text_picture.picture().count(": text is ") == 2
