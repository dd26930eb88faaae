"""`streamer worker --track-changes` on a real broker: what became of the content of URLs."""

import json
import random
from pathlib import Path

from streamer.kafka.topics import Names
from tests.helpers.broker import make_topic, send, verdicts_of
from tests.helpers.fleet import fleet

PAGES, URLS = 240, 40


def crawl(draw: random.Random) -> tuple[list[bytes], list[str]]:
    """Return pages whose URLs come again, and what each is to the version before."""
    texts: dict[int, list[str]] = {}
    copies = [[f"copy{n}w{i}" for i in range(150)] for n in range(6)]
    pages, changes = [], []
    for number in range(PAGES):
        url = draw.randrange(URLS)
        change = draw.choice(("unchanged", "unchanged", "edited", "replaced"))
        if url not in texts:
            change, words = "new", draw.choice(copies)  # duplicates, except the first ones
        elif change == "unchanged":
            words = texts[url]
        elif change == "edited":
            words = [*texts[url]]
            words[draw.randrange(50, 100)] = f"edit{number}"
        else:
            words = [f"page{number}w{i}" for i in range(150)]
        texts[url] = words
        pages.append(json.dumps({"url": f"http://{url}.example/", "body": " ".join(words)}))
        changes.append(change)
    return [each.encode() for each in pages], changes


def test_changes_are_those_of_the_log_through_kills_and_a_lost_index(
    brokers: str, names: Names, tmp_path: Path
) -> None:
    pages, expected = crawl(random.Random(1))
    make_topic(brokers, names.pages)
    with fleet(tmp_path, brokers, names, options=("--track-changes",)) as workers:
        workers.start("all", "--index", tmp_path / "index", "--head-pages", "16")
        for part in (pages[:80], pages[80:160]):
            send(brokers, names.pages, [(None, value) for value in part])
            workers.wait_until_settled()
            workers.kill("all")
            workers.start("all")
        workers.kill("all")
        workers.start("all", "--index", tmp_path / "another", "--head-pages", "16")  # from the log
        send(brokers, names.pages, [(None, value) for value in pages[160:]])
        workers.wait_until_settled()
        found = {v["page"]["offset"]: v for v in map(json.loads, verdicts_of(brokers, names))}
        assert [found[offset]["change"] for offset in range(PAGES)] == expected
        edited = [v["change_similarity"] for v in found.values() if v["change"] == "edited"]
        assert min(edited) > 0.85
        workers.see_that_all_holds()
        assert sorted(workers.replayed()) == sorted(set(verdicts_of(brokers, names)))
