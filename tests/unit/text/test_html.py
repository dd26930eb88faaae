import re

import numpy as np
import pytest

from streamer.text.html import html_to_text, text_bytes_max


def text(page: str | bytes) -> str:
    raw = page.encode() if isinstance(page, str) else page
    source = np.frombuffer(raw, np.uint8)
    out = np.zeros(text_bytes_max(len(raw)), np.uint8)
    place = html_to_text(source, 0, len(raw), out, 0)
    return out[:place].tobytes().decode("utf-8", "surrogateescape")


def words(page: str | bytes) -> list[str]:
    return re.findall(r"\S+", text(page))


@pytest.mark.parametrize(
    "name", ["li", "br", "td", "option", "h1", "h6", "P", "Div", "title", "hr"]
)
def test_a_block_element_parts_words_at_both_tags(name: str) -> None:
    assert words(f"a<{name}>b</{name}>c") == ["a", "b", "c"]


@pytest.mark.parametrize(
    "name", ["script", "STYLE", "noscript", "svg", "template", "dialog", "iframe", "noframes"]
)
def test_what_a_reader_does_not_see_is_dropped(name: str) -> None:
    assert words(f"before <{name} x='1'>hidden</{name} > after") == ["before", "after"]


def test_a_noscript_is_read_as_a_block_where_it_has_text() -> None:
    text = "word " * 75
    assert words(f"1<noscript>{text[5:]}</noscript>2") == ["12"]
    assert words(f"1<noscript><b>{text}</b></noscript>2") == ["1", *text.split(), "2"]
    assert words(f"1<noscript>{text}<noscript>3</noscript>2") == ["1", *text.split(), "3", "2"]
    assert words("<svg><noscript>1</noscript></svg>2") == ["2"]
    assert words(f"<noscript><img src='{text}'></noscript>1") == ["1"]
    assert words("1<noscript>2") == ["1", "2"]


def test_a_declarative_shadow_root_and_an_open_dialog_are_visible() -> None:
    page = "<x-a><template {}><p>in<template>no</template>side</template></x-a> after"
    assert words(page.format("class=a ShadowRootMode='open'")) == ["inside", "after"]
    assert words(page.format("class='shadowrootmode'")) == ["after"]
    assert words("a<dialog class='open'>b<p>c</dialog>d") == ["a", "d"]
    assert words("a<dialog id=1 open>b<p>c</dialog>d") == ["a", "b", "c", "d"]
    hidden = "<template>1<template shadowrootmode=open>2</template>3</template>4"
    assert words(hidden) == ["4"]


@pytest.mark.parametrize("name", ["svg", "template"])
def test_containers_nest_and_hide_no_more_than_their_last_end_tag_closes(name: str) -> None:
    assert words(f"a<{name}>b<{name}>c</{name}>d</{name}>e") == ["ae"]
    assert words(f"a<{name}><{name}>b</{name}> c") == ["a", "c"]


@pytest.mark.parametrize("name", ["svg", "template", "noscript", "iframe", "title", "textarea"])
def test_an_element_that_is_never_closed_hides_nothing(name: str) -> None:
    assert words(f"a <{name}> b <p>c") == ["a", "b", "c"]


@pytest.mark.parametrize("name", ["script", "style"])
def test_an_unclosed_script_or_style_hides_the_rest(name: str) -> None:
    assert words(f"a <{name}> b <p>c") == ["a"]


@pytest.mark.parametrize("name", ["script", "svg", "title", "iframe"])
def test_an_element_that_closes_itself_hides_nothing(name: str) -> None:
    assert words(f"a <{name} src=x /> b </{name}>") == ["a", "b"]


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        # Bold and unknown elements are inline.
        ("a<b>b</b>c", "abc"), ("a<x-card>b</x-card>c", "abc"),
        # A slash in an unquoted value does not close the element; a longer name ends no script.
        ("a <script src=x/> b </script> c", "a c"), ("a<script>b</scripts>c</script >d", "ad"),
        # Markup inside a title is text.
        ("<title>a <b> &lt; c</title>d", "a <b> < c d"),
        # A section ends at its own mark, or else at the first bracket.
        ("x<![CDATA[a > b]]>y", "xy"), ("x<![CDATA[a > b", "x b"),
        # A bracket in a quoted value does not end the tag; a quote counts where a value begins.
        ("""<a x=">" y = '>'z>b</a>""", "b"), ("""<a x"=">b""", "b"), ("""<a ="x>b""", "b"),
        # A quote that is never closed ends with the tag.
        ("<a x='1>b</a> <i y='2>c", "c"), ('<a x="1>b</a> <i y=2>c', "b c"),
    ],
)  # fmt: skip
def test_markup_ends_where_a_browser_ends_it(page: str, expected: str) -> None:
    assert words(page) == expected.split()


@pytest.mark.parametrize(
    "comment",
    [
        "<!-- a > b -->", "<!-->", "<!--->", "<!--a--!>", "<!>", "<!doctype html>", "<?xml a?>",
        "</>",
    ],
)  # fmt: skip
def test_comments_and_declarations_are_no_text(comment: str) -> None:
    assert words(f"x{comment}y") == ["xy"]


@pytest.mark.parametrize("cut", ["<!-- a b", "<a href='x'", "<a href=x", "</a", "<!doc", "<?x"])
def test_cut_markup_is_dropped(cut: str) -> None:
    assert words(f"x {cut}") == ["x"]


@pytest.mark.parametrize("plain", ["<", "a < b", "<3", "<-", "</", "& <", "1<2"])
def test_a_less_than_sign_that_begins_no_tag_is_text(plain: str) -> None:
    assert text(plain) == plain


@pytest.mark.parametrize(
    ("reference", "character"),
    [
        ("&amp;", "&"), ("&eacute", "é"), ("&notit;", "¬it;"), ("&notin;", "∉"), ("&nGt;", "≫⃒"),
        ("&#128;", "€"), ("&#x1F600;", "😀"), ("&#xD800;", "\ufffd"), ("&#0;", "\ufffd"),
        ("&#" + "9" * 5000 + ";", "\ufffd"), ("&#" + "0" * 5000 + "65;", "A"),
        ("&nosuch;", "&nosuch;"), ("&", "&"),
    ],
)  # fmt: skip
def test_a_reference_becomes_its_character(reference: str, character: str) -> None:
    assert text(reference) == character


def test_invalid_utf8_and_nul_pass_through() -> None:
    assert text(b"a\xff\x00<b>\xc3</b>") == b"a\xff\x00\xc3".decode("utf-8", "surrogateescape")


def test_the_longest_growth_stays_in_its_bound() -> None:
    page = b"&nGt;" * 1000
    source, out = np.frombuffer(page, np.uint8), np.zeros(text_bytes_max(len(page)), np.uint8)
    assert html_to_text(source, 0, len(page), out, 0) == 6000 == len(page) * 6 // 5
