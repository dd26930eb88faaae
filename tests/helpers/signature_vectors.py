"""The vectors of docs/signature.md: a key, texts, and each step from these to signatures.

`python -m tests.helpers.signature_vectors > docs/signature-vectors.json` writes the file again from
what the detector computes; tests/contract/test_signature_page.py compares it. All characters are in
Unicode 14, the version of the oldest interpreter, so that each interpreter writes the same file.
"""

# ruff: noqa: RUF001 - letters of many scripts, some of which look alike

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import Any, NamedTuple

import mmh3
import numpy as np

from streamer.kernel import uint64
from streamer.sketch.minhash import hash_shingles
from streamer.sketch.resemblance import similarity
from streamer.sketch.settings import SignatureSettings, derive_seeds
from streamer.sketch.signer import NativeSigner
from streamer.text.short_tokens import token_tables
from streamer.text.tokens import SLACK, SPARE, hash_tokens, signs_prevail, token_scratch, tokens

KEY = bytes(range(32))
MURMUR_BYTES = (0, 1, 8, 15, 16, 17, 33)
TOKENS_MAX = 1000  # of a text here


class Case(NamedTuple):
    """A text, as bytes since not all are well formed, and the settings that it is signed under."""

    name: str
    body: bytes
    bands: int = 14
    rows: int = 6
    shingle_width: int = 5


def _case(name: str, text: str) -> Case:
    return Case(name, text.encode())


def _numbered(count: int) -> bytes:
    return " ".join(f"word{i}" for i in range(count)).encode()


CASES = (
    _case(
        "english", "The quick brown fox jumps over the lazy dog; the QUICK brown fox jumps over!"
    ),
    _case(
        "english_changed", "the quick brown fox jumps over the lazy dog, the quick red fox sits."
    ),
    _case(
        "latin",
        "Straße STRASSE Ａｂｃ ﬁne ½ litre, l’e\u0301té a\u0300 Genève co\u00adoperate file_name_2 "
        "İstanbul ①② q\u0307\u0323 q\u0323\u0307 Ǆ",
    ),
    _case("greek", "Ἐν ἀρχῇ ἦν ὁ ΛΟΓΟΣ, καὶ ὁ λόγος ἦν πρὸς τὸν θεόν: ᾳ\u0300 α\u0345\u0300 ᾼ"),
    _case("russian", "Широкая электрификация южных губерний даст мощный толчок подъёму и йоге."),
    _case("hebrew_arabic", "שָׁלוֹם עֲלֵיכֶם; بِسْمِ ٱللَّٰهِ ٱلرَّحْمَٰنِ ﷺ كتاب١٢٣ ﻻ"),
    _case("hindi", "सभी मनुष्यों को गौरव और अधिकारों के मामले में जन्मजात स्वतन्त्रता क़ क\u093c ९"),
    _case("thai", "มนุษย์ทั้งหลายเกิดมามีอิสระ น้ำ ๒๕"),
    _case("chinese_japanese", "人人生而自由，在尊严上平等。すべての人間は、ｶﾞｷﾞガギ㌖x々〇 第1条"),
    _case("korean", "모든 인간은 태어날 때부터 \u1112\u1161\u11ab글 자유로우며 ﾡ 그 존엄과 권리"),
    Case(
        "malformed_utf8",
        b"\xef\xbb\xbfone two\xfftwo \xc3three \xe2\x82four \xed\xa0\x80five \xf0\x9f\x98\x80six "
        b"\xc0\x80seven ei\xe2\x80\x8dght\x00nine a\xcc\x80\xe2\x83\x9d ten",
    ),
    _case("marks_over_30", "x a" + "\u0301\u0323" * 20 + "b one two three"),
    _case("three_tokens", "Not enough words"),
    _case("no_tokens", " \n"),
    _case("signs", "⠠⠓⠑⠇⠇⠕ \u2026 (😀) page 1"),
    Case("150_words", _numbered(150)),
    Case("450_words", _numbered(450)),
    Case("450_words_many_min_hashes", _numbered(450), bands=64, rows=7, shingle_width=2),
    Case("rows_8_of_single_words", b"one two three four five six", 2, 8, 1),
    Case("rows_5_of_single_words", b"one two three four five six", 2, 5, 1),
)
PAIRS = (
    ("english", "english_changed"), ("english", "russian"), ("150_words", "450_words"),
    ("english", "no_tokens"), ("three_tokens", "no_tokens"),
)  # fmt: skip


def _hexadecimal(words: Iterable[int], digits: int = 16) -> list[str]:
    return [f"{int(word):0{digits}x}" for word in words]


def _token_hashes(body: bytes, seed: int) -> Any:
    data = np.frombuffer(body + bytes(SLACK), np.uint8)
    out = np.empty(TOKENS_MAX + SPARE, np.uint64)
    tables = token_tables(signs=signs_prevail(body.decode(errors="replace")))
    end, count = hash_tokens(data, 0, len(body), uint64(seed), tables, token_scratch(), out, 0)
    assert end == len(body)
    return out[:count]


def _vector(case: Case) -> dict[str, Any]:
    """Return what the detector computes of a text, step by step."""
    seeds = derive_seeds(KEY, case.shingle_width, case.bands * case.rows)
    hashes = _token_hashes(case.body, seeds.token_seed)
    shingles = np.empty(len(hashes), np.uint64)
    count = hash_shingles(hashes, len(hashes), seeds.shingle_powers, shingles)
    settings = SignatureSettings(bands=case.bands, rows=case.rows, shingle_width=case.shingle_width)
    signer = NativeSigner(settings, KEY)
    signed = signer.sign([case.body], [0])
    text = case.body.decode("utf-8", "replace")
    return {
        "name": case.name,
        "bands": case.bands,
        "rows": case.rows,
        "shingle_width": case.shingle_width,
        "utf8": case.body.hex(),
        "text": text,
        "tokens": tokens(text),
        "token_hashes": _hexadecimal(hashes),
        "shingles": _hexadecimal(shingles[:count]),
        "min_hashes": _hexadecimal(signer._scratch.minima, 8),  # noqa: SLF001 - kept nowhere else
        "band_keys": _hexadecimal(signed.keys[0, :-1]),
        "content_key": _hexadecimal(signed.keys[0, -1:])[0],
        "sketch": _hexadecimal(signed.sketches[0]),
    }


def _derived() -> dict[str, Any]:
    seeds = derive_seeds(KEY, 5, 84)
    return {
        "token_seed": f"{seeds.token_seed:08x}",
        "content_seed": f"{seeds.content_seed:08x}",
        "band_seed": f"{seeds.band_seed:08x}",
        "content_step": f"{seeds.content_step:016x}",
        "sketch_mask": f"{seeds.sketch_mask:016x}",
        "shingle_powers": _hexadecimal(seeds.shingle_powers),
        "round_masks": _hexadecimal(seeds.round_masks),
    }


def _murmur(size: int) -> dict[str, str]:
    seed, data = 0x9E3779B9, bytes(range(size))
    found = mmh3.hash64(data, seed, signed=False)[0]
    return {"data": data.hex(), "seed": f"{seed:08x}", "hash": f"{found:016x}"}


def _similarity(signed: dict[str, Any], a: str, b: str) -> dict[str, Any]:
    one, other = (np.array([int(w, 16) for w in signed[n]["sketch"]], np.uint64) for n in (a, b))
    return {"a": a, "b": b, "ten_thousandths": int(similarity(one, other))}


def vectors() -> dict[str, Any]:
    """Return the vectors, as in the file."""
    signed = {case.name: _vector(case) for case in CASES}
    return {
        "form": "streamer.signature-vectors/1",
        "key": KEY.hex(),
        "derived": _derived(),
        "murmur3": [_murmur(size) for size in MURMUR_BYTES],
        "vectors": [*signed.values()],
        "similarities": [_similarity(signed, *pair) for pair in PAIRS],
    }


def rendered(document: dict[str, Any]) -> str:
    """Return the vectors as JSON in ASCII, a field a line, which no editor composes or reorders."""

    def fields(one: dict[str, Any], indent: str) -> str:
        lines = (
            f"{indent}{json.dumps(name)}: {item(value, indent)}" for name, value in one.items()
        )
        return "{\n" + ",\n".join(lines) + f"\n{indent[1:]}}}"

    def item(value: Any, indent: str) -> str:
        if isinstance(value, dict):
            return fields(value, indent + " ")
        if isinstance(value, list) and value and isinstance(value[0], dict):
            return "[" + ", ".join(fields(each, indent + " ") for each in value) + "]"
        return json.dumps(value, separators=(",", ":"))

    return fields(document, " ") + "\n"


if __name__ == "__main__":
    sys.stdout.write(rendered(vectors()))
