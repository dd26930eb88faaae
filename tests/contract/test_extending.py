"""docs/extending.md: what it shows works."""

import csv
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

from streamer.pages.bytestream import ByteStream
from streamer.pages.chunk import Ending
from streamer.pages.parse import PageParser
from streamer.pages.records import Format, InputFile
from streamer.sketch.method import Method, PageText, similarity_of

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "extending.md"
FILES_MAX = 4  # that a field of the verdict touches
# Writes the verdicts on two pages, a unique one and its duplicate, in all forms that they have.
PUBLISH = """
from pathlib import Path
import numpy as np
from msgspec import json
from streamer.console import queries
from streamer.console.fold import Fold
from streamer.console.view import VerdictView
from streamer.index.messages import Verdicts
from streamer.model import Location
from streamer.run.verdict_files import VerdictTable
from streamer.run.stages import verdict_lines
from streamer.run.verdict_files import table_head, table_lines
from tests.helpers.signed_pages import EMPTY_SKETCH, made_pages

pages = made_pages([[1], [1]], [EMPTY_SKETCH] * 2, tokens=3)
block = Verdicts(
    pages, np.array([-1, 9000]), np.array([0, 0]), np.array([0, 0], np.uint64), [b"", b"u0"]
)
by = block, lambda ref: Location("pages", 0, ref), "1f"
lines, table = Path("v.jsonl"), Path("v.parquet")
lines.write_bytes(verdict_lines(*by))
Path("v.csv").write_bytes(table_head(near=False) + table_lines(*by, near=False))
VerdictTable(str(table), lines).write(lambda _amount: None, lambda _part: None)
view = VerdictView(Path("view"))
Fold(view, [table]).go_on()
with view.read(5) as connection:
    found = [each.verdict for each in queries.verdicts(connection, queries.OF_ALL, 2)]
    Path("console.jsonl").write_bytes(json.Encoder().encode_lines(found))
"""


def _shown(name: str) -> Any:
    """Return what the document defines under a name."""
    names: dict[str, Any] = {"__name__": "shown"}
    for code in re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL):
        exec(code, names)  # noqa: S102 - our own document
    return names[name]


def test_the_format_that_is_shown_reads_pages(tmp_path: Path) -> None:
    pairs: Format = _shown("PAIRS")
    path = tmp_path / "pages.pairs"
    path.write_bytes(b"u\ta body\nv\tanother body")
    with pairs.open(InputFile(str(path), is_regular=True), ByteStream(str(path))) as records:
        (chunk,) = records.chunks(0, Ending())
    batch = PageParser().parse(chunk)
    assert batch.urls == [b"u", b"v"]
    assert list(map(bytes, batch.bodies)) == [b"a body", b"another body"]


def test_the_method_that_is_shown_signs_pages() -> None:
    longest: type[Method[Any]] = _shown("LongestWords")
    method = longest(longest.defaults(), bytes(32))
    texts = (
        "a kingfisher, a nightingale, two woodpeckers and a yellowhammer sat on a willow",
        "on a willow sat two woodpeckers, a yellowhammer, a kingfisher and a nightingale",
        "trains to the coast leave every morning from the central railway station",
    )
    one, same, other = (method.sign(PageText(text)) for text in texts)
    assert list(one.keys) == list(same.keys)
    assert not set(one.keys) & set(other.keys)
    assert similarity_of(longest.measure, one.sketch, same.sketch) == 1
    assert similarity_of(longest.measure, one.sketch, other.sketch) < method.threshold


def test_the_field_that_is_shown_is_published(tmp_path: Path) -> None:
    for name in ("streamer", "schemas", "docs"):
        leave = shutil.ignore_patterns("__pycache__", "*.svg", "*.png")
        shutil.copytree(ROOT / name, tmp_path / name, ignore=leave)
    touched = _apply_what_is_shown(tmp_path)
    assert len(touched) <= FILES_MAX
    subprocess.run(
        [sys.executable, "-c", PUBLISH], check=True, cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": f"{tmp_path}:{ROOT}"},
    )  # fmt: skip
    schema = json.loads((tmp_path / "schemas/verdict.schema.json").read_bytes())
    lines = (tmp_path / "v.jsonl").read_bytes()
    assert (tmp_path / "console.jsonl").read_bytes() == lines  # by Parquet and the console's table
    with (tmp_path / "v.csv").open(encoding="utf-8", newline="") as file:
        assert [row["tokens"] for row in csv.DictReader(file)] == ["3", "3"]
    said = [json.loads(line) for line in lines.splitlines()]
    assert [each["verdict"] for each in said] == ["unique", "duplicate"]
    for each in said:
        Draft202012Validator(schema).validate(each)
        assert each["tokens"] == 3
        assert "tokens" in schema["properties"]


def _apply_what_is_shown(root: Path) -> set[str]:
    """Make the changes of the document below a folder; return the files that they touch."""
    (shown,) = re.findall(r"```diff\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    touched = set()
    for part in shown.split("--- ")[1:]:
        name, *lines = part.splitlines()
        before = "\n".join(line[1:] for line in lines if line[0] != "+")
        after = "\n".join(line[1:] for line in lines if line[0] != "-")
        text = (root / name).read_text(encoding="utf-8")
        assert text.count(before) == 1, part
        (root / name).write_text(text.replace(before, after), encoding="utf-8")
        touched.add(name)
    return touched
