"""The interface for programs: its types, its signatures, and the readers of verdicts."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from streamer import (
    Deduplicator,
    InputError,
    SettingsError,
    Signer,
    Verdict,
    read_verdicts,
)
from tests.unit.test_deduplicator import text_of

ROOT = Path(__file__).parents[2]
PROGRAM = """
from collections.abc import AsyncIterator, Iterator

from streamer import (
    Deduplicator, KeptMatch, Page, Signature, Signer, Verdict, follow, read_verdicts,
)

with Deduplicator("index", threshold=0.8) as dedup:
    verdicts: Iterator[Verdict] = dedup.add([Page("u", body="b"), ("u", "b"), {"url": "u"}])
    for verdict in verdicts:
        if verdict.representative is not None:
            url: str = verdict.representative.url
    is_duplicate: bool = dedup.check(("u", b"b")).is_duplicate
    near: list[KeptMatch] = dedup.nearest("text", limit=5)
    count: int = dedup.forget(host="example.org") + len(dedup)
first: Signature = Signer(key=bytes(32)).sign(["text"])[0]
similarity: float = first.similarity(first)
written: Iterator[Verdict] = read_verdicts("verdicts.jsonl")
coming: AsyncIterator[Verdict] = follow("localhost:9092", "streamer")
"""
WRONG = """
from streamer import Deduplicator, Signer
Deduplicator("index").add([1])
similarity: str = Signer().sign(["text"])[0].similarity(2)
"""


def checked(tmp_path: Path, program: str, *checker: str) -> tuple[int, str]:
    """Return what a checker of types says of a program that imports the package."""
    path = tmp_path / "program.py"
    path.write_text(program, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", *checker, str(path)],
        cwd=tmp_path, env={**os.environ, "MYPYPATH": str(ROOT)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout


def test_mypy_checks_a_program_that_uses_it(tmp_path: Path) -> None:
    config, cache = f"--config-file={ROOT / 'pyproject.toml'}", f"--cache-dir={tmp_path / 'cache'}"
    mypy = "mypy", config, cache
    assert checked(tmp_path, PROGRAM, *mypy) == (0, "Success: no issues found in 1 source file\n")
    failed, said = checked(tmp_path, WRONG, *mypy)
    assert failed == 1
    assert said.count("error:") == 3


def test_pyright_checks_a_program_that_uses_it(tmp_path: Path) -> None:
    config = tmp_path / "pyrightconfig.json"
    config.write_text(json.dumps({"typeCheckingMode": "strict", "extraPaths": [str(ROOT)]}))
    pyright = "basedpyright", f"--project={config}", f"--pythonpath={sys.executable}"
    assert checked(tmp_path, PROGRAM, *pyright) == (0, "0 errors, 0 warnings, 0 notes\n")
    failed, said = checked(tmp_path, WRONG, *pyright)
    assert failed == 1
    assert "3 errors" in said


def test_signatures_estimate_the_resemblance_of_texts() -> None:
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
    assert len(Signer(bands=20, rows=4, key=key).sign([text])[0].keys) == 21


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"key": b"short"}, "key has 5 bytes; it must have 32"),
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
        verdicts = list(dedup.add(pages))
    lines = msgspec.json.Encoder().encode_lines(verdicts)
    plain, packed = tmp_path / "v.jsonl", tmp_path / "v.jsonl.gz"
    plain.write_bytes(lines)
    packed.write_bytes(gzip.compress(lines))
    assert list(read_verdicts(plain)) == list(read_verdicts(str(packed))) == verdicts
    assert isinstance(verdicts[0], Verdict)
    plain.write_bytes(lines + b'{"page": 1}\n')
    with pytest.raises(InputError, match=r"v.jsonl:10: not a verdict"):
        list(read_verdicts(plain))
    with pytest.raises(InputError, match="No such file"):
        list(read_verdicts(tmp_path / "missing.jsonl"))
