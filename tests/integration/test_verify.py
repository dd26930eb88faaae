"""`streamer verify` on a real broker: clean after a real worker, and what is forged is found."""

import asyncio
import json
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from streamer.analysis.audit.facts import AuditReport
from streamer.analysis.audit.verify import VerifyOptions, verify
from streamer.errors import StoreMismatch
from streamer.kafka.connection import Connection
from streamer.kafka.topics import Names
from streamer.pages.parse import PageParser
from tests.helpers.broker import messages_of, send
from tests.helpers.fleet import Fleet, fleet
from tests.integration.chaos import load, make_crawl

PAGES = 2_000


def test_what_a_worker_has_done_is_clean_and_a_forged_verdict_is_found(
    brokers: str, names: Names, tmp_path: Path
) -> None:
    load(brokers, names, make_crawl(tmp_path, PAGES), partitions=3)
    with fleet(tmp_path / "fleet", brokers, names) as workers:
        workers.settle("all", "--role", "all", "--index", tmp_path / "index")
        found = verified(brokers, names)  # next to the worker
        assert found.broken == []
        assert workers.kill("all", signal.SIGTERM) == 0
        workers.see_that_all_holds("--json", str(tmp_path / "counts.json"))
        counts = json.loads((tmp_path / "counts.json").read_text())
        assert counts["clean"] is True
        assert counts["checks"]["outcomes"]["looked_at"] == PAGES
        assert counts["checks"]["settled"]["violations"] == 0
        assert counts["counts"]["pages dead-lettered"] > 0
        assert counts["counts"]["skipped: type_not_text"] > 0
        message = messages_of(brokers, names.verdicts)[0][0]
        forged = json.dumps({**json.loads(message.value), "similarity": 0.5}).encode()
        send(brokers, names.verdicts, [(message.key, forged, None, list(message.headers))])
        done = workers.verify()
        assert done.returncode == 1
        assert "breaks its promises" in done.stderr
        said = " ".join(done.stderr.split())
        assert "repeats, verdict_bytes" in said
        assert "give all of those that the index was made with" in said
        assert "another one than before" in done.stdout
    other = Names(names.index, f"{names.pages}-other")
    load(brokers, other, make_crawl(tmp_path, 50), partitions=1)
    with pytest.raises(StoreMismatch, match="Name its topic with --input-topic"):
        verified(brokers, other)


def verified(brokers: str, names: Names) -> AuditReport:
    options = VerifyOptions(Connection(brokers), names, PageParser())
    return asyncio.run(verify(options, lambda _what, _done, _total: None))


def test_an_audit_waits_for_the_topics_of_an_index_that_is_just_being_made(
    brokers: str, names: Names, tmp_path: Path
) -> None:
    load(brokers, names, make_crawl(tmp_path, 50), partitions=1)
    began = time.monotonic()
    refused = Fleet(tmp_path, brokers, names).verify("--wait", "2")
    assert refused.returncode == 1
    assert f"There is no index {names.index}" in " ".join(refused.stderr.split())
    assert time.monotonic() - began >= 2
    with ThreadPoolExecutor(1) as pool, fleet(tmp_path / "fleet", brokers, names) as workers:
        checked = pool.submit(workers.verify, "--settled", "--wait", "90")
        time.sleep(1)  # so that it finds nothing at first
        workers.start("all", "--role", "all", "--index", tmp_path / "index")
        done = checked.result()
    assert done.returncode == 0, done.stdout + done.stderr
