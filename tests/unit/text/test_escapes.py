import json

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from streamer.text.escapes import unescape_json
from tests.oracles import json_escapes


def unescaped(inside: bytes) -> bytes:
    """Undo the escapes in the middle of a buffer, into one that is exactly as long as promised."""
    source = np.frombuffer(b'\\u00"' + inside + b'"0041\\n' * 4, np.uint8)
    out = np.full(3 + len(inside) + 1, 0xEE, np.uint8)
    place = unescape_json(source, 5, 5 + len(inside), out, 3)
    assert (out[:3] == 0xEE).all()
    assert out[-1] == 0xEE
    assert 3 <= place <= 3 + len(inside)
    return out[3:place].tobytes()


@given(st.text(st.characters(codec="utf-8")), st.booleans())
def test_every_json_string_reads_as_the_standard_library_reads_it(text: str, ascii_: bool) -> None:
    assert unescaped(json.dumps(text, ensure_ascii=ascii_).encode()[1:-1]) == text.encode()


pieces = st.sampled_from(
    [
        b"\\", b"\\u", b"d83d", b"\\uD83D", b"\\ude00", b"\\udbff", b"0", b"\\n", b"\\u00e9",
        b"x" * 17, b'"', b"\\x",
    ]
)  # fmt: skip


@given(st.one_of(st.binary(), st.lists(pieces, max_size=12).map(b"".join)))
def test_any_bytes_give_the_oracles_bytes(inside: bytes) -> None:
    assert unescaped(inside) == json_escapes.unescape_json(inside)
