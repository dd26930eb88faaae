"""A parser that knows which copies are better reads the number of the field that is named."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from streamer.pages.parse import PageParser
from streamer.rules import Rule
from streamer.run.stages import sign
from streamer.sketch.method_signer import make_signer
from streamer.sketch.preference import ranks_in
from streamer.sketch.settings import SignatureSettings

TIME = "2026-11-26T06:00:00Z"


def messages(*fields: dict[str, Any]) -> list[tuple[int, None, bytes]]:
    pages = ({"url": f"http://a.example/{i}", "body": "words", **f} for i, f in enumerate(fields))
    return [(i, None, json.dumps(page).encode()) for i, page in enumerate(pages)]


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (7, 7.0), ("2.5", 2.5), (-1e3, -1000.0), (TIME, 1795672800.0),
        (None, -math.inf), ("nan", -math.inf), ("best", -math.inf), ([1], -math.inf),
    ],
)  # fmt: skip
def test_a_number_or_a_time_counts_and_nothing_else(value: object, number: float) -> None:
    parser = PageParser(prefer="field:score")
    batch = parser.parse_messages(0, 2, messages({"score": value}, {}))
    assert (batch.prefer, batch.numbers, batch.dead) == ("field:score", [number, -math.inf], [])


def test_a_field_may_be_inside_another_and_other_preferences_read_none() -> None:
    parser = PageParser(prefer="field:/meta/score")
    assert parser.parse_messages(0, 1, messages({"meta": {"score": 3}})).numbers == [3]
    assert PageParser(prefer="longest").parse_messages(0, 1, messages({})).numbers == []


def test_pages_that_a_rule_leaves_out_have_no_number() -> None:
    parser = PageParser(prefer="field:score", rules=[Rule(path="/0", skip=True)])
    assert parser.parse_messages(0, 2, messages({"score": 1}, {"score": 2})).numbers == [2]


def test_signed_pages_have_ranks_in_the_order_of_the_preference() -> None:
    signer = make_signer(SignatureSettings(), bytes(32))
    given = messages(
        {"score": 1, "body": "many words"}, {"score": 2, "url": "https://a.example/"}, {}
    )
    orders = {}
    for prefer in ("", "longest", "https", "field:score"):
        batch = PageParser(prefer=prefer).parse_messages(0, 3, given)
        orders[prefer] = ranks_in(sign(signer, 0, batch).sketches).tolist()
    assert orders[""] == [0, 0, 0]
    for prefer, order in (("longest", (1, 2, 0)), ("https", (0, 2, 1)), ("field:score", (2, 0, 1))):
        found = orders[prefer]
        assert [found[i] for i in order] == sorted(found)
