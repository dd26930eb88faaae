"""A corpus on a cluster of Spark on the loopback: its verdicts are those of a replay.

    python -m tests.integration.spark_cluster build/spark

By hand, since it takes minutes: one master and two workers, without compiled kernels; all the time
an executor is killed. The exit code is 0 if all columns are equal.
"""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from pyarrow import parquet

from tests.helpers.kubernetes_tools import TOOLS
from tests.helpers.ports import free_port
from tests.integration.test_spark import ROOT, drawn, replayed, run, write

PAGES = 20_000
START_SECONDS = 8
PROGRAM = """
import os
import sys
from pyspark.sql import SparkSession
from streamer.cli.main import app
from streamer.spark import rule
rule.REST_MAX = 100  # many rounds
log = os.open("spark.log", os.O_WRONLY | os.O_CREAT)
os.dup2(log, 1), os.dup2(log, 2)
spark = SparkSession.builder.master(sys.argv[1]).config("spark.executor.memory", "1g")
spark.config("spark.checkpoint.dir", sys.argv[2]).getOrCreate()
app(["spark", *sys.argv[3:], "--verdicts", "out", "--key-file", "key"])
"""


@contextmanager
def cluster(folder: Path) -> Iterator[str]:
    """Start a master and two workers; yield the address of the master."""
    spark, port = next(TOOLS.glob("spark/lib/python3*/site-packages/pyspark")), free_port()
    own = {"SPARK_HOME": str(spark), "SPARK_LOCAL_IP": "127.0.0.1",
           "PYSPARK_PYTHON": sys.executable,
           "PYTHONPATH": os.pathsep.join([str(ROOT), str(spark.parent)])}  # fmt: skip
    url = f"spark://127.0.0.1:{port}"
    commands = [["master.Master", "--port", str(port)]]
    commands += [["worker.Worker", "--cores", "1", "--memory", "2g", url] for _ in range(2)]
    with ExitStack() as stack:
        for number, (name, *options) in enumerate(commands):
            log = stack.enter_context((folder / f"{name}-{number}.log").open("wb"))
            command = [str(spark / "bin/spark-class"), f"org.apache.spark.deploy.{name}"]
            process = subprocess.Popen(
                [*command, "--host", "127.0.0.1", "--webui-port", "0", *options], cwd=folder,
                env={**os.environ, **own, "STREAMER_CACHE_DIR": str(folder / f"kernels-{number}")},
                stdout=log, stderr=log,
            )  # fmt: skip
            stack.callback(process.wait)
            stack.callback(process.terminate)
            time.sleep(START_SECONDS)
        yield url


def main() -> int:
    """Judge, with executors killed; return the exit code."""
    folder, rng = Path(sys.argv[1]).absolute(), random.Random(1)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    files = write(drawn(rng, PAGES), folder)
    wanted = replayed(folder, *files)
    with cluster(folder) as url:
        process = run(folder, "-c", PROGRAM, url, str(folder / "checkpoints"), *files)
        killed, quiet = 0, 15.0  # the driver compiles kernels
        while process.poll() is None:
            time.sleep(quiet)
            command = ["pgrep", "--full", "CoarseGrainedExecutorBackend"]
            found = subprocess.run(command, capture_output=True, text=True, check=False)
            if len(executors := found.stdout.split()) > 1:
                os.kill(int(rng.choice(executors)), signal.SIGKILL)
                killed, quiet = killed + 1, rng.uniform(10, 25)
    rows = [] if process.returncode else parquet.read_table(folder / "out").to_pylist()
    is_equal = "all equal" if rows == wanted else f"not equal: see {folder}/spark.log"
    sys.stdout.write(f"{killed} executors killed; {len(wanted):,} verdicts; {is_equal}\n")
    return int(rows != wanted or not killed)


if __name__ == "__main__":
    sys.exit(main())
