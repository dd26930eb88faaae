"""The records of judged pages come out as they came in, and of one kind."""

import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from streamer.compression import zstd
from streamer.errors import SettingsError
from streamer.model import page_ref
from streamer.pages.bytestream import Mark
from streamer.pages.chunk import Chunk, Part, WarcPage
from streamer.pages.files import open_sources
from streamer.run.catalogue import ADDED, Catalogue, SourceEntry
from streamer.run.output_checks import output_key
from streamer.run.outputs import OutputFile, pack
from streamer.run.page_outputs import DUPLICATES, KEPT, PageOutputs, check_complete, records_of
from streamer.text.slices import Slices

WARC_HEAD = b"WARC/1.0\r\nWARC-Type: conversion\r\nContent-Length: 4\r\n\r\n"
ARC_HEAD = b"http://a.example/ 0.0.0.0 20260101000000 text/html 4\n"


def records(chunk: Chunk, *refs: int) -> bytes:
    return b"".join(records_of(chunk, np.array(refs, np.uint64)))


def warc_chunk(head: bytes = WARC_HEAD) -> Chunk:
    pages = [WarcPage(number, "conversion", {}, b"tex%d" % number, head) for number in (5, 7)]
    return Chunk(5, 8, pages=pages, source=1)


def opened(path: Path, known: int | None = None) -> OutputFile:
    output = OutputFile.open(str(path), known, index=Path("my-index"))
    output.start()
    return output


def test_lines_come_as_they_are_and_a_last_one_gets_its_newline() -> None:
    lines = Slices.joined([b'{"a": 1}\r\n', b"\n", b'{"b":\t2} \n', b'{"c": 3}'])
    chunk = Chunk(10, 14, lines=lines, source=3)
    assert records(chunk, page_ref(3, 10), page_ref(3, 12)) == b'{"a": 1}\r\n{"b":\t2} \n'
    assert records(chunk, page_ref(3, 13)) == b'{"c": 3}\n'


def test_lines_of_small_files_are_found_by_their_refs_in_any_order_of_the_sources() -> None:
    lines = Slices.joined([b"a0\n", b"a1", b"b0\n", b"c0\n", b"c1"])
    parts = [
        Part(source, first, end, 0, Mark(), ())
        for source, first, end in ((9, 0, 2), (4, 2, 3), (5, 3, 5))
    ]
    chunk = Chunk(0, 5, lines=lines, parts=parts)
    assert records(chunk, *[page_ref(9, 1), page_ref(4, 0), page_ref(5, 1)]) == b"a1\nb0\nc1\n"


def test_a_message_becomes_a_line_and_its_newlines_are_spaces() -> None:
    chunk = Chunk(4, 9, messages=[(4, None, b'{\n"a": 1}'), (8, b"k", b"{}\n")], source=2)
    assert records(chunk, page_ref(2, 4), page_ref(2, 8)) == b'{ "a": 1}\n{}\n'


def test_warc_and_arc_records_have_their_headers_and_the_end_of_their_format() -> None:
    assert records(warc_chunk(), page_ref(1, 7)) == WARC_HEAD + b"tex7\r\n\r\n"
    assert records(warc_chunk(ARC_HEAD), page_ref(1, 5)) == ARC_HEAD + b"tex5\n"


@pytest.mark.parametrize(
    ("suffix", "expand"), [("", bytes), (".gz", gzip.decompress), (".zst", zstd.decompress)]
)
def test_what_is_packed_is_whole_and_alone_each_record_is(
    tmp_path: Path, suffix: str, expand: Callable[[bytes], bytes]
) -> None:
    name = str(tmp_path / f"out{suffix}")
    output = opened(Path(name))
    output.write(b"a member that is not whole, ")
    output.write_packed(pack(name, [b"first record, ", b"second, "]))
    middle = output.length
    output.write_packed(pack(name, [b"third, ", b"fourth"], alone=True))
    output.sync()
    output.close()
    data = Path(name).read_bytes()
    assert output.length == len(data)
    assert expand(data[:middle]) == b"a member that is not whole, first record, second, "
    assert expand(data[middle:]) == b"third, fourth"
    third = pack(name, [b"third, "])
    assert data[middle:].startswith(third)
    assert expand(data[middle + len(third) :]) == b"fourth"


@pytest.mark.parametrize(
    ("name", "held", "fits"),
    [
        ("out", b"", True),
        ("out.warc.gz", b"", True),
        ("out.jsonl", b"", False),
        ("out.arc", b"", False),
        ("out.jsonl", WARC_HEAD, True),
        ("out.warc", b'{"url": 1}\n', False),
        ("out", ARC_HEAD, False),
    ],
)
def test_an_output_takes_records_of_the_kind_that_it_holds_or_is_named_for(
    tmp_path: Path, name: str, held: bytes, *, fits: bool
) -> None:
    path = tmp_path / name
    path.write_bytes(held)
    output = OutputFile.open(str(path), len(held) or None, index=Path("my-index"))
    outputs = PageOutputs({KEPT: output})
    if fits:
        outputs.check(warc_chunk(), "in.warc")
    else:
        with pytest.raises(SettingsError, match=r"in\.warc holds WARC records, but --kept"):
            outputs.check(warc_chunk(), "in.warc")
    output.close()


def test_sources_of_two_kinds_are_refused_and_empty_ones_have_none(tmp_path: Path) -> None:
    (tmp_path / "empty.warc").touch()
    (tmp_path / "lines.jsonl").write_bytes(b"{}\n")
    (tmp_path / "records.warc").write_bytes(WARC_HEAD + b"text\r\n\r\n")
    output = opened(tmp_path / "out")
    paths = [str(tmp_path / name) for name in ("empty.warc", "lines.jsonl", "records.warc")]
    PageOutputs({KEPT: output}).check_sources(open_sources(paths[:2]).sources)
    with pytest.raises(SettingsError, match=r"records\.warc holds WARC records, but --kept \S*out"):
        PageOutputs({KEPT: output}).check_sources(open_sources(paths).sources)
    output.close()


def test_an_index_has_an_output_of_pages_from_its_first_page_on_or_never() -> None:
    begun = SourceEntry("in.jsonl", "/in.jsonl", None, position=7)
    added = SourceEntry(ADDED, ADDED, None, position=7)
    both = {KEPT: "kept", DUPLICATES: "others"}
    check_complete(Catalogue(), both)
    check_complete(Catalogue(entries=[added]), both)
    with pytest.raises(SettingsError, match="has judged pages without --kept"):
        check_complete(Catalogue(entries=[begun]), both)
    known = Catalogue(entries=[begun], roles={output_key("kept"): KEPT})
    check_complete(known, {KEPT: "another"})
    with pytest.raises(SettingsError, match="would lack pages of this run"):
        check_complete(known, {"verdicts": "v"})
    with pytest.raises(SettingsError, match="without --duplicates"):
        check_complete(known, both)


def test_outputs_do_not_change_their_places() -> None:
    keys = {name: output_key(name) for name in ("v", "kept", "others")}
    roles = {keys["kept"]: KEPT, keys["others"]: DUPLICATES}
    known = Catalogue(outputs=dict.fromkeys(keys.values(), 7), roles=roles)
    check_complete(known, {"verdicts": "v", KEPT: "kept", DUPLICATES: "others"})
    for swapped in (
        {"verdicts": "v", KEPT: "others", DUPLICATES: "kept"},
        {"verdicts": "kept", KEPT: "new", DUPLICATES: "others"},
        {"verdicts": "new", KEPT: "v", DUPLICATES: "others"},
    ):
        with pytest.raises(SettingsError, match="is another output of the index"):
            check_complete(known, swapped)
