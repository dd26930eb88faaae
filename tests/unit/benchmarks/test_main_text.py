from benchmarks import main_text, main_text_picture, main_text_sites
from benchmarks.main_text_stream import Stream
from streamer.text.main_text import read_model
from tests.unit.text.test_main_text import PAGE


def test_a_stream_finds_an_article_on_another_site() -> None:
    page = main_text.SitePage("http://a.example/1", PAGE, "river", "one")
    stream, found = main_text_sites.judged([page, page._replace(group="two")], [read_model()])
    assert (stream.outcome.new, stream.outcome.found_elsewhere) == (1, 1)
    assert found == {"two": "1.000"}
    assert Stream(0.8).outcome.f1 == 0


def test_the_picture_has_two_pages() -> None:
    assert main_text_picture.picture().count(": text is ") == 2
