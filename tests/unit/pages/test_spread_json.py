"""Objects in an array, over several lines or several on a line are read as one object a line."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner, Result

from streamer.cli.main import app
from streamer.errors import StoreMismatch
from streamer.pages.files import Source
from streamer.pages.parse import PageParser
from streamer.pages.spread_json import JsonLines, ObjectLines, is_spread
from tests.helpers.chunks import all_chunks

KEYS = st.text(st.characters(codec="utf-8"), max_size=6)
VALUES = st.recursive(
    st.none() | st.integers() | st.text('ab"\\[]{},:\n\r\u2028 \u00e9\U0001f600', max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.lists(st.dictionaries(KEYS, VALUES, min_size=1, max_size=3), min_size=1, max_size=5)
BETWEEN = {
    "": "", "spaces": "  ", "commas": ",\n", "bars": " | ", "semicolons": ";\r\n",
    "rs": "\n\x1e",
}  # fmt: skip
JOINED = ("", " ", " | ", ";", "\x1e", "\r", "\n")
FORMS = st.sampled_from(["array", "indented array", "indented", "lines of arrays", *BETWEEN])


def written(objects: list[dict[str, Any]], form: str, *, ascii_only: bool) -> str:
    if form in BETWEEN:
        each = [json.dumps(one, ensure_ascii=ascii_only) for one in (*objects, {"last": 1})]
        return "\x1e" * (form == "rs") + BETWEEN[form].join(each)
    indent = None if form in {"array", "lines of arrays"} else 2
    if form in {"array", "indented array"}:
        return json.dumps(objects, ensure_ascii=ascii_only, indent=indent)
    each = [json.dumps(one, ensure_ascii=ascii_only, indent=indent) for one in objects]
    return "".join(f"[{one}]\n" if form == "lines of arrays" else f"{one}\n" for one in each)


def lines_of(made: type[JsonLines | ObjectLines], data: bytes, step: int = 999) -> list[bytes]:
    lines, block = made(io.BufferedReader(io.BytesIO(data))), bytearray(step)
    parts = b"".join(bytes(block[:count]) for count in iter(lambda: lines.readinto(block), 0))
    return [line for line in parts.split(b"\n") if line]


@given(OBJECTS, FORMS, st.tuples(st.booleans(), st.booleans()), st.integers(1, 9))
def test_each_object_of_any_form_is_one_line_of_the_same_value(
    objects: list[dict[str, Any]], form: str, options: tuple[bool, bool], step: int
) -> None:
    mark, ascii_only = options
    data = ("\ufeff" * mark + written(objects, form, ascii_only=ascii_only)).encode()
    assert is_spread(data)
    lines = lines_of(JsonLines, data, step)
    expected = [*objects, {"last": 1}] if form in BETWEEN else objects
    assert [*map(json.loads, lines)] == expected


@pytest.mark.parametrize(
    "head",
    [
        b"", b'{"url": "u"}\n', b"{}\n{}\n", b"[1]\n[2]\n", b'# {\n{"a": 1}\n', b'[]\n{"a": 1}\n',
        b"[]\n[]\n", b"{\n{\n", b"{ x\n", b'{"a": "}{"} \r\n{', b'{"a": {}} # {"b": 1}\n',
        b"WARC/1.0\r\n",
    ],
)  # fmt: skip
def test_what_is_no_spread_json_stays_as_it_is(head: bytes) -> None:
    assert not is_spread(head)


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b'[{"a": 1}, 2, "]", [3]]', [b'{"a": 1}', b"2", b'"]"', b"[3]"]),
        (b'[{"a":1},{"b":2},\n]', [b'{"a":1}', b'{"b":2}']),
        (b'[{"a":1},{"b"', [b'{"a":1}', b'{"b"']),
        (b'[{"a":"x\ny"}] junk\n[{"b":2}]', [b'{"a":"x\ry"}', b"junk", b'{"b":2}']),
        (b'[{"a":1}}, {"b":2}]', [b'{"a":1}', b"}", b'{"b":2}']),
        (b'[null,\n{"a":1}, []]', [b"null", b'{"a":1}', b"[]"]),
        (b'[1.5, "x, {", [2], {"a":1}]', [b"1.5", b'"x, {"', b"[2]", b'{"a":1}']),
        (b"[\n]\n", []),
        (b'// a [\n# "b\n/* c\n */ [{"a":1}]', [b"// a [", b'# "b', b"/* c  */", b'{"a":1}']),
        (b'[]\n[{"a":1}]\n', [b'{"a":1}']),
    ],
)  # fmt: skip
def test_what_is_malformed_becomes_records_too(data: bytes, lines: list[bytes]) -> None:
    assert is_spread(data)
    assert lines_of(JsonLines, data) == lines


SIGNS = st.dictionaries(st.sampled_from("ab"), st.text('}{ ";|,:\\[]', max_size=9), min_size=1)


@given(
    st.lists(
        st.tuples(SIGNS | st.fixed_dictionaries({"a": st.lists(SIGNS)}), st.sampled_from(JOINED))
    ),
    st.integers(1, 99),
)
def test_objects_on_one_line_are_lines(
    objects: list[tuple[dict[str, Any], str]], step: int
) -> None:
    text = "".join(json.dumps(one) + between for one, between in objects)
    data = text.rstrip(" |\r\x1e;").encode()
    assert [*map(json.loads, lines_of(ObjectLines, data, step))] == [one for one, _ in objects]


def page(number: int) -> dict[str, str]:
    return {"url": f"http://a/{number}", "body": " ".join(f"w{number}x{i}" for i in range(3000))}


def replay(folder: Path, *arguments: str) -> Result:
    outputs = ["--verdicts", str(folder / "v.jsonl"), "--index", str(folder / "index")]
    return CliRunner().invoke(app, ["replay", *arguments, *outputs])


def judged(folder: Path) -> list[tuple[str, int]]:
    found = [json.loads(line) for line in (folder / "v.jsonl").read_text("utf-8").splitlines()]
    return [(one["url"], one["page"]["offset"]) for one in found]


def test_an_array_that_grows_goes_on_where_it_ended(tmp_path: Path) -> None:
    path = tmp_path / "pages.json"
    pages = [page(n) for n in range(9)]
    path.write_text(json.dumps(pages[:5], indent=1))
    assert replay(tmp_path, str(path)).exit_code == 0
    path.write_text(json.dumps(pages, indent=1))
    done = replay(tmp_path, str(path))
    assert done.exit_code == 0, (done.output, done.exception)
    assert judged(tmp_path) == [(f"http://a/{n}", n) for n in range(9)]
    pages[3] = page(77)
    path.write_text(json.dumps(pages, indent=1))
    assert isinstance(replay(tmp_path, str(path)).exception, StoreMismatch)


def assert_pages(path: Path, text: str, urls: list[str]) -> None:
    """Write a file and read it, also as a pipe: its records are pages of these URLs."""
    path.write_text(text + "\n", newline="")
    for is_regular in (True, False):
        source, parser = Source(str(path), is_regular=is_regular), PageParser()
        batches = [parser.parse(chunk) for chunk in all_chunks(source)]
        found = [each for one in batches for each in zip(one.urls, one.sequences, strict=True)]
        assert found == [(url.encode(), number) for number, url in enumerate(urls)]


@pytest.mark.parametrize("between", ["", " ; ", "\r", ",\n", "\n|\n", "\n\x1e"])
@pytest.mark.parametrize("count", [3, 2000])
def test_objects_are_pages_whatever_parts_them(tmp_path: Path, between: str, count: int) -> None:
    pages = [page(n) for n in range(count)]
    pages[0]["body"] *= 9 if count == 3 else 1  # longer than what is looked at first
    text = between.join(map(json.dumps, pages))
    assert_pages(tmp_path / "a.jsonl", text, [each["url"] for each in pages])


@pytest.mark.parametrize("between", JOINED)
@pytest.mark.parametrize(("before", "after"), [(0, 2), (9, 3)], ids=["small", "late"])
def test_following_objects_are_pages(tmp_path: Path, between: str, before: int, after: int) -> None:
    pages = [{"url": "u", "body": "short }{"}, {"url": "v", "body": "if (a) {} {"}]
    pages += [page(n) for n in range(before + after)]
    objects = [*map(json.dumps, pages)]
    text = "\n".join([*objects[:-after], between.join(objects[-after:])])
    assert_pages(tmp_path / "a.jsonl", text, [each["url"] for each in pages])


def test_other_files_in_a_folder_do_not_end_a_run(tmp_path: Path) -> None:
    folder = tmp_path / "pages"
    folder.mkdir()
    (folder / "a.json").write_text(json.dumps({"name": "package", "version": 1}, indent=2))
    (folder / "b.json").write_bytes(b"PAR1\0\0\0")
    (folder / "c.jsonl").write_bytes(b"\x80\2\3\0binary")
    (folder / "d.txt").write_text("notes")
    (folder / "e.json").write_text(json.dumps([page(1)], indent=2))
    done = replay(tmp_path, str(folder), "--summary", str(tmp_path / "s.json"))
    assert done.exit_code == 0, (done.output, done.exception)
    assert judged(tmp_path) == [("http://a/1", 0)]
    found = json.loads((tmp_path / "s.json").read_text())
    assert found["files_passed_over"] == [
        str(folder / name) for name in ("a.json", "b.json", "c.jsonl", "d.txt")
    ]
    kinds = {"no_page_body": 1, "unknown_format": 2, "beside_pages": 1}
    assert found["files_passed_over_by_kind"] == kinds
    assert found["dead_letters"] == {}
