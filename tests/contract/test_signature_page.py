"""docs/signature.md and its vectors are what the detector computes, and enough to compute it."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from streamer.sketch.settings import SKETCH_VERSION
from streamer.text.canonical import VERSION
from tests.helpers.signature_vectors import rendered, vectors
from tests.oracles import plain_signature as plain

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "signature.md").read_text(encoding="utf-8")
FILE = (DOCS / "signature-vectors.json").read_text(encoding="ascii")
VECTORS: dict[str, Any] = json.loads(FILE)
BY_NAME: dict[str, dict[str, Any]] = {each["name"]: each for each in VECTORS["vectors"]}


def numbers(words: list[str]) -> list[int]:
    return [int(word, 16) for word in words]


def seeds_of(vector: dict[str, Any]) -> plain.Seeds:
    key = bytes.fromhex(VECTORS["key"])
    return plain.derive_seeds(key, vector["shingle_width"], vector["bands"] * vector["rows"])


def test_the_file_holds_what_the_detector_computes() -> None:
    assert rendered(vectors()) == FILE, "make it with `python -m tests.helpers.signature_vectors`"


def test_the_plain_form_derives_the_parameters_of_the_key() -> None:
    seeds = plain.derive_seeds(bytes.fromhex(VECTORS["key"]), 5, 84)
    found = {
        name: numbers(words) if isinstance(words, list) else int(words, 16)
        for name, words in VECTORS["derived"].items()
    }
    assert found == seeds._asdict()


def test_the_hash_is_the_one_that_the_vectors_name() -> None:
    for each in VECTORS["murmur3"]:
        found = plain.murmur(bytes.fromhex(each["data"]), int(each["seed"], 16))
        assert found == int(each["hash"], 16), each


@pytest.mark.parametrize("name", BY_NAME)
def test_the_plain_form_reproduces_each_step_of_a_vector(name: str) -> None:
    vector = BY_NAME[name]
    seeds, bands, rows = seeds_of(vector), vector["bands"], vector["rows"]
    text = bytes.fromhex(vector["utf8"]).decode("utf-8", "replace")
    assert text == vector["text"]
    assert plain.tokens(text) == vector["tokens"]
    hashes = [plain.murmur(token.encode(), seeds.token_seed) for token in vector["tokens"]]
    assert hashes == numbers(vector["token_hashes"])
    shingles = plain.shingle_set(hashes, seeds)
    assert shingles == {*numbers(vector["shingles"])}
    assert plain.min_hashes(shingles, seeds, bands * rows) == numbers(vector["min_hashes"])
    keys = [*vector["band_keys"], vector["content_key"]]
    signature = plain.sign(text, seeds, bands, rows)
    assert signature.keys == numbers(keys)
    assert signature.sketch == numbers(vector["sketch"])


def test_the_plain_form_finds_the_similarities_of_the_vectors() -> None:
    for each in VECTORS["similarities"]:
        pair = [BY_NAME[each[side]] for side in ("a", "b")]
        one, other = (
            plain.sketch_hashes({*numbers(vector["shingles"])}, seeds_of(vector)) for vector in pair
        )
        assert plain.estimated_resemblance(one, other) == each["ten_thousandths"], each


def test_the_plain_form_shares_no_code_with_the_detector() -> None:
    assert "streamer" not in Path(plain.__file__).read_text(encoding="utf-8")


def test_the_vectors_reach_each_form_of_a_sketch_and_each_way_to_fill_a_min_hash() -> None:
    levels = {int(vector["sketch"][0], 16) & 0xFF for vector in BY_NAME.values()}
    assert min(levels) == 10
    assert max(levels) == 22
    assert len(levels) > 2
    assert {0, 1} < {len({*vector["shingles"]}) for vector in BY_NAME.values()}
    assert {vector["rows"] % 4 for vector in BY_NAME.values()} == {0, 1, 2, 3}


# ---- the document -------------------------------------------------------------------------------


def test_the_page_has_the_versions_that_a_fingerprint_has() -> None:
    assert f"canonical form {VERSION}, sketch {SKETCH_VERSION}" in PAGE


def test_the_page_lists_the_ranges_of_its_tables() -> None:
    blocks = re.findall(r"^```\n([0-9A-F][0-9A-F \n-]+)^```$", PAGE, re.MULTILINE)
    ignorable, points, unspaced = map(plain.ranges, blocks)
    assert [ignorable + points, unspaced] == [plain.IGNORABLE, plain.UNSPACED]


def test_each_hash_in_the_page_is_one_of_the_vectors() -> None:
    found = re.findall(r"`([0-9a-f]{8}|[0-9a-f]{16})`", PAGE)
    assert len(found) > 10
    assert [each for each in found if f'"{each}"' not in FILE] == []
