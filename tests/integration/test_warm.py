"""`streamer warm` compiles everything: whatever is run afterwards adds nothing to the cache."""

from __future__ import annotations

import base64
import gzip
import importlib
import json
import os
import pkgutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import streamer
from streamer.kafka.topics import Names
from streamer.kernel import KERNELS
from tests.helpers.fleet import ROOT, fleet
from tests.integration.chaos import load

# Runs commands one after the other in one process: a start takes longer than most of them.
COMMANDS = """
import json, sys
from streamer.cli.main import run
for arguments in json.loads(sys.argv[1]):
    sys.argv = ["streamer", *arguments]
    try:
        run()
    except SystemExit as ended:
        if ended.code:
            sys.exit(f"{arguments}: {ended.code}")
"""

PROSE = "the quick brown fox jumps over a lazy dog while animals of the farm look on and wonder"
MARKUP = (
    f"<title>a&amp;b &lt;&#x1F600;&#0;&notit; &nosuch;</title><p>{PROSE}<!-- c --><![CDATA[x]]>"
    f"<svg><text>hidden</text></svg><template>t</template><textarea>{PROSE}</textarea>"
    "<script>if (a<b) {}</script><style>p{}</style><?php?><!doctype html><img alt='a>b'/>"
)
ODD = (
    MARKUP,
    f"{PROSE} 東京 ภาษาไทย Καλημέρα ÀÉÎõü ﬁ İstanbul e\u0301\u0323 \U0001f600 {'x' * 90} a_b " * 4,
    "short",
    "",
)


def odd_lines() -> bytes:
    """Return messages that take every way through the text and the JSON kernels."""
    found: list[bytes] = []
    for number, body in enumerate(ODD):
        fields: dict[str, Any] = {"url": f"http://odd.example/{number}", "body": body}
        found.append(json.dumps(fields).encode())
        found.append(json.dumps(fields, ensure_ascii=False).encode())
        found.append(json.dumps({"n": [1.5e3, None, {"a": [True]}], **fields}).encode())
        raw = base64.b64encode(body.encode("utf-8", "replace") + b"\xff\xe9").decode()
        found.append(json.dumps({"url": fields["url"], "body_base64": raw}).encode())
    found += [
        rb'{"url":"http://odd.example/s","body":"\ud800 \ud83d\ude00 \u00e9\/\n<p>text"}',
        b'{"url":"http://odd.example/b","body":"\xff\xfe broken \xe2\x82 <p>"}',
        b"no json", b"", b'{"url":1}',
    ]  # fmt: skip
    return b"\n".join(found) + b"\n"


def archive(path: Path) -> None:
    """Write a WARC file, compressed by record."""
    packed = []
    for number, body in enumerate(ODD):
        block = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n" + body.encode()
        head = (
            f"WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: http://odd.example/w{number}\r\n"
            f"Content-Type: application/http\r\nContent-Length: {len(block)}\r\n\r\n"
        )
        packed.append(gzip.compress(head.encode() + block + b"\r\n\r\n"))
    path.write_bytes(b"".join(packed))


def streamer_runs(*commands: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", COMMANDS, json.dumps(commands)],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert "Compiling" not in done.stderr


def files_below(folder: Path) -> set[tuple[str, int]]:
    """Return the name of each file, and when it was written."""
    return {(path.name, path.stat().st_mtime_ns) for path in folder.rglob("*") if path.is_file()}


def all_kernels() -> set[str]:
    """Return the names of all kernels there are, as numba begins the names of their files."""
    for module in pkgutil.walk_packages(streamer.__path__, "streamer."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    return {
        f"{each.py_func.__module__.rpartition('.')[2]}.{each.py_func.__qualname__}"
        for each in KERNELS
    }


def warm(cache: Path, **environment: str) -> str:
    """Return what `streamer warm` shows."""
    done = subprocess.run(
        [sys.executable, "-m", "streamer", "warm"],
        cwd=ROOT, env={**os.environ, "NUMBA_CACHE_DIR": str(cache), **environment},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    return done.stderr


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a cache that `streamer warm` has filled, as on a terminal."""
    folder = tmp_path_factory.mktemp("cache")
    shown = warm(folder, FORCE_COLOR="1", COLUMNS="120")
    assert f"{len(all_kernels())}/{len(all_kernels())}" in shown
    return folder


def test_every_kernel_is_on_disk(cache: Path) -> None:
    """So that a kernel that is added later is compiled ahead as well."""
    assert all_kernels() == {path.name.rpartition("-")[0] for path in cache.rglob("*.nbi")}


def test_nothing_is_shown_where_nothing_is_left_to_compile(cache: Path) -> None:
    before = files_below(cache)
    assert warm(cache) == warm(cache, FORCE_COLOR="1") == ""
    (mark,) = cache.rglob("complete")
    mark.unlink()
    assert warm(cache) == "Compiling the kernels, once for this version and machine.\n"
    assert mark.exists()
    assert {name for name, _ in files_below(cache) - before} == {"complete"}


def test_whatever_runs_afterwards_compiles_nothing(
    cache: Path, brokers: str, names: Names, crawl: Path, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(cache))
    before = files_below(cache)
    pages = tmp_path / "pages.jsonl"
    pages.write_bytes(b"".join(crawl.read_bytes().splitlines(keepends=True)[:300]) + odd_lines())
    again, warc = tmp_path / "again.jsonl.gz", tmp_path / "pages.warc.gz"
    again.write_bytes(gzip.compress(pages.read_bytes()))
    archive(warc)
    text = tmp_path / "text.html"
    text.write_text(ODD[0])
    folder, index = str(tmp_path), str(tmp_path / "index")
    out = ["--verdicts", f"{folder}/verdicts.jsonl", "--index", index]
    streamer_runs(
        ["replay", str(pages), *out],
        ["replay", str(pages), str(again), str(warc), *out],
        ["replay", str(warc), "--verdicts", f"{folder}/warc.jsonl"],
        ["replay", str(pages), "--verdicts", f"{folder}/three.jsonl", "--shards", "3"],
        ["replay", str(pages), "--verdicts", f"{folder}/s.jsonl", "--method", "simhash+minhash"],
        ["replay", str(pages), "--verdicts", f"{folder}/m.jsonl", "--text", "main"],
        ["inspect", index],
        ["check", "--index", index],
        ["explain", "http://odd.example/0", "--index", index, "--texts", str(pages)],
        ["uniqueness", str(text), "--index", index],
        ["uniqueness", str(text), "--against", str(pages)],
        ["compare", str(text), str(text)],
        ["compare", str(text), str(text), "--text", "main"],
        ["clusters", f"{folder}/verdicts.jsonl", "--out", f"{folder}/clusters.csv"],
        ["tune", "--sample", str(pages)],
        ["collection", "build", str(pages), "--out", f"{folder}/words.json"],
    )
    load(brokers, names, pages)
    with fleet(tmp_path / "fleet", brokers, names) as workers:
        workers.start("sign", "--role", "sign", "--index", tmp_path / "signer")
        workers.start("index", "--role", "index", "--index", tmp_path / "owner")
        workers.wait_until_settled()
        for name in ("sign", "index"):
            assert workers.kill(name, signal.SIGTERM) == 0, workers.log(name)
            assert "kernels_compiling" not in workers.log(name)
        assert workers.verify("--settled").returncode == 0
        workers.replayed()
    assert files_below(cache) - before == set()
