"""Every reader of verdict files refuses what is not the verdicts of one index."""

import gzip
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from streamer.analysis.clusters import group, ranking, rows
from streamer.console.inputs import read_batches
from streamer.errors import InputError
from streamer.model import Verdict
from streamer.run.verdict_files import read_places, read_verdicts
from tests.helpers.verdict_lines import LETTER, UNIQUE, duplicate, written

READERS: dict[str, Callable[[Path], object]] = {
    "read_verdicts": lambda path: [*read_verdicts(path)],
    "score, hints, explain": lambda path: [*read_places(path)],
    "clusters, select": lambda path: group(path, ranking("earliest")[0], lambda _url: 0),
    "console": lambda path: [*read_batches(path, 0, 0)],
}
COPY = duplicate(1, of=0)
DEEP = b"[" * 50_000 + b"]" * 50_000


def line(verdict: Verdict, old: bytes = b"", new: bytes = b"") -> bytes:
    encoded = msgspec.json.encode(verdict)
    assert old in encoded
    return encoded.replace(old, new) + b"\n"


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (line(COPY, b"9f1c22d07ab3e645", b"0000000000000000"), "of the index 0+, and those before"),
        (line(COPY, b"verdict/1", b"verdict/2"), r"schema is streamer\.verdict/2"),
        (line(COPY, b'"similarity":0.9', b'"similarity":5'), "similarity is 5|`float` <= 1"),
        (line(duplicate(1, of=1)), "its own page"),
        (line(UNIQUE, b'"unique"', b'"duplicate"'), "nothing else, has a representative"),
        (line(duplicate(0, of=7)), "its page has had another verdict before"),
        (line(COPY, b'"carried":{}', b'"carried":{"d":' + DEEP + b"}"), "recursion depth"),
    ],
    ids=["another index", "another schema", "no share", "itself", "of none", "again", "deep"],
)  # fmt: skip
def test_what_does_not_go_with_the_verdicts_before_is_refused(
    tmp_path: Path, read: Callable[[Path], object], bad: bytes, why: str
) -> None:
    path = tmp_path / "v.jsonl"
    path.write_bytes(line(UNIQUE) + bad)
    with pytest.raises(InputError, match=why) as refused:
        read(path)
    assert str(refused.value).startswith(f"{path}:2: ")


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
@pytest.mark.parametrize("field", [b'"offset":1', b'"offset":0'], ids=["page", "representative"])
def test_a_line_that_is_no_verdict_is_an_error_with_its_number(
    tmp_path: Path, read: Callable[[Path], object], field: bytes
) -> None:
    path = tmp_path / "v.jsonl"
    offsets = (b"-1", b"%d" % (1 << 40), b"1" + b"0" * 30, b"1.5", b'"7"', b"null")
    lines = [line(COPY, field, b'"offset":' + offset) for offset in offsets]
    for bad in (b'{"page": 3}\n', *lines):
        path.write_bytes(line(UNIQUE) + bad)
        with pytest.raises(InputError, match=r"v\.jsonl:2: (not|neither) a verdict"):
            read(path)


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_a_file_without_a_verdict_is_refused_but_an_empty_one_has_none(
    tmp_path: Path, read: Callable[[Path], object]
) -> None:
    path = tmp_path / "v.jsonl"
    path.touch()
    read(path)
    path.write_bytes(b'{"url": "http://a.example/", "body": "a page"}\n')
    with pytest.raises(InputError, match=r"has no verdict|not a verdict|neither a verdict"):
        read(path)


@pytest.mark.parametrize("name", ["v.jsonl.gz", "v.jsonl.zst"])
def test_a_compressed_file_of_no_byte_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    with pytest.raises(InputError, match="is empty, which no compressed file is"):
        [*read_verdicts(tmp_path / name)]


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_a_byte_order_mark_does_not_count(tmp_path: Path, read: Callable[[Path], object]) -> None:
    path = tmp_path / "v.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + line(UNIQUE) + line(COPY))
    read(path)
    packed = tmp_path / "packed.jsonl.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert len([*read_verdicts(packed)]) == 2
    rows_of = rows(path, group(path, ranking("earliest")[0], lambda _url: 0))
    assert [row.page.offset for row in rows_of] == [0, 1]


def test_a_console_that_reads_on_knows_the_index_of_the_file(tmp_path: Path) -> None:
    path = written(tmp_path / "v.jsonl", UNIQUE, COPY)
    position = path.stat().st_size
    with path.open("ab") as file:
        file.write(line(duplicate(2, of=0), b"9f1c22d07ab3e645", b"0000000000000000"))
    with pytest.raises(InputError, match=r"v\.jsonl:3: .* those before are of 9f1c"):
        [*read_batches(path, position, 2)]
    written(path, LETTER, UNIQUE, COPY)
    assert [*read_batches(path, len(msgspec.json.encode(LETTER)) + 1, 1)]
