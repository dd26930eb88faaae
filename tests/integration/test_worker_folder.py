"""A worker's folder, with an index a shard: all commands that look inside an index take it."""

import json
import re
import shutil
import signal
from pathlib import Path
from typing import Any

from streamer.kafka.topics import Names
from tests.helpers.broker import messages_of
from tests.helpers.fleet import KEY, fleet, streamer
from tests.integration.chaos import load

TEXT = " ".join(f"word{n}" for n in range(100))


def out(*arguments: object) -> str:
    done = streamer(*arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def report(*arguments: object) -> dict[str, Any]:
    return dict(json.loads(out(*arguments, "--json")))


def test_what_looks_inside_an_index_takes_the_folder_of_a_worker(
    brokers: str, names: Names, tmp_path: Path
) -> None:
    pages, index, own = tmp_path / "pages.jsonl", tmp_path / "index", tmp_path / "own.txt"
    bodies = [f"{TEXT} {' '.join(f'more{n}x{i}' for i in range(60))}" for n in range(20)]
    lines = [{"url": f"http://a/{n}", "body": body} for n, body in enumerate(bodies)]
    pages.write_text("".join(json.dumps(line) + "\n" for line in lines))
    own.write_text(bodies[7])
    load(brokers, names, pages)
    with fleet(tmp_path / "run", brokers, names) as workers:
        workers.settle("all", "--index", index)
        assert workers.kill("all", signal.SIGTERM) == 0
        key = ("--key-file", tmp_path / "key")
        key[1].write_text(KEY)
        key[1].chmod(0o600)

        found = report("inspect", index)
        assert [shard["shard"] for shard in found["shards"]] == [0]
        assert found["shards"][0]["pages_kept"] == 20
        assert {name.partition(", ")[0] for name in found["position"]} == {"shard-0"}
        assert "shard 0" in out("inspect", index, "--all")
        assert re.search(r"records read +20 of \d sources", out("inspect", index))

        fits = out("check", "--index", index, *key)
        assert fits.count("fits") == 1
        assert out("check", "--index", index, "--deep", *key).count("newest-flush") == 1
        assert out("forget", index, "--host", "a", "--dry-run").startswith("20 kept pages would")

        of_text = report("explain", own, "--index", index, *key)
        assert (of_text["verdict"], of_text["nearest"]["url"]) == ("duplicate", "http://a/7")
        topic = ("--input-topic", names.pages)
        of_page = report("explain", "http://a/7", "--index", index, *topic, *key)
        assert (of_page["kept"], of_page["verdict"]) == (True, "unique")
        [verdict] = [
            said["page"]
            for held in messages_of(brokers, names.verdicts).values()
            for said in (json.loads(message.value) for message in held)
            if said["url"] == "http://a/7"
        ]
        assert of_page["place"].startswith(verdict["topic"])
        assert of_page["place"].endswith(f":{verdict['offset']}")


def test_a_shard_that_is_restored_at_the_top_of_a_folder_is_not_passed_over(
    brokers: str, names: Names, crawl: Path, tmp_path: Path
) -> None:
    index, snapshots = tmp_path / "index", tmp_path / "snapshots"
    load(brokers, names, crawl)
    with fleet(tmp_path / "run", brokers, names) as workers:
        workers.settle("all", "--index", index)
        assert workers.kill("all", signal.SIGTERM) == 0
        out("snapshot", index, snapshots)
        shutil.rmtree(index)
        out("restore", snapshots / "shard-0", index)
        assert workers.start("all").wait(timeout=300) == 3
        assert f"restore the snapshot to {index}/shard-0" in workers.log("all")
