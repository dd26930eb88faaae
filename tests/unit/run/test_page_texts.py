"""The text of a page has the words that are compared, a line for each block."""

import gzip

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import streamer
from streamer.errors import InputError
from streamer.run.page_texts import TextReader
from streamer.text.blocks import BLOCKS_MAX
from streamer.text.visible import ESCAPED, HTML, MAIN, visible_text
from tests.integration.test_main_text import FLOOD, PAGES
from tests.integration.test_sites import crawl

PAGE = PAGES["http://news.example/flood"]

one_part = st.tuples(
    st.sampled_from(
        ["<p>", "<div>", "<li><a href=x>", "<b>", "<pre>\n", "<option>", "<br>", "</p>"]
    ),
    st.lists(
        st.sampled_from(["river", " dam \n", "he said.", "&amp;", "x", "<b>y</b>"]), max_size=9
    ),
)
html = st.lists(one_part, max_size=25).map(
    lambda parts: "".join(tag + "".join(words) for tag, words in parts)
)


def test_an_article_is_given_in_lines_with_its_title() -> None:
    found = streamer.extract(PAGE)
    assert (found.title, found.kind) == ("Politics", "main")
    assert found.text.split("\n") == ["What happened on this day", *FLOOD]
    assert streamer.extract(PAGE.encode("utf-16")).text == found.text
    latin = PAGE.replace("Politics", "Polit\xefque", 1).encode("latin-1", "replace")
    assert streamer.extract(b"<meta charset=iso-8859-1>" + latin).title == "Polit\xefque"
    with pytest.raises(TypeError, match="as str or bytes, not NoneType"):
        streamer.extract(None)  # type: ignore[arg-type]
    visible = streamer.extract(PAGE, text="visible")
    assert (visible.kind, visible.blocks) == ("visible", streamer.extract(PAGE).blocks)
    assert visible.text.split() == visible_text(PAGE.encode(), HTML).split()
    assert visible.text.count("\n") > 480


@pytest.mark.parametrize(
    ("head", "title"),
    [
        ("<titles>no</titles><TITLE lang=en>\nA &lt;b&gt;\tc</Title><title>d</title>", "A <b> c"),
        ("<title>" * 9_000, ""), ("<title " * 9_000, ""), ("<title>open", ""), ("", ""),
    ],
)  # fmt: skip
def test_the_title_is_that_of_the_first_element(head: str, title: str) -> None:
    assert streamer.extract(f"{head}<p>text").title == title


@pytest.mark.parametrize("body", [b"%PDF-1.7\n1 0 obj", gzip.compress(PAGE.encode())])
def test_what_is_no_text_is_refused(body: bytes) -> None:
    with pytest.raises(InputError, match="of another kind"):
        streamer.extract(body)


def test_what_is_preformatted_keeps_its_lines() -> None:
    code = "\n\ndef river(dam):\n    return dam &amp; bridge\n\n"
    page = f"<p>One  two\nthree<pre>{code}</pre> \n <p> \n <p>end"
    text = "One two three\ndef river(dam):\n    return dam & bridge\nend"
    assert streamer.extract(page) == streamer.ExtractedText("", "visible", text)


@settings(max_examples=200, deadline=None)
@given(html, st.sampled_from([0, MAIN]), st.sampled_from(["", "<p>" + FLOOD[0]]))
def test_lines_have_the_words_that_are_compared(page: str, flag: int, more: str) -> None:
    body = (page + more).encode()
    found = TextReader("main" if flag else "visible").read(body, HTML)
    assert found.text.split() == visible_text(body, HTML | flag).split()
    assert found.text.strip() == found.text


def test_each_block_says_why_it_is_left_out() -> None:
    found = streamer.extract(PAGE, blocks=True)
    assert found.blocks
    assert [each.text for each in found.blocks if each.left_out is None] == found.text.split("\n")
    assert {each.left_out for each in found.blocks if each.text.startswith("Sport ")} == {"links"}
    [foot] = [each for each in found.blocks if each.text.startswith("Copyright")]
    assert foot.left_out == "unlikely"
    assert foot.likelihood < min(each.likelihood for each in found.blocks if each.left_out is None)
    everything = streamer.extract(PAGE, text="visible", blocks=True).blocks
    assert everything
    assert {each.left_out for each in everything} == {None}
    assert [each.likelihood for each in everything] == [each.likelihood for each in found.blocks]


def test_what_a_site_repeats_is_left_out_in_the_order_of_pages() -> None:
    texts, pages = TextReader(site_memory=1 << 20), crawl()
    found = [texts.read(body.encode(), HTML, url.encode(), blocks=True) for url, body in pages]
    blocks = [each for one in found for each in one.blocks or ()]
    left_out = {each.other_pages > 0 for each in blocks if each.left_out == "site"}
    assert left_out == {True}
    assert max(each.other_pages for each in blocks) > 5
    again = TextReader(site_memory=1 << 20)
    for (url, body), one in zip(pages, found, strict=True):
        alone = TextReader(site_memory=1 << 20).read(body.encode(), HTML)
        assert again.read(body.encode(), HTML) == alone
        assert again.read(body.encode(), HTML, url.encode()).text == one.text


@pytest.mark.parametrize(("flags", "kind"), [(0, "plain"), (HTML | ESCAPED, "visible")])
def test_plain_and_escaped_text_is_given_as_well(flags: int, kind: str) -> None:
    found = TextReader().read(b"<title>a\\u0026amp;</title> b\\nc", flags)
    assert found.kind == kind
    as_it_is = "<title>a\\u0026amp;</title> b\\nc"
    assert (found.title, found.text) == (("a&", "a&\nb c") if flags else ("", as_it_is))


def test_a_page_of_too_many_blocks_is_given_whole() -> None:
    found = TextReader().read(b"<p>a" * (BLOCKS_MAX + 1), HTML, blocks=True)
    assert (found.kind, found.text, found.blocks) == ("visible", "a " * BLOCKS_MAX + "a", [])
