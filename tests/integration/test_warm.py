"""`streamer warm` compiles everything: whatever is run afterwards adds nothing to the cache.

But for what only main text needs, which `streamer warm --text main` compiles too.
"""

import base64
import fcntl
import gzip
import importlib
import json
import os
import pkgutil
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import streamer
from streamer.kafka.topics import Names
from streamer.kernel import KERNELS
from tests.helpers.cdx import archive, warc_record
from tests.helpers.fleet import ROOT, fleet
from tests.integration.chaos import load

# Runs commands one after the other in one process: a start takes longer than most of them.
COMMANDS = """
import json, os, sys
from streamer.cli.main import run
commands, *marks = sys.argv[1:]
for arguments in json.loads(commands):
    for mark in marks:
        os.unlink(mark)
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


def streamer_runs(*commands: list[str], without: tuple[Path, ...] = ()) -> int:
    """Run commands, before each of which marks are removed; return how many compile."""
    done = subprocess.run(
        [sys.executable, "-c", COMMANDS, json.dumps(commands), *map(str, without)],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stderr.count("Compiling the kernels")


def list_files_below(folder: Path) -> set[tuple[str, int]]:
    """Return the name of each file, and when it was written."""
    return {(path.name, path.stat().st_mtime_ns) for path in folder.rglob("*") if path.is_file()}


def all_kernels(text: str) -> set[str]:
    """Return the names of the kernels for a text, as numba begins the names of their files."""
    for module in pkgutil.walk_packages(streamer.__path__, "streamer."):
        # Spark, which not every environment has, gets the same kernels.
        if not module.name.endswith("__main__") and not module.name.startswith("streamer.spark"):
            importlib.import_module(module.name)
    names = {
        f"{each.py_func.__module__.rpartition('.')[2]}.{each.py_func.__qualname__}"
        for each in KERNELS
        if each.py_func.__module__.startswith("streamer.")  # not those of other tests
    }
    modules = {
        "blocks", "features", "furniture", "hints", "lines", "main_text", "site_pages", "trees",
    }  # fmt: skip
    for_main_text = {name for name in names if name.partition(".")[0] in modules}
    assert len(for_main_text) > 9
    return names if text == "main" else names - for_main_text


def warm(cache: Path, text: str = "visible", **environment: str) -> str:
    """Return what `streamer warm` shows."""
    done = subprocess.run(
        [sys.executable, "-m", "streamer", "warm", *(["--text", text] if text == "main" else [])],
        cwd=ROOT, env={**os.environ, "NUMBA_CACHE_DIR": str(cache), **environment},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    return done.stderr


def warmed(folder: Path, text: str) -> None:
    """Have `streamer warm` fill a cache, as on a terminal."""
    shown = warm(folder, text, FORCE_COLOR="1", COLUMNS="120")
    assert f"{len(all_kernels(text))}/{len(all_kernels(text))}" in shown


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], None]) -> Path:
    """Return a copy of a folder that the first of this run's processes makes for all.

    It takes half a minute of two cores.
    """
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID", "")
    base = factory.getbasetemp().parent if run else factory.getbasetemp()
    whole = base / f"{name}-{run}"
    with (base / f"{name}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not whole.exists():
            part = base / f"{name}.part"
            shutil.rmtree(part, ignore_errors=True)  # of a test that failed
            part.mkdir()
            make(part)
            part.rename(whole)
    return Path(shutil.copytree(whole, factory.mktemp(name) / "cache"))


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a cache of all but what only main text needs."""
    return made_once(tmp_path_factory, "visible", lambda folder: warmed(folder, "visible"))


@pytest.fixture(scope="module")
def cache_of_main(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a cache to which `streamer warm --text main` has added the rest."""

    def make(folder: Path) -> None:
        shutil.copytree(cache, folder, dirs_exist_ok=True)
        warmed(folder, "main")

    return made_once(tmp_path_factory, "main", make)


def test_every_kernel_is_on_disk_but_nobody_waits_for_main_text_who_never_asks_for_it(
    cache: Path, cache_of_main: Path
) -> None:
    """So that a kernel that is added later is compiled ahead as well."""
    for folder, text in ((cache, "visible"), (cache_of_main, "main")):
        found = {path.name.rpartition("-")[0] for path in folder.rglob("*.nbi")}
        assert found == all_kernels(text)


def test_nothing_is_shown_where_nothing_is_left_to_compile(cache_of_main: Path) -> None:
    before = list_files_below(cache_of_main)
    for text in ("visible", "main"):
        assert warm(cache_of_main, text) == warm(cache_of_main, text, FORCE_COLOR="1") == ""
    marks = {path.name: path for path in cache_of_main.rglob("complete*")}
    assert set(marks) == {"complete", "complete-main-text"}
    for mark in marks.values():
        mark.unlink()
    said = "Compiling the kernels, once for this version and machine.\n"
    assert [warm(cache_of_main, text) for text in ("visible", "main")] == [said, said]
    assert {name for name, _ in list_files_below(cache_of_main) - before} == set(marks)


def pages_of(crawl: Path, folder: Path) -> Path:
    """Return a file with some pages of the crawl, and odd ones."""
    pages = folder / "pages.jsonl"
    pages.write_bytes(b"".join(crawl.read_bytes().splitlines(keepends=True)[:300]) + odd_lines())
    return pages


def test_whatever_runs_afterwards_compiles_nothing(
    cache: Path, brokers: str, names: Names, crawl: Path, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(cache))
    before = list_files_below(cache)
    pages = pages_of(crawl, tmp_path)
    again, warc = tmp_path / "again.jsonl.gz", tmp_path / "pages.warc.gz"
    again.write_bytes(gzip.compress(pages.read_bytes()))
    kind, head = ("Content-Type", "application/http"), b"HTTP/1.1 200 OK\r\nContent-Type: text/html"
    records = [
        warc_record("response", "http://odd.example/w", head + b"\r\n\r\n" + body.encode(), kind)
        for body in ODD
    ]
    warc.write_bytes(archive("pages.warc.gz", records).data)
    text = tmp_path / "text.html"
    text.write_text(ODD[0])
    folder, index = str(tmp_path), str(tmp_path / "index")
    out = ["--verdicts", f"{folder}/verdicts.jsonl", "--index", index]
    compiled = streamer_runs(
        ["replay", str(pages), *out],
        ["replay", str(pages), str(again), str(warc), *out],
        ["replay", str(warc), "--verdicts", f"{folder}/warc.jsonl"],
        ["replay", str(pages), "--verdicts", f"{folder}/three.jsonl"],
        ["replay", str(pages), "--verdicts", f"{folder}/s.jsonl", "--method", "simhash+minhash"],
        ["inspect", index],
        ["check", "--index", index],
        ["explain", "http://odd.example/0", "--index", index, "--texts", str(pages)],
        ["uniqueness", str(text), "--against", str(pages)],
        ["compare", str(text), str(text)],
        ["clusters", f"{folder}/verdicts.jsonl", "--out", f"{folder}/clusters.csv"],
        ["tune", "--sample", str(pages)],
        ["collection", "build", str(pages), "--out", f"{folder}/words.json"],
    )
    assert compiled == 0
    load(brokers, names, pages)
    with fleet(tmp_path / "fleet", brokers, names) as workers:
        workers.start("sign", "--role", "sign", "--index", tmp_path / "signer")
        workers.settle("index", "--role", "index", "--index", tmp_path / "owner")
        for name in ("sign", "index"):
            assert workers.kill(name, signal.SIGTERM) == 0, workers.log(name)
            assert "kernels_compiling" not in workers.log(name)
        workers.see_that_all_holds()
        workers.replayed()
    assert list_files_below(cache) - before == set()


def test_who_asks_for_main_text_has_its_kernels_compiled_first_and_once(
    cache_of_main: Path, crawl: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(cache_of_main))
    before = list_files_below(cache_of_main)
    pages = pages_of(crawl, tmp_path)
    text = tmp_path / "text.html"
    text.write_text(ODD[0])
    folder, index = str(tmp_path), str(tmp_path / "index")
    by_simhash = ("--method", "simhash", "--overwrite")
    commands = [
        ["replay", str(pages), "--verdicts", f"{folder}/m.jsonl", "--index", index],
        ["replay", str(pages), "--verdicts", f"{folder}/t.jsonl", *by_simhash],
        ["text", str(pages), "--out", f"{folder}/texts.jsonl", "--blocks", "--overwrite"],
        ["compare", str(text), str(text)],
    ]
    for command in commands:
        command += ["--text", "main"]
    kept = ["--kept", f"{folder}/kept.jsonl", "--with-text", "--overwrite"]
    commands.append(["replay", str(pages), "--verdicts", f"{folder}/k.jsonl", *kept])
    commands.append(["explain", str(text), "--index", index, "--texts", str(pages)])
    (mark,) = cache_of_main.rglob("complete-main-text")
    assert streamer_runs(*commands, without=(mark,)) == len(commands)
    assert streamer_runs(*commands) == 0
    assert {name for name, _ in list_files_below(cache_of_main) - before} == {
        "complete", "complete-main-text",
    }  # fmt: skip
