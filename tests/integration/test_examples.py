"""The examples run as their READMEs say, and give what these promise."""

import contextlib
import gzip
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest
from pyarrow import parquet

from streamer.kafka.topics import Names
from tests.helpers.broker import LIBRARIES, fill_topic, make_topic, send
from tests.helpers.missing import leave_out
from tests.helpers.ports import free_port
from tests.helpers.verdict_lines import duplicate, unique, url_of

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted(path.parent for path in ROOT.glob("examples/*/README.md"))
README_LINES_MAX = 30
SECONDS_MAX = 500


def commands_of(example: str) -> str:
    """Return the commands in the README of an example, as one script."""
    readme = (ROOT / "examples" / example / "README.md").read_text(encoding="utf-8")
    blocks: list[str] = re.findall(r"^```\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)
    assert blocks, example
    return "".join(blocks)


def run(script: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a script in a folder; kill what it leaves running."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    log = folder / "output"
    with log.open("w") as output:
        shell = subprocess.Popen(
            ["bash", "-euo", "pipefail", "-c", script],  # noqa: S607 - the system's
            cwd=folder, env={**os.environ, "PATH": path, **variables},
            stdout=output, stderr=output, start_new_session=True,
        )  # fmt: skip
        try:
            code = shell.wait(timeout=SECONDS_MAX)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(shell.pid, signal.SIGKILL)
    return subprocess.CompletedProcess(script, code, log.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the examples in a folder that has what they use of a clone."""
    clone = tmp_path_factory.mktemp("clone")
    unwanted = shutil.ignore_patterns("build", "__pycache__")
    shutil.copytree(ROOT / "examples", clone / "examples", ignore=unwanted)
    (clone / "schemas").symlink_to(ROOT / "schemas")
    (clone / "build" / "broker").mkdir(parents=True)
    (clone / "build" / "broker" / "libs").symlink_to(LIBRARIES)
    return clone


@pytest.fixture
def variables(brokers: str, names: Names) -> dict[str, str]:
    """Return what makes the commands use the tests' broker, and topics of their own."""
    return {
        "STREAMER_BROKERS": brokers, "STREAMER_INPUT_TOPIC": names.pages,
        "STREAMER_INDEX_NAME": names.index, "STREAMER_HEALTH_PORT": "0",
    }  # fmt: skip


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_a_readme_is_short_and_all_examples_are_listed(example: Path) -> None:
    assert len((example / "README.md").read_text("utf-8").splitlines()) <= README_LINES_MAX
    assert f"]({example.name}/README.md)" in (example.parent / "README.md").read_text("utf-8")


def test_scrapy_keeps_one_page_of_each_content(
    clone: Path, variables: dict[str, str], names: Names
) -> None:
    script = commands_of("scrapy").replace("8000", str(free_port()))
    script = script.replace("--topic pages ", f"--topic {names.pages} ")
    done = run(script, clone / "examples" / "scrapy", **variables)
    assert done.returncode == 0, done.stdout
    kept = (clone / "examples/scrapy/build/clean.jsonl").read_text("utf-8").splitlines()
    paths = (re.sub(r"^http://[^/]+|\?.*", "", json.loads(line)["url"]) for line in kept)
    contents = Counter(path.replace("print", "article") for path in paths)
    assert contents == {"/": 1, **{f"/article/{number}": 1 for number in range(1, 5)}}, done.stdout
    readme = (ROOT / "examples" / "scrapy" / "README.md").read_text("utf-8")
    [counts] = re.findall(r"counts (\d+) responses.* 200, (\d+) items dropped and (\d+)", readme)
    stats = ("response_status_count/200", "item_dropped_count", "item_scraped_count")
    assert [re.findall(rf"{name}': (\d+)", done.stdout)[0] for name in stats] == list(counts)
    assert "No verdict" not in done.stdout


def need_java() -> None:
    if shutil.which("java") is None or not LIBRARIES.exists():
        leave_out("Java, and Kafka's client for it", ".ci/tools broker, as root")


def test_java_counts_each_page_once(clone: Path, variables: dict[str, str], names: Names) -> None:
    need_java()
    brokers = variables["STREAMER_BROKERS"]
    of = {2: 1, 3: 0, 4: 1}
    verdicts = [duplicate(n, of=of[n]) if n in of else unique(n) for n in range(6)]
    repeated = map(msgspec.json.encode, [*verdicts[:5], *verdicts[3:]])
    fill_topic(brokers, names.verdicts, [(None, value) for value in repeated])
    done = run(commands_of("java"), clone / "examples" / "java", **variables)
    assert done.returncode == 0, done.stdout
    assert done.stdout.splitlines() == [
        "6 pages, 3 duplicates",
        f"     2  {url_of(1)}",
        f"     1  {url_of(0)}",
    ]


@pytest.mark.parametrize(
    ("message", "error"),
    [
        (b"no json", "No verdict at .*offset 0: Unrecognized token"),
        (b'{"schema": "streamer.verdict/2"}', 'the schema is not "streamer.verdict/1"'),
        (None, "There is no topic"),
    ],
)
def test_java_says_what_is_no_verdict(
    clone: Path, variables: dict[str, str], names: Names, message: bytes | None, error: str
) -> None:
    need_java()
    if message:
        make_topic(variables["STREAMER_BROKERS"], names.verdicts)
        send(variables["STREAMER_BROKERS"], names.verdicts, [(None, message)])
    done = run(commands_of("java"), clone / "examples" / "java", **variables)
    assert done.returncode == 1
    assert re.search(error, done.stdout), done.stdout


def test_a_folder_of_parquet_becomes_a_clean_file_and_a_report(clone: Path) -> None:
    folder = clone / "examples" / "parquet"
    done = run(commands_of("parquet"), folder)
    assert done.returncode == 0, done.stdout
    verdicts = (folder / "build/clean.verdicts.jsonl").read_text("utf-8").splitlines()
    decisions = Counter(json.loads(line)["verdict"] for line in verdicts)
    clean = parquet.read_table(folder / "build" / "clean.parquet")
    assert len(clean) == decisions["unique"] > 0
    assert clean.column_names == parquet.read_table(folder / "build" / "pages").column_names
    counted = re.findall(r"│ (duplicate|unique) +│ \w+ +│ +(\d+) │", done.stdout)
    for decision, pages in decisions.items():
        assert sum(int(count) for word, count in counted if word == decision) == pages
    assert len(re.findall(r"│ https://\S+ +│ +\d+ │ +[\d.]+ │", done.stdout)) == 5
    assert (folder / "build" / "clean.verdicts.jsonl.dead.jsonl").exists()


@pytest.mark.parametrize("given", ["./pages", "pages/", "../here/pages", "."])
def test_the_report_on_parquet_finds_a_folders_rows_by_any_name(tmp_path: Path, given: str) -> None:
    here = tmp_path / "here"
    (pages := here / "pages").mkdir(parents=True)
    rows = [{"url": f"https://a.example/{number}", "body": "one two three"} for number in (1, 2)]
    parquet.write_table(pa.Table.from_pylist(rows), pages / "in.parquet")
    report = f"python {ROOT / 'examples' / 'parquet' / 'report.py'} ../v.jsonl {given}"
    done = run(f"streamer replay {given} --verdicts ../v.jsonl && {report}", here)
    assert done.returncode == 0, done.stdout
    assert re.search(r"│ https://a.example/1 +│ +1 │", done.stdout), done.stdout


def test_archives_in_the_layout_of_common_crawl_are_judged_from_a_web_server(clone: Path) -> None:
    folder, port = clone / "examples" / "common_crawl", str(free_port())
    done = run(commands_of("common_crawl").replace("8000", port), folder)
    assert done.returncode == 0, done.stdout
    verdicts = (folder / "build" / "verdicts.jsonl").read_text("utf-8").splitlines()
    archives = Counter(json.loads(line)["page"]["topic"] for line in verdicts)
    crawl = f"http://127.0.0.1:{port}/crawl-data/CC-MAIN-2024-10"
    assert set(archives) == {f"{crawl}/segments/{n}/warc/{n:05}.warc.gz" for n in range(2)}
    assert archives.total() > 300, done.stdout
    unique = sum(json.loads(line)["verdict"] == "unique" for line in verdicts)
    clean = gzip.decompress((folder / "build" / "clean.warc.gz").read_bytes())
    assert clean.count(b"WARC-Type: response") == unique < archives.total()
    some = (folder / "build" / "some.jsonl").read_text("utf-8").splitlines()
    assert [json.loads(line)["page"]["offset"] for line in some] == [*range(50)]
