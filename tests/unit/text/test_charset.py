"""Pages in many charsets, under right and wrong labels."""

# ruff: noqa: RUF001 - the sample texts are in many scripts

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.text.charset import codec_of, decode_body

TEXTS = {
    "windows-1251": "Привет, это обычный русский текст о погоде и природе нашего края. ",
    "koi8-r": "Привет, это обычный русский текст о погоде и природе нашего края. ",
    "gb18030": "今天天气很好，我们去公园散步，然后回家吃饭。",
    "big5": "今天天氣很好，我們去公園散步，然後回家吃飯。",
    "shift_jis": "今日はとても良い天気なので、公園へ散歩に行きました。",
    "euc-jp": "今日はとても良い天気なので、公園へ散歩に行きました。",
    "iso-2022-jp": "今日はとても良い天気なので、公園へ散歩に行きました。",
    "euc-kr": "오늘은 날씨가 매우 좋아서 공원에 산책하러 갔습니다. ",
    "windows-1252": "Le café était très agréable à côté de l’hôtel – naturellement. ",
    "iso-8859-2": "Příliš žluťoučký kůň úpěl ďábelské ódy v městě. ",
    "windows-1250": "Příliš žluťoučký kůň úpěl ďábelské ódy v městě. ",
    "windows-1253": "Καλημέρα, αυτό είναι ένα απλό κείμενο για τον καιρό. ",
    "windows-1254": "Bu bir Türkçe yazıdır, güneşli bir gün ve ağaçlar çok güzel. ",
    "windows-1256": "مرحبا هذا نص عادي عن الطقس والطبيعة ",
    "utf-16-le": "Привет this is a page ",
    "utf-16-be": "Привет this is a page ",
    "utf-8": "Привет, Le café, 今日はとても良い天気 ",
}
CODECS_ONLY = (
    "zip zlib bz2 hex base64 rot13 idna punycode utf-7 unicode_escape raw_unicode_escape undefined"
    " mbcs x-user-defined replacement"
)
LABELS = [
    None, "utf-8", "iso-8859-1", "windows-1251", "koi8-r", "gb2312", "big5", "shift_jis", "euc-jp",
    "euc-kr", "iso-8859-2", "windows-1256", "utf-16", "utf-7", "zip", "no such", "\ud800",
    "iso-2022-jp",
]  # fmt: skip


@pytest.mark.parametrize("charset", TEXTS)
@pytest.mark.parametrize("meta", ["", "utf-8", "iso-8859-1", "koi8-r"])
def test_a_page_reads_the_same_whatever_is_declared(charset: str, meta: str) -> None:
    page = f'<html><head><meta charset="{meta}"></head><p>{TEXTS[charset] * 4}'
    body = page.encode(charset)
    assert {decode_body(body, label, html=True).decode() for label in LABELS} == {page}


@pytest.mark.parametrize("charset", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize(
    ("source", "label"),
    [
        ("windows-1251", None), ("windows-1253", None), ("windows-1256", "utf-8"),
        ("gb18030", "utf-16"), ("shift_jis", "utf-16"), ("euc-kr", "utf-16"),
    ],
)  # fmt: skip
def test_utf16_needs_no_mark(charset: str, source: str, label: str | None) -> None:
    text = TEXTS[source] * 20
    assert decode_body(text.encode(charset), label, html=False).decode() == text


@pytest.mark.parametrize(
    ("charset", "text"),
    [
        ("koi8-r", "Мир"), ("windows-1250", "kůň"), ("windows-1254", "ağaç"),
        ("windows-1257", "žemė"), ("big5", "今天"),
    ],
)  # fmt: skip
def test_a_label_is_believed_on_a_text_too_short_for_the_detector(charset: str, text: str) -> None:
    body = text.encode(charset)
    assert decode_body(body, None, html=False).decode() != text
    assert decode_body(body, charset, html=False).decode() == text


@pytest.mark.parametrize(
    ("mark", "charset"),
    [(b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be")],
)
def test_a_byte_order_mark_comes_first_and_is_taken_off(mark: bytes, charset: str) -> None:
    decoded = decode_body(mark + "né".encode(charset), "koi8-r", html=True)
    assert decoded == "né".encode()


@pytest.mark.parametrize("body", [b"", b"plain", "né 漢".encode(), b"nul \0 byte"])
def test_utf8_comes_back_uncopied_against_any_label(body: bytes) -> None:
    assert decode_body(body, "windows-1251", html=True) is body


def test_each_kind_of_evidence_is_believed() -> None:
    text = TEXTS["windows-1251"].encode()
    body = text.decode().encode("cp1251")
    meta = b"<meta http-equiv=x content='text/html; charset=windows-1251'>"
    xml = b'<?xml version="1.0" encoding="windows-1251"?>'
    assert decode_body(body, "windows-1251", html=True) == text
    assert decode_body(meta + body, "utf-8", html=True) == meta + text
    assert decode_body(xml + body, None, html=False) == xml + text
    assert decode_body(meta + body, None, html=False) == meta + text
    assert decode_body(body, "koi8-r", html=True) == text


@pytest.mark.parametrize("charset", ["gb18030", "big5", "shift_jis", "euc-jp", "euc-kr"])
@pytest.mark.parametrize("damage", [b"\xff", b"\x80", b"\xa0", b""])
def test_a_right_label_is_believed_on_a_damaged_page(charset: str, damage: bytes) -> None:
    line = (TEXTS[charset] + "\n").encode(charset)  # the ASCII byte lets a decoder find its feet
    body, middle = line * 20, len(line) * 3 + 8
    damaged = body[: middle - (not damage)] + damage + body[middle:]
    whole = damaged.decode(codec_of(charset) or "", "replace")
    assert decode_body(damaged, charset, html=True).decode() == whole


def test_damaged_or_cut_utf8_is_utf8_under_any_label() -> None:
    cyrillic = (TEXTS["koi8-r"] * 10).encode()
    cut = cyrillic[:301] + b"\xff" + cyrillic[301:-3]
    for label in LABELS:
        assert decode_body(cut, label, html=True).decode() == cut.decode(errors="replace")


def test_text_behind_a_long_script_is_found() -> None:
    page = "© <script>" + "var a = 1;" * 3000 + "</script>" + TEXTS["windows-1251"]
    body = "©".encode("cp1251") + page[1:].encode("cp1251")
    assert decode_body(body, "windows-1252", html=True).decode() == page


@pytest.mark.parametrize(
    ("label", "codec"),
    [
        ("ISO-8859-1", "windows-1252"), (' "Latin1"', "windows-1252"), ("gb2312", "gb18030"),
        ("x-sjis", "cp932"), ("text/html; charset=KOI8-R", "koi8-r"), ("", None), (None, None),
        # What is no charset, though Python has a codec of this name.
        *((name, None) for name in CODECS_ONLY.split()),
    ],
)  # fmt: skip
def test_a_label_means_what_browsers_make_of_it(label: str | None, codec: str | None) -> None:
    assert codec_of(label) == codec


@given(
    st.binary(max_size=300), st.one_of(st.sampled_from(LABELS), st.text(max_size=20)), st.booleans()
)
def test_any_bytes_and_any_label_give_utf8(body: bytes, label: str | None, html: bool) -> None:
    decoded = decode_body(body, label, html=html)
    assert decoded.decode().encode() == decoded
