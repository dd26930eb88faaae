"""The salted source: every pass has new originals, and copies of all passes so far."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import corpus, salted_source

BASE_PAGES = 60
PASSES = 4


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("salted") / "base.jsonl"
    path.write_bytes(b"".join(corpus.generate(BASE_PAGES)))
    return path


def salted(base: Path, pages: int) -> list[dict[str, str]]:
    copies = salted_source.base_copies(BASE_PAGES)
    blocks = salted_source.blocks(base, copies, pages)
    lines = b"".join(block.tobytes() for block in blocks).splitlines()
    return [json.loads(line) for line in lines]


def shifted(text: str, salt: int) -> str:
    """Oracle: every vowel is moved so many letters on, past z to a again."""
    moved = "".join(chr((ord(vowel) - ord("a") + salt) % 26 + ord("a")) for vowel in "aeiou")
    return text.translate(str.maketrans("aeiou", moved))


def test_a_salted_page_is_its_base_page_with_vowels_shifted_and_nothing_else(base: Path) -> None:
    originals = [json.loads(line) for line in base.read_bytes().splitlines()]
    pages = salted(base, PASSES * BASE_PAGES)
    copies = salted_source.base_copies(BASE_PAGES)
    for place, page in enumerate(pages):
        number, at = divmod(place, BASE_PAGES)
        salt = salted_source.salts_of_pass(number, copies)[at]
        original = originals[at]
        assert page["body"] == shifted(original["body"], int(salt))
        assert page["url"] == original["url"].replace("/article-", f"/pass-{number:02}-")
        assert page.keys() == original.keys()
        assert page["content_type"] == original["content_type"]


@given(
    st.lists(st.text('aeioubcnz "é\n'.replace("\n", ""), max_size=80), min_size=1, max_size=5),
    st.integers(0, 9),
    st.data(),
)
def test_the_salting_kernel_is_its_oracle(texts: list[str], at: int, data: Any) -> None:
    head = "a" * at  # before the text: must stay
    salts = [data.draw(st.integers(0, salted_source.PASSES_MAX - 1)) for _ in texts]
    lines = [f"{head}{text}\n".encode() for text in texts]
    given_lines = np.frombuffer(b"".join(lines), np.uint8).copy()
    ends = np.cumsum([len(line) for line in lines])
    salted_source.salt_lines(given_lines, ends, np.array(salts), at, salted_source.shifted_vowels())
    wanted = [head + shifted(text, salt) + "\n" for text, salt in zip(texts, salts, strict=True)]
    assert given_lines.tobytes().decode() == "".join(wanted)
