import base64
import gzip
import random
import zlib

import brotli
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.compression import zstd
from streamer.errors import InvalidPage
from streamer.pages.encodings import (
    CHUNKS_MAX,
    LAYERS_MAX,
    MEMBERS_MAX,
    decode_base64,
    guess_base64,
    split_names,
    undo_chunks,
    undo_encodings,
)
from streamer.pages.members import PIECE_BYTES

LIMIT = 1 << 16
PAGE = b"<html><p>Bread at five, cake at six.</p></html>"


ENCODERS = {
    "gzip": gzip.compress, "deflate": zlib.compress, "br": brotli.compress, "zstd": zstd.compress,
}  # fmt: skip


def chunked(body: bytes, size: int) -> bytes:
    parts = [body[at : at + size] for at in range(0, len(body), size)]
    return b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"


def code_of(function: object, *arguments: object, **named: object) -> str:
    assert callable(function)
    with pytest.raises(InvalidPage) as caught:
        function(*arguments, **named)
    return caught.value.code


@given(st.binary(max_size=300), st.lists(st.sampled_from(sorted(ENCODERS)), max_size=LAYERS_MAX))
def test_any_encodings_are_undone_in_reverse_order(body: bytes, names: list[str]) -> None:
    packed = b"<" + body
    for name in names:
        packed = ENCODERS[name](packed)
    assert undo_encodings(packed, names, LIMIT) == b"<" + body


@pytest.mark.parametrize(
    ("body", "names"),
    [
        *((PAGE, [name]) for name in ENCODERS),  # the header lies
        (PAGE, ["Identity", "UTF-8", "none", ""]),
        (gzip.compress(PAGE), ['"X-GZIP"']),
        (gzip.compress(gzip.compress(PAGE)), []),
        (zstd.compress(zstd.compress(PAGE)), []),
        (zlib.compress(PAGE)[2:-4], ["deflate"]),  # without the frame
        (zlib.compress(PAGE), ["gzip"]),
        (gzip.compress(PAGE), ["br"]),
        (gzip.compress(PAGE), ["deflate"]),
    ],
    ids=range(12),
)
def test_an_encoding_is_told_by_body_with_header_as_a_hint(body: bytes, names: list[str]) -> None:
    assert undo_encodings(body, split_names(",".join(names)), LIMIT) == PAGE


@pytest.mark.parametrize("pack", [gzip.compress, zstd.compress])
def test_all_members_of_a_body_are_undone_and_what_follows_is_ignored(pack: type[bytes]) -> None:
    assert undo_encodings(pack(PAGE[:9]) + pack(PAGE[9:]) + b"trailing", [], LIMIT) == PAGE


@pytest.mark.parametrize("name", ["gzip", "zstd"])
def test_a_body_of_many_members_is_read_and_one_of_too_many_is_refused(name: str) -> None:
    member = ENCODERS[name](b"x")
    assert undo_encodings(member * MEMBERS_MAX, [name], LIMIT) == b"x" * MEMBERS_MAX
    with pytest.raises(InvalidPage, match="members"):
        undo_encodings(member * 300_000, [name], 1 << 24)


@pytest.mark.parametrize("name", ["gzip", "deflate", "zstd"])
def test_a_body_that_is_undone_piece_by_piece_comes_out_whole(name: str) -> None:
    body = random.Random(1).randbytes(5 * PIECE_BYTES)
    assert undo_encodings(ENCODERS[name](body), [name], len(body)) == body


@pytest.mark.parametrize("name", sorted(ENCODERS))
def test_a_bomb_is_refused_at_the_limit(name: str) -> None:
    bomb = ENCODERS[name](bytes(LIMIT + 1))
    assert code_of(undo_encodings, bomb, [name], LIMIT) == "decompressed_too_large"


@pytest.mark.parametrize("name", sorted(ENCODERS))
def test_a_body_of_exactly_the_limit_passes(name: str) -> None:
    assert undo_encodings(ENCODERS[name](b" " * LIMIT), [name], LIMIT) == b" " * LIMIT


@pytest.mark.parametrize("name", ["gzip", "zstd"])
def test_a_bomb_in_several_members_is_refused_at_the_limit(name: str) -> None:
    bomb = ENCODERS[name](bytes(LIMIT // 2)) * 3
    assert code_of(undo_encodings, bomb, [name], LIMIT) == "decompressed_too_large"


@pytest.mark.parametrize("name", sorted(ENCODERS))
def test_a_torn_body_is_refused(name: str) -> None:
    body = ENCODERS[name](bytes(range(256)) * 8)
    assert code_of(undo_encodings, body[: len(body) // 2], [name], LIMIT) == "bad_content_encoding"


def test_more_layers_than_allowed_are_refused() -> None:
    body = PAGE
    for _ in range(LAYERS_MAX + 1):
        body = gzip.compress(body)
    assert code_of(undo_encodings, body, [], LIMIT) == "bad_content_encoding"
    assert code_of(undo_encodings, PAGE, ["br"] * 5, LIMIT) == "bad_content_encoding"


@pytest.mark.parametrize(
    "names", [["exi"], ["aws-chunked"], ["windows-1251"], ["text/html"], ["exi", ""]]
)
def test_under_an_unknown_encoding_readable_bytes_count_as_they_are(names: list[str]) -> None:
    assert undo_encodings(PAGE, names, LIMIT) == PAGE
    for order in (["gzip", *names], [*names, "gzip"]):
        assert undo_encodings(gzip.compress(PAGE), order, LIMIT) == PAGE
    assert code_of(undo_encodings, b"\0\1" + PAGE, names, LIMIT) == "bad_content_encoding"
    pdf = b"%PDF-1.5\n\0\1"
    assert undo_encodings(pdf, names, LIMIT) == pdf


@given(st.binary(max_size=400), st.lists(st.sampled_from(["gzip", "deflate", "br", "zstd"])))
def test_any_bytes_give_a_bounded_body_or_a_code(body: bytes, names: list[str]) -> None:
    try:
        assert len(undo_encodings(body, names, 1000)) <= 1000
    except InvalidPage as fault:
        assert fault.code in {"bad_content_encoding", "decompressed_too_large"}  # noqa: PT017 - one of two ends


@given(st.binary(min_size=1, max_size=300), st.integers(1, 50), st.booleans())
def test_chunks_are_undone_with_or_without_a_header(body: bytes, size: int, declared: bool) -> None:
    assert undo_chunks(chunked(body, size), declared=declared) == body


@pytest.mark.parametrize("declared", [True, False])
@pytest.mark.parametrize("body", [PAGE, b"abc def", b"10 little\r\nlines", b"7\r\nof nine", b""])
def test_a_body_without_chunks_stays_as_it_is(body: bytes, declared: bool) -> None:
    assert undo_chunks(body, declared=declared) in ({body, b"of nine"} if declared else {body})


def test_a_plain_body_that_begins_with_zero_stays_as_it_is() -> None:
    assert undo_chunks(b"0\r\npoints", declared=False) == b"0\r\npoints"


def test_chunk_extensions_and_bare_newlines_are_understood() -> None:
    assert undo_chunks(b"3;a=b\r\nabc\r\n2\nde\n0\n\n", declared=False) == b"abcde"


def test_a_body_cut_within_a_chunk_gives_what_there_is() -> None:
    assert undo_chunks(chunked(PAGE, 20)[:35], declared=False) == PAGE[:25]


def test_endless_tiny_chunks_are_refused() -> None:
    body = b"1\r\na\r\n" * (CHUNKS_MAX + 2)
    assert code_of(undo_chunks, body, declared=True) == "bad_content_encoding"


@given(st.binary(max_size=200))
def test_base64_of_either_alphabet_is_undone_with_breaks_and_without_padding(body: bytes) -> None:
    text = base64.b64encode(body).decode()
    broken = "\r\n".join(text[at : at + 76] for at in range(0, len(text), 76))
    assert decode_base64(broken) == body
    assert decode_base64(base64.urlsafe_b64encode(body).decode().rstrip("=")) == body


@pytest.mark.parametrize("text", ["a", "ab$=", "ä", "YQ==YQ==", "<p>"])
def test_what_is_no_base64_is_refused(text: str) -> None:
    assert code_of(decode_base64, text) == "bad_base64"


def test_base64_is_guessed_only_where_it_hides_markup_or_compression() -> None:
    assert guess_base64(base64.b64encode(PAGE).decode()) == PAGE
    assert guess_base64(base64.b64encode(gzip.compress(b"word")).decode()) is not None
    assert guess_base64(base64.b64encode(PAGE.decode().encode("utf-16")).decode()) is not None
    assert guess_base64("word") is None
    words = " ".join(f"word{n} figure{n * n}" for n in range(400))
    assert b"<" in decode_base64(words)
    assert guess_base64(words) is None
    assert guess_base64(words.replace(" ", "")) is None
    assert guess_base64("<p>markup</p>") is None
