"""What is forgotten answers no more, is gone from the disk, and is counted."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

from streamer.kafka.topics import Names
from tests.campaign.forgotten import write_key, write_pages
from tests.helpers.broker import Sent, fill_topic, messages_of, send
from tests.helpers.commands import ended
from tests.helpers.fleet import ROOT, Fleet, fleet, streamer

PAGES = 40


def url_of(number: int) -> str:
    return f"https://host{number % 4}.example/page{number}.html"


def page(number: int, url: str = "") -> Sent:
    words = " ".join(f"word{number}x{i}" for i in range(60))
    crawl = "again" if url else f"crawl{number % 8}"
    return None, json.dumps({"url": url or url_of(number), "body": words, "crawl": crawl}).encode()


def tombstone(number: int) -> Sent:
    return url_of(number).encode(), None


def verdicts(workers: Fleet) -> list[tuple[str, str | None]]:
    """Return what was said of each message: the verdict, and the URL of the representative."""
    workers.wait_until_settled()
    found: dict[int, Any] = {}
    for held in messages_of(workers.brokers, workers.names.verdicts).values():
        for message in held:
            verdict = json.loads(message.value)
            assert found.setdefault(verdict["page"]["offset"], verdict) == verdict
    return [
        (found[offset]["verdict"], (found[offset]["representative"] or {"url": None})["url"])
        for offset in sorted(found)
    ]


def command(workers: Fleet, *options: str) -> tuple[str, ...]:
    return ("forget", "--brokers", workers.brokers, "--index-name", workers.names.index, *options)


def would_forget(*command: str) -> int:
    """Return how many pages a command says that it would forget."""
    done = streamer(*command, "--dry-run")
    assert "kept pages would be forgotten.\nLooked for: " in done.stdout, done.stderr
    return int(done.stdout.split()[0])


def there(index: Path) -> list[int]:
    """Return the pages of which a URL is in any file of the index."""
    held = b"".join(path.read_bytes() for path in index.rglob("*") if path.is_file())
    return [number for number in range(PAGES) if url_of(number).encode() in held]


def forget_crawl(workers: Fleet, folder: Path) -> None:
    """Forget the pages of a crawl that are left, by the verdicts; see who depended on them."""
    published = messages_of(workers.brokers, workers.names.verdicts).values()
    reported, lost = folder / "told.jsonl", folder / "lost.jsonl"
    reported.write_bytes(
        b"".join((message.value or b"") + b"\n" for one in published for message in one)
    )
    chosen = "--carried", "crawl=crawl0", "--verdicts", str(reported), "--dependents", str(lost)
    done = streamer(*command(workers, "--input-topic", workers.names.pages, *chosen))
    assert done.returncode == 0, done.stderr
    said = ["4 kept pages forgotten.", "Looked for: carried crawl=crawl0."]
    assert done.stdout.splitlines() == said
    assert "4 duplicates lose their representative." in done.stderr
    depends = [json.loads(line) for line in lost.read_bytes().splitlines()]
    assert {one["url"] for one in depends} == {
        f"https://again.example/{number}" for number in (8, 16, 24, 32)
    }


def test_what_is_forgotten_through_the_log_is_gone_from_the_disk(
    brokers: str, names: Names, tmp_path: Path
) -> None:
    index, everything = tmp_path / "index", range(PAGES)
    unique, again = ("unique", None), [page(i, f"https://again.example/{i}") for i in everything]
    fill_topic(brokers, names.pages, [page(i) for i in everything])
    with fleet(tmp_path, brokers, names, ("--carry", "crawl")) as workers:
        workers.start("all", "--index", index, "--tombstones", "forget", "--head-pages", "15")
        assert verdicts(workers) == [unique] * PAGES

        wanted = command(
            workers, "--url", url_of(0), "--url", url_of(39), "--host", "host1.example"
        )
        assert would_forget(*wanted) == 12
        done = streamer(*wanted)
        gone = {0, 39, *range(1, PAGES, 4)}
        counted, looked_for = done.stdout.splitlines()
        assert (done.returncode, counted) == (0, "12 kept pages forgotten."), done.stderr
        assert looked_for.startswith(f"Looked for: URL {url_of(0)}, URL {url_of(39)}, host host1")
        assert not gone & {*there(index)}
        assert would_forget(*wanted, "--host", "host3.example") == 9
        send(brokers, names.pages, again)
        duplicates = [("duplicate", url_of(i)) for i in everything]
        said = [unique if i in gone else duplicates[i] for i in everything]
        assert verdicts(workers)[PAGES:] == said

        more = [tombstone(2), page(2, "https://other.example/"), tombstone(4), tombstone(999)]
        send(brokers, names.pages, [*more, page(6), page(4, "https://other.example/4")])
        said = [unique, ("duplicate", url_of(6)), unique]
        assert verdicts(workers)[2 * PAGES :] == said

        workers.kill("all", signal.SIGKILL)
        done = streamer(*command(workers, "--host", "host3.example", "--wait", "1"))
        assert done.returncode == 1, done.stdout
        assert "Not yet done after 1 seconds" in done.stderr
        waiting = subprocess.Popen(
            [sys.executable, "-m", "streamer", *command(workers, "--host", "host2.example")],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )
        for event in ("shard_assigned", "shard_caught_up"):
            workers.start("all")
            workers.wait_for_log("all", event)
            workers.kill("all", signal.SIGKILL)
        workers.start("all")
        output, _ = waiting.communicate(timeout=300)
        assert waiting.returncode == 0
        assert "kept pages forgotten.\n" in output
        assert {*there(index)} - gone <= {i for i in everything if i % 4 == 0} - {0, 4}
        send(brokers, names.pages, [page(7, "https://more.example/7"), page(8)])
        assert verdicts(workers)[-2:] == [unique, ("duplicate", url_of(8))]
        forget_crawl(workers, tmp_path)
        assert not {8, 16, 24, 32} & {*there(index)}
        send(brokers, names.pages, [page(16), page(12)])
        assert verdicts(workers)[-2:] == [unique, ("duplicate", url_of(12))]

        report = tmp_path / "report.json"
        workers.see_that_all_holds("--json", str(report))
        assert json.loads(report.read_bytes())["counts"]["kept pages that were forgotten"] == 36
        published = messages_of(brokers, names.verdicts)[0]
        offsets = {json.loads(m.value)["page"]["offset"]: m.value for m in published}
        assert workers.replayed() == [offsets[offset] for offset in sorted(offsets)]


def test_the_number_of_forgotten_pages_does_not_depend_on_flushes(tmp_path: Path) -> None:
    write_pages(tmp_path / "1.jsonl", 1, Random(7))
    write_pages(tmp_path / "2.jsonl", 2, Random(7))
    key = write_key(tmp_path / "key")
    counts = set()
    for head in (20, 10_000):
        index = tmp_path / f"index{head}"
        code, said = ended(
            "replay", tmp_path / "1.jsonl", tmp_path / "2.jsonl", "--index", index, "--key-file",
            key, "--verdicts", tmp_path / f"{head}.jsonl", "--track-changes",
            "--keep-pages", "150", "--head-pages", head,
        )  # fmt: skip
        assert code == 0, said
        counts.add(ended("forget", index, "--host", ".example", "--dry-run")[1].split()[0])
        counts.add(ended("forget", index, "--host", ".example")[1].split()[0])
    assert len(counts) == 1
    assert counts != {"0"}
