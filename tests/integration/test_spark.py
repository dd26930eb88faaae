"""A whole corpus on Spark has the verdicts of a replay, each field of each."""

import csv
import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from pyarrow import csv as arrow_csv
from pyarrow import parquet

from tests.helpers.kubernetes_tools import TOOLS
from tests.helpers.missing import leave_out

ROOT = Path(__file__).parents[2]
WORDS = 60  # of a page
FRAME = """
from pathlib import Path
from pyspark.sql import SparkSession
from streamer.cli.main import app
from streamer.errors import SettingsError
from streamer.spark import deduplicate, rule
spark = SparkSession.builder.master("local[2]").getOrCreate()
files = spark.read.parquet("pages")
rule.REST_MAX = 0  # rounds to the end
deduplicate(files, key_file="key").write.parquet("by_file")
numbered = spark.read.parquet("numbered.parquet")
rule.REST_MAX = 30  # rounds, and one worker decides the rest
found = deduplicate(numbered, order="number", prefix="v_", key_file="key")
found.orderBy("number").write.parquet("by_column")
for frame, options in (
    (spark.range(3), {}), (files, {"order": "none"}), (numbered, {"order": "size"}),
    (files, {"site_memory": "1MiB", "text": "main"}), (files, {"expire_after": "1d"}),
    (numbered.withColumnRenamed("size", "basis"), {"order": "number"}),
):
    try:
        deduplicate(frame, **{"key_file": "key", **options})
    except SettingsError as error:
        print(error)
for folder in ("pages", "new"):
    Path("new.dead").mkdir(exist_ok=True)
    try:
        app(["spark", "c.csv", "--verdicts", folder, "--key-file", "key"], standalone_mode=False)
    except SettingsError as error:
        print(error)
assert not Path("new").exists()
"""


def run(folder: Path, *command: str, **options: Any) -> subprocess.Popen[str]:
    """Start a command with Spark."""
    packages = [*TOOLS.glob("spark/lib/python3*/site-packages/pyspark")]
    if not packages:
        leave_out("PySpark", ".ci/tools spark")
    path = os.pathsep.join([str(ROOT), str(packages[0].parent)])
    # What a long job gains by, and a short one waits for: more compiling.
    quick = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    settings = "shuffle.partitions=2", "codegen.wholeStage=false"
    conf = "".join(f" --conf spark.sql.{each}" for each in settings)
    set_up = f"--driver-java-options '{quick}'{conf} --conf spark.ui.enabled=false pyspark-shell"
    own = {"PYTHONPATH": path, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1",
           "PYSPARK_SUBMIT_ARGS": set_up}  # fmt: skip
    return subprocess.Popen(
        [sys.executable, *command], cwd=folder, env={**os.environ, **own}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options,
    )  # fmt: skip


def ended(process: subprocess.Popen[str]) -> str:
    """Return what a command said, once it has ended well."""
    out, err = process.communicate(timeout=600)
    assert process.returncode == 0, err[-3000:]
    return out + err


def drawn(rng: random.Random, count: int) -> list[dict[str, str]]:
    """Return pages: slow edits that end unlike their beginning, copies, short and broken ones."""
    vocabulary = [f"word{i}" for i in range(4000)]
    chains = [rng.choices(vocabulary, k=WORDS) for _ in range(max(2, count // 20))]
    pages = list[dict[str, str]]()
    for number in range(count):
        chain = rng.choice(chains)
        kind = rng.random()
        if kind < 0.6:
            chain[rng.randrange(WORDS)] = rng.choice(vocabulary)
        text = " ".join(chain if kind < 0.85 else chain[: rng.randrange(7)])
        page = {"url": f"https://{rng.choice('abc')}.example/{number}", "body": text}
        if kind > 0.97:
            del page["body" if kind > 0.98 else "url"]
        pages.append(page)
    return pages


def write(pages: list[dict[str, str]], folder: Path) -> list[str]:
    """Write pages to files of three kinds, and a key; return their names."""
    third = len(pages) // 3
    for name, some in (("b.jsonl", pages[:third]), ("a.jsonl", pages[third : 2 * third])):
        (folder / name).write_text("".join(json.dumps(page) + "\n" for page in some))
    with (folder / "c.csv").open("w", newline="") as file:
        table = csv.DictWriter(file, ["url", "body"])
        table.writeheader()
        table.writerows(pages[2 * third :])
    (folder / "key").write_text("5c" * 32)
    return ["b.jsonl", "a.jsonl", "c.csv"]


def replayed(folder: Path, *arguments: str) -> list[dict[str, Any]]:
    """Return the verdicts of a replay."""
    command = ["replay", *arguments, "--key-file", "key", "--verdicts", "v.parquet"]
    ended(run(folder, "-m", "streamer", *command))
    rows: list[dict[str, Any]] = parquet.read_table(folder / "v.parquet").to_pylist()
    return rows


def test_verdicts_and_dead_letters_are_those_of_a_replay_though_workers_die(tmp_path: Path) -> None:
    files = write(drawn(random.Random(1), 1200), tmp_path)
    options = [*files, "--near-misses", "0.2", "--exact", "--bucket-max", "2", "--scope", "host"]
    wanted = replayed(tmp_path, *options)
    kinds = {(row["verdict"], row["basis"]) for row in wanted}
    assert len(kinds) >= 5, kinds
    own = "--verdicts", "out", "--key-file", "key", "--master", "local[2,9]"
    process = run(tmp_path, "-m", "streamer", "spark", *options, *own, start_new_session=True)
    for _ in range(3):
        while not (workers := _python_workers(process.pid)) and process.poll() is None:
            time.sleep(0.02)
        time.sleep(1)
        for worker in workers:
            with suppress(ProcessLookupError):
                os.kill(worker, signal.SIGKILL)
    assert "Lost task" in ended(process)
    assert parquet.read_table(tmp_path / "out").to_pylist() == wanted
    letters = [path.read_bytes() for path in sorted((tmp_path / "out.dead").glob("part-*"))]
    assert b"".join(letters) == (tmp_path / "v.parquet.dead.jsonl").read_bytes() != b""


def test_frames_have_an_order_and_what_has_none_is_refused(tmp_path: Path) -> None:
    write(drawn(random.Random(3), 300), tmp_path)
    table = arrow_csv.read_csv(tmp_path / "c.csv")
    (tmp_path / "pages").mkdir()
    parquet.write_table(table.slice(0, 40), tmp_path / "pages/2.parquet")
    parquet.write_table(table.slice(40), tmp_path / "pages/1.parquet")
    numbers = random.Random(4).sample(range(10**6), len(table))
    numbered = table.append_column("number", [numbers]).append_column("size", [[1] * len(table)])
    parquet.write_table(numbered, tmp_path / "numbered.parquet")
    said = ended(run(tmp_path, "-c", FRAME))
    for wanted in ("Only a frame of Parquet", "no column none", "is no order", "--site-memory",
                   "--expire-after", "a column basis", "The folder pages is there already",
                   "The folder new.dead is there already"):  # fmt: skip
        assert wanted in said
    wanted_rows = replayed(tmp_path, "pages")
    judged = parquet.read_table(tmp_path / "by_file").to_pylist()
    found = {(Path(row["page_topic"]).name, row["page_offset"]): row for row in judged
             if row["verdict"]}  # fmt: skip
    assert len(found) == len(wanted_rows) > 90
    for row in wanted_rows:
        own = found[Path(row["page_topic"]).name, row["page_offset"]]
        names = "verdict", "similarity", "representative_offset"
        assert [own[name] for name in names] == [row[name] for name in names]
    ordered = numbered.sort_by("number")
    parquet.write_table(ordered, tmp_path / "ordered.parquet")
    wanted_rows = replayed(tmp_path, "ordered.parquet", "--overwrite")
    rows = [row for row in parquet.read_table(tmp_path / "by_column").to_pylist() if row["v_basis"]]
    fields = "verdict", "basis", "similarity", "representative_url", "text_bytes"
    assert [[row[f"v_{name}"] for name in fields] for row in rows] == [
        [row[name] for name in fields] for row in wanted_rows
    ]


def _python_workers(session: int) -> list[int]:
    """Return the processes of a session in which Spark runs Python, but the one that forks them."""
    command = ["pgrep", "--session", str(session), "--full", "pyspark.daemon"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    return sorted(map(int, found.stdout.split()))[1:]
