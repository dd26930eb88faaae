"""A replay in the order of a log: what the log has as pages, and what is a page here."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from streamer.errors import StoreMismatch
from streamer.pages.chunk import Chunk
from streamer.pages.mapping import DEFAULT_MAPPING
from streamer.pages.parse import PageParser
from streamer.pages.schema_registry import RegistryAddress, SchemaRegistry
from streamer.run.reading import LOST_PAGES, LostText, lost_characters, parsed
from tests.helpers.schema_registry import (
    PAGE_SCHEMA,
    FakeRegistry,
    avro_page,
    by_number,
    fake_registry,
)

PLAIN = b'{"url": "http://a.example/", "body": "text"}'
AVRO = by_number(7, avro_page("http://a.example/", b"text"))


@pytest.fixture
def told() -> Iterator[FakeRegistry]:
    with fake_registry() as found:
        found.schemas["/schemas/ids/7"] = {"schema": PAGE_SCHEMA}
        yield found


@pytest.fixture
def parser(told: FakeRegistry) -> PageParser:
    registry = SchemaRegistry(RegistryAddress(told.url), patience_s=0.0)
    return PageParser(DEFAULT_MAPPING, registry=registry)


def chunk(*values: bytes, pages: list[int]) -> Chunk:
    messages = [(offset, b"key", value) for offset, value in enumerate(values)]
    return Chunk(
        0, len(values), messages=[*messages], times=[*range(len(values))], expected_pages=pages
    )


def test_what_became_readable_by_a_later_schema_is_the_dead_letter_that_it_was(
    parser: PageParser,
) -> None:
    batch = parsed(parser, chunk(PLAIN, AVRO, b"{", PLAIN, AVRO, pages=[0, 3, 4]))
    assert (batch.sequences, batch.times) == ([0, 3, 4], [0, 3, 4])
    assert [(each.sequence, each.code, each.key) for each in batch.dead] == [
        (1, "unknown_schema", b"key"), (2, "invalid_json", b"key"),
    ]  # fmt: skip
    assert batch.dead[0].value == AVRO


def test_other_pages_than_the_log_has_are_refused_with_the_remedy(parser: PageParser) -> None:
    with pytest.raises(StoreMismatch, match="Give the worker's --preset or --fields"):
        parsed(parser, chunk(PLAIN, PLAIN, AVRO, pages=[0, 2]))
    with pytest.raises(StoreMismatch, match="Give the worker's --preset or --fields"):
        parsed(parser, chunk(PLAIN, b"{", pages=[0, 1]))


def test_a_page_whose_schema_is_not_known_any_more_names_the_registry(
    told: FakeRegistry, parser: PageParser
) -> None:
    told.schemas.clear()
    with pytest.raises(StoreMismatch, match=r"page_bytes_max and --registry-url\.$"):
        parsed(parser, chunk(PLAIN, AVRO, pages=[0, 1]))


def test_a_source_with_much_text_that_a_charset_lost_is_named() -> None:
    lost, bodies = LostText(), {
        "a": [b"x" * 198 + "\ufffd\ufffd".encode()], "b": [b"x" * 97 + "\ufffd".encode(), b"y\xff"],
        "c": [b"\\ufffd" + b"z" * 20], "d": [b"x"] * LOST_PAGES + [b"\xff" * 1000],
    }  # fmt: skip
    for name, given in bodies.items():
        lost.add(name, lost_characters(given))
    assert lost.shares() == {"c": 0.0385, "b": 0.02}
