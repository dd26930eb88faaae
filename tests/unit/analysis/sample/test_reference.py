import base64

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from streamer.analysis.sample import reference
from streamer.analysis.sample.reference import TextShingler, page_text, resemblance, tokens
from streamer.model import Page

texts = st.text("ab 漢か", max_size=40)


HIDDEN = ("script", "style", "template", "noscript", "svg")


@pytest.mark.parametrize(
    ("html", "words"),
    [
        ("a" + "".join(f"<{tag}>b</{tag}>" for tag in HIDDEN) + "c", ["ac"]),
        ("<head><title>x</title></head>y", ["x", "y"]),
        ("a<b>b</b>c", ["abc"]),
        ("<li>a<li>b", ["a", "b"]),
        ("a<br>b", ["a", "b"]),
        ("<td>a</td><td>b</td>", ["a", "b"]),
        ("a&amp;b &eacute;", ["a&b", "é"]),
        ("a<p>b<![x[c", ["a", "b"]),  # the text before a malformed declaration
    ],
)
def test_the_unhidden_is_seen_and_block_tags_separate_words(html: str, words: list[str]) -> None:
    assert reference.visible_text(html).split() == words


@given(st.text("<![]->ab /&;", max_size=30))
@example("<![ab>b")
def test_any_markup_has_a_visible_text(html: str) -> None:
    assert len(reference.visible_text(html)) <= 3 * len(html)


def test_each_han_or_kana_character_is_a_token() -> None:
    assert tokens("漢字、かなABC 1号") == ["漢", "字", "か", "な", "abc", "1", "号"]


def test_tokens_are_lower_case_words_with_digits_and_underscores() -> None:
    assert tokens("Don't STOP_it 42!") == ["don", "t", "stop_it", "42"]


@given(texts, texts)
def test_resemblance_is_the_jaccard_similarity_of_the_sets_of_five_tokens(a: str, b: str) -> None:
    sets = [{tuple(t[i : i + 5]) for i in range(len(t) - 4)} for t in (tokens(a), tokens(b))]
    shingler = TextShingler()
    found = resemblance(shingler.exact(a), shingler.exact(b), min_shingles=1)
    if tokens(a) == tokens(b):
        assert found == 1
    elif not all(sets):
        assert found == 0
    else:
        assert found == len(sets[0] & sets[1]) / len(sets[0] | sets[1])


def test_a_body_of_bytes_is_decoded_by_the_charset_field_then_by_the_type() -> None:
    body = base64.b64encode("мост".encode("windows-1251")).decode()
    typed = "text/plain; charset=windows-1251"
    assert page_text(Page("u", body_base64=body, charset="windows-1251")) == "мост"
    assert page_text(Page("u", body_base64=body, content_type=typed)) == "мост"
    assert page_text(Page("u", body_base64=body, content_type=typed, charset="koi8-r")) != "мост"


def test_plain_text_is_not_read_as_html() -> None:
    assert page_text(Page("u", body="<p>a", content_type="text/plain")) == "<p>a"
    assert page_text(Page("u", body="1 <b> 2")) == "1 <b> 2"
    assert page_text(Page("u", body=" <p>a")) == "  a"


@pytest.mark.parametrize(
    "page",
    [
        Page("u", body="a", content_type="application/pdf"),
        Page("u", body_base64="%%%"),
        Page("u", body_base64="é"),
        Page("u", body_base64="YQ==", charset="no-such"),
        Page("u", body_base64="YQ==", charset="rot13"),
        Page("u", body_base64="YQ==", charset="\0"),
    ],
)
def test_what_cannot_be_read_as_text_has_none(page: Page) -> None:
    assert page_text(page) is None


@pytest.mark.parametrize(
    "line", [b"", b"{", b"[]", b"\xff", b'{"url":"u"}', b'{"url":1,"body":"a"}', b"[" * 100_000]
)
def test_a_line_that_is_no_page_is_none(line: bytes) -> None:
    assert reference.read_page(line) is None
