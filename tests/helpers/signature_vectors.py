"""The vectors of docs/signature.md: a key, texts, and each step from these to signatures.

`python -m tests.helpers.signature_vectors` makes the file again from the texts, settings and pairs
that are in it; tests/contract/test_signature_page.py compares it. All characters are in Unicode 14,
the version of the oldest interpreter, so that each interpreter writes the same file.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import mmh3
import numpy as np

from streamer.machine import uint64
from streamer.sketch.minhash import hash_shingles
from streamer.sketch.resemblance import similarity
from streamer.sketch.settings import SignatureSettings, derive_seeds
from streamer.sketch.signer import NativeSigner
from streamer.text.short_tokens import token_tables
from streamer.text.tokens import SLACK, SPARE, hash_tokens, signs_prevail, token_scratch, tokens

KEY = bytes(range(32))
FILE = Path(__file__).parents[2] / "docs" / "signature-vectors.json"
TOKENS_MAX = 1000  # of a text here


def _hexadecimal(words: Iterable[int], digits: int = 16) -> list[str]:
    return [f"{int(word):0{digits}x}" for word in words]


def _token_hashes(body: bytes, seed: int) -> Any:
    data = np.frombuffer(body + bytes(SLACK), np.uint8)
    out = np.empty(TOKENS_MAX + SPARE, np.uint64)
    tables = token_tables(signs=signs_prevail(body.decode(errors="replace")))
    end, count = hash_tokens(data, 0, len(body), uint64(seed), tables, token_scratch(), out, 0)
    assert end == len(body)
    return out[:count]


def _vector(given: dict[str, Any]) -> dict[str, Any]:
    """Return what the detector computes of a text, step by step."""
    chosen = {name: given[name] for name in ("bands", "rows", "shingle_width")}
    body, settings = bytes.fromhex(given["utf8"]), SignatureSettings(**chosen)
    seeds = derive_seeds(KEY, settings.shingle_width, settings.hashes)
    hashes = _token_hashes(body, seeds.token_seed)
    shingles = np.empty(len(hashes), np.uint64)
    count = hash_shingles(hashes, len(hashes), seeds.shingle_powers, shingles)
    signer = NativeSigner(settings, KEY)
    signed = signer.sign([body], [0])
    text = body.decode("utf-8", "replace")
    return {
        "name": given["name"],
        **chosen,
        "utf8": given["utf8"],
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


def _murmur(given: dict[str, str]) -> dict[str, str]:
    found = mmh3.hash64(bytes.fromhex(given["data"]), int(given["seed"], 16), signed=False)[0]
    return given | {"hash": f"{found:016x}"}


def _similarity(signed: dict[str, Any], pair: dict[str, Any]) -> dict[str, Any]:
    words = (signed[pair[side]]["sketch"] for side in ("a", "b"))
    one, other = (np.array([int(word, 16) for word in each], np.uint64) for each in words)
    return pair | {"ten_thousandths": int(similarity(one, other))}


def vectors() -> dict[str, Any]:
    """Return the vectors, as in the file."""
    known = json.loads(FILE.read_text("ascii"))
    signed = {each["name"]: _vector(each) for each in known["vectors"]}
    return {
        "form": "streamer.signature-vectors/1",
        "key": KEY.hex(),
        "derived": _derived(),
        "murmur3": [*map(_murmur, known["murmur3"])],
        "vectors": [*signed.values()],
        "similarities": [_similarity(signed, pair) for pair in known["similarities"]],
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
    FILE.write_text(rendered(vectors()), encoding="ascii")
