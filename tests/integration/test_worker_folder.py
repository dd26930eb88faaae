"""A worker's folder, with an index a shard: all commands that look inside an index take it."""

import json
import re
import shutil
import signal
from pathlib import Path
from typing import Any

from streamer.kafka.topics import Names
from tests.helpers.broker import fill_topic
from tests.helpers.commands import run
from tests.helpers.fleet import fleet
from tests.helpers.place import page
from tests.integration.chaos import load


def report(*arguments: object) -> dict[str, Any]:
    return dict(json.loads(run(*arguments, "--json")))


def test_what_looks_inside_an_index_takes_the_folder_of_a_worker(
    brokers: str, names: Names, tmp_path: Path
) -> None:
    index, key = tmp_path / "index", ("--key-file", tmp_path / "run" / "key")
    fill_topic(brokers, names.pages, [(None, page(number)) for number in range(20)])
    with fleet(tmp_path / "run", brokers, names) as workers:
        workers.settle("all", "--index", index)
        assert workers.kill("all", signal.SIGTERM) == 0

        found = report("inspect", index)
        assert found["position"]["shard-0, log"]["records"] > 1
        assert [shard["shard"] for shard in found["shards"]] == [0]
        assert found["shards"][0]["pages_kept"] == 20
        assert {name.partition(", ")[0] for name in found["position"]} == {"shard-0"}
        assert "shard 0" in run("inspect", index, "--all")
        assert re.search(r"records read +20 of \d sources", run("inspect", index))

        fits = run("check", "--index", index, *key)
        assert fits.count("fits") == 1
        assert run("check", "--index", index, "--deep", *key).count("newest-flush") == 1
        forgetting = run("forget", index, "--host", "a.example", "--dry-run")
        assert forgetting.startswith("20 kept pages would")
        topic = ("--input-topic", names.pages)
        of_page = report("explain", "http://a.example/7", "--index", index, *topic, *key)
        assert (of_page["kept"], of_page["verdict"]) == (True, "unique")
        assert of_page["place"].startswith(names.pages)
        assert of_page["place"].endswith(":7")


def test_a_shard_that_is_restored_at_the_top_of_a_folder_is_not_passed_over(
    brokers: str, names: Names, crawl: Path, tmp_path: Path
) -> None:
    index, snapshots = tmp_path / "index", tmp_path / "snapshots"
    load(brokers, names, crawl)
    with fleet(tmp_path / "run", brokers, names) as workers:
        workers.settle("all", "--index", index)
        assert workers.kill("all", signal.SIGTERM) == 0
        run("snapshot", index, snapshots)
        shutil.rmtree(index)
        run("restore", snapshots / "shard-0", index)
        assert workers.start("all").wait(timeout=300) == 3
        assert f"restore the snapshot to {index}/shard-0" in workers.log("all")
