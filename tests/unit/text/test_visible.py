"""Whether a body is HTML; its visible text and description, as methods in Python get them."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.text import visible
from streamer.text.visible import ESCAPED, HTML, canonical_link, meta_description, visible_text


def escaped(text: str) -> bytes:
    return json.dumps(text)[1:-1].encode()


@given(st.text())
def test_plain_text_is_visible_as_it_is_escaped_or_not(text: str) -> None:
    text = text.encode("utf-8", "replace").decode()
    assert visible_text(text.encode(), 0) == text
    assert visible_text(escaped(text), ESCAPED) == text


def test_html_shows_what_a_reader_sees() -> None:
    html = '<p>one <b>t</b>wo</p><script>no</script>"three" &amp; four'
    assert visible_text(html.encode(), HTML).split() == ["one", "two", '"three"', "&", "four"]
    assert visible_text(escaped(html), HTML | ESCAPED) == visible_text(html.encode(), HTML)


def test_malformed_bytes_become_the_replacement_character() -> None:
    assert visible_text(b"a\xffb", 0) == "a\ufffdb"


@pytest.mark.parametrize(
    ("html", "description"),
    [
        ('<meta name="description" content="A  page\nof mine">', "A page of mine"),
        ("<META content='x &amp; y' NAME=Description>", "x & y"),
        ('<meta property="og:description" content="other">', ""),
        ('<meta name=description content="first"><meta name=description content=next>', "first"),
        ("<p>description</p>", ""),
        ('<meta name="description">', ""),
        (" " * visible.HEAD_BYTES_MAX + '<meta name="description" content="far down">', ""),
    ],
)
def test_the_description_is_the_first_that_the_head_has(html: str, description: str) -> None:
    assert meta_description(html.encode(), HTML) == description
    assert meta_description(escaped(html), HTML | ESCAPED) == description
    assert meta_description(html.encode(), 0) == ""


@pytest.mark.parametrize(
    ("html", "link"),
    [
        ('<link rel="canonical" href=" https://a.example/?a=1&amp;b=2 ">',
         "https://a.example/?a=1&b=2"),
        ("<LINK href=/a REL='next Canonical'><link rel=canonical href=/b>", "/a"),
        ('<link rel="canonical"><a rel="canonical" href="/a">', ""),
        ('<link rel="canonicalized" href="/a">', ""),
        ('<![odd[ <link rel="canonical" href="/a">', ""),
        ('<link rel="canonical" href="/a"><![odd[ ', "/a"),
        (" " * visible.HEAD_BYTES_MAX + '<link rel="canonical" href="/a">', ""),
    ],
)  # fmt: skip
def test_the_canonical_link_is_the_first_that_the_head_has(html: str, link: str) -> None:
    assert canonical_link(html.encode(), HTML) == link
    assert canonical_link(escaped(html), HTML | ESCAPED) == link
    assert canonical_link(html.encode(), 0) == ""
