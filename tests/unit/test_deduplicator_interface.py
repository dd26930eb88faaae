"""The interface for programs: its types, its signatures, and the readers of verdicts."""

import gzip
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import get_type_hints

import msgspec
import pytest

from streamer import Deduplicator, InputError, SettingsError, Signer, Verdict, read_verdicts
from streamer.config import list_settings
from streamer.options import Options
from streamer.panels import FIELDS, RUNNING, SIGNATURE, TEXT, VERDICTS
from tests.helpers.added import added
from tests.unit.test_deduplicator import text_of

ROOT = Path(__file__).parents[2]
PROGRAM = """
from collections.abc import AsyncIterator, Iterator

from streamer import (
    Deduplicator, KeptMatch, Page, Rejected, Signature, Signer, Verdict, follow, read_verdicts,
)

with Deduplicator("index", threshold=0.8) as dedup:
    results: Iterator[Verdict | Rejected] = dedup.add([Page("u", body="b"), ("u", b"b")])
    is_duplicate: bool = dedup.check(("u", b"b")).is_duplicate
    near: list[KeptMatch] = dedup.nearest("text", limit=5)
    count: int = dedup.forget(host="example.org") + len(dedup)
first: Signature = Signer(key="12" * 32).sign(["text"])[0]
similarity: float = first.similarity(first)
written: Iterator[Verdict] = read_verdicts("verdicts.jsonl")


async def verdicts_of_a_worker() -> None:
    async with follow("localhost:9092", "streamer") as coming:
        verdicts: AsyncIterator[Verdict] = coming
        async for verdict in verdicts:
            print(verdict.url)
"""
WRONG = """
from streamer import Deduplicator, Signer
Deduplicator("index", treshold=0.8).add([1])
similarity: str = Signer().sign(["text"])[0].similarity(2)
"""


def assert_takes_what_is_right(tmp_path: Path, *checker: str) -> None:
    """Have a checker of types read programs that import the package: it finds what is wrong."""
    programs = {"readme.py": readme_program(), "right.py": PROGRAM, "wrong.py": WRONG}
    for name, program in programs.items():
        (tmp_path / name).write_text(program, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", *checker, *programs],
        cwd=tmp_path, env={**os.environ, "MYPYPATH": str(ROOT)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    errors = [line for line in done.stdout.splitlines() if re.search(r":\d+.* error: ", line)]
    assert len(errors) == 4, done.stdout + done.stderr
    assert all("wrong.py:" in line for line in errors), done.stdout


def readme_program() -> str:
    """Return the program in Python of README.md."""
    (program,) = re.findall(
        "```python\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL
    )
    return str(program)


def test_the_readme_program_does_what_it_says(tmp_path: Path) -> None:
    """Also in the folder of the commands before it, whose index has a key of its own."""
    (own,) = re.findall(r'Deduplicator\("(.+?)"', readme_program())
    assert f"--index {own}" not in (ROOT / "README.md").read_text("utf-8")
    done = subprocess.run(
        [sys.executable, "-c", readme_program()], cwd=tmp_path, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "https://b.example/ is like https://a.example/ 1.0",
        "https://c.example/ cannot be judged: empty_body",
    ]


def test_each_setting_is_an_option_or_is_of_no_use_to_a_program() -> None:
    options = get_type_hints(Options)
    panels = {VERDICTS, TEXT, SIGNATURE, FIELDS, RUNNING}
    own = {each.name for each in list_settings() if each.panel in panels}
    assert own - options.keys() == {
        "tombstones", "url_prefix", "cdx_base", "chunk_seconds", "include", "exclude", "value",
    }  # fmt: skip
    assert options.keys() <= own


def test_mypy_checks_a_program_that_uses_it(tmp_path: Path) -> None:
    cache = f"--cache-dir={tmp_path / 'cache'}"
    as_installed = "--strict", "--follow-imports=silent"
    assert_takes_what_is_right(tmp_path, "mypy", cache, *as_installed)


def test_pyright_checks_a_program_that_uses_it(tmp_path: Path) -> None:
    config = tmp_path / "pyrightconfig.json"
    config.write_text(json.dumps({"typeCheckingMode": "strict", "extraPaths": [str(ROOT)]}))
    pyright = "basedpyright", f"--project={config}", f"--pythonpath={sys.executable}"
    assert_takes_what_is_right(tmp_path, *pyright)


def test_signatures_estimate_the_resemblance_of_texts(tmp_path: Path) -> None:
    text, key = text_of(1, 400), bytes(range(32))
    near = f"{text} {text_of(2, 100)}"
    a, b, c = Signer(key=key).sign([text, near, text_of(3)])
    assert a.similarity(a) == 1.0
    assert a.similarity(b) == pytest.approx(396 / 496, abs=0.1)
    assert a.similarity(c) < 0.1
    assert not a.shares_key(c)
    [again] = Signer(key=key).sign([text])
    assert a.shares_key(again)
    [other] = Signer().sign([text])
    assert not a.shares_key(other)
    [page] = Signer(key=key).sign([f"<p>{text}</p><script>var x</script>"], html=True)
    assert page.similarity(a) == 1.0
    (tmp_path / "key").write_text(key.hex() + "\n", encoding="ascii")
    for signer in (Signer(key=key.hex()), Signer(key_file=tmp_path / "key")):
        assert (signer.sign([text])[0].keys == a.keys).all()
    assert len(Signer(bands=20, rows=4, key=key).sign([text])[0].keys) == 21
    one, same, unlike, empty = Signer(key=key).sign(["hi there", "Hi there!", "ho there", ""])
    assert [one.similarity(each) for each in (same, unlike, empty, a)] == [1.0, 0.0, 0.0, 0.0]
    with pytest.raises(TypeError, match="a list of texts"):
        Signer().sign(text)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"key": b"short"}, "key of 5 bytes cannot be used. It must be 32 bytes"),
        ({"key": "zz" * 32}, "key of 64 characters cannot be used"),
        ({"key": "12" * 31}, "key of 62 characters cannot be used"),
        ({"key": bytes(32), "key_file": "key"}, "key or key_file, not both"),
        ({"key_file": "missing"}, "Cannot use the key file missing"),
        ({"bands": 0}, "bands = 0 cannot be used"),
        ({"shingle_width": 99}, "shingle_width = 99 cannot be used"),
    ],
)
def test_what_a_signer_cannot_take_is_said(options: dict[str, int], sentence: str) -> None:
    with pytest.raises(SettingsError, match=sentence):
        Signer(**options)  # type: ignore[arg-type]  # what is tested


def test_verdict_files_are_read_as_they_were_written(tmp_path: Path) -> None:
    with Deduplicator(track_changes=True, carry=("rank",)) as dedup:
        pages = [{"url": f"https://{i % 2}", "body": text_of(i % 3), "rank": i} for i in range(9)]
        verdicts = list(added(dedup, pages))
    lines = msgspec.json.Encoder().encode_lines(verdicts)
    plain, packed = tmp_path / "v.jsonl", tmp_path / "v.jsonl.gz"
    plain.write_bytes(b"\n" + lines + b"\r\n")
    packed.write_bytes(gzip.compress(lines))
    assert list(read_verdicts(plain)) == list(read_verdicts(str(packed))) == verdicts
    assert isinstance(verdicts[0], Verdict)
    with pytest.raises(InputError, match="No such file"):
        list(read_verdicts(tmp_path / "missing.jsonl"))
