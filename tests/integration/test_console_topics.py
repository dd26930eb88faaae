"""The console over the topics of a worker: its figures move, and its fold survives what happens."""

import asyncio
import json
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
from aiokafka import AIOKafkaConsumer, TopicPartition
from playwright.sync_api import Page, sync_playwright

from streamer.console.topic_fold import TopicFold
from streamer.console.view import VerdictView
from streamer.kafka.connection import Connection
from streamer.kafka.topics import Names
from tests.helpers.broker import broker, delete_topic, fill_topic, make_topic, running_broker, send
from tests.helpers.fleet import fleet
from tests.helpers.missing import leave_out
from tests.helpers.ports import free_port
from tests.helpers.verdict_lines import unique
from tests.helpers.wait import PATIENCE_S
from tests.integration.test_console import BROWSER, console, wait_until
from tests.unit.test_deduplicator import text_of


def pages(first: int, last: int) -> list[tuple[None, bytes]]:
    """Return messages of pages, of which every second one is a duplicate."""
    made = ({"url": f"https://a.example/{n}", "body": text_of(n // 2)} for n in range(first, last))
    return [(None, json.dumps(each).encode()) for each in made]


@contextmanager
def opened(address: str) -> Iterator[Page]:
    """Open the overview; it logs no error and asks no other host.

    Playwright holds this thread's event loop meanwhile.
    """
    errors, hosts = list[str](), set[str]()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        tab = browser.new_page(base_url=address)
        tab.set_default_timeout(1000 * PATIENCE_S)
        tab.on("console", lambda message: errors.append(message.text))
        tab.on("pageerror", lambda error: errors.append(str(error)))
        tab.on("request", lambda made: hosts.add(urlsplit(made.url).netloc))
        tab.goto("overview")
        yield tab
        browser.close()
    assert (errors, hosts) == ([], {urlsplit(address).netloc})


def is_settled(said: dict[str, Any], judged: int) -> bool:
    lags = [each["lag"] for each in said["lags"]]
    return said["pages"] == judged and bool(lags) and not any(lags)


def test_it_follows_a_worker(names: Names, tmp_path: Path) -> None:
    def is_gone(said: dict[str, Any]) -> bool:
        assert "unreachable" not in str(said), "it is the topic, not a broker"
        return f"There is no topic {names.verdicts}" in str(said)

    if BROWSER is None:
        leave_out("Chromium", ".ci/tools browser, as root")
    port, folder, view = free_port(), tmp_path / "broker", tmp_path / "view"
    with (
        running_broker(folder, port) as brokers,
        fleet(tmp_path / "workers", brokers, names) as workers,
    ):
        arguments = ["--brokers", brokers, "--index-name", names.index]
        arguments += ["--input-topic", names.pages]
        fill_topic(brokers, names.pages, [*pages(0, 20), (None, b"no page")])
        with console(view, *arguments) as (address, process):
            said = wait_until(lambda said: said["state"]["warnings"], address)
            assert f"There is no topic {names.verdicts}" in said["state"]["warnings"][0]
            options = ["--index", workers.folder / "index", "--health-port", free_port()]
            workers.start("all", *options)
            workers.wait_for_log("all", "worker_started")
            said = wait_until(lambda said: is_settled(said, 20), address)
            assert (said["unique"], said["letters"], said["state"]["warnings"]) == (10, 1, [])
            assert said["history"]["unit"] == "minutes"
            with opened(address) as tab, ThreadPoolExecutor(1) as apart:
                tab.evaluate("window.isTheSame = true")
                assert "messages to sign" in tab.locator("#lag").inner_text()
                apart.submit(send, brokers, names.pages, pages(20, 60)).result()
                tab.locator("#figures").get_by_text("60").wait_for()
                tab.locator("#charts").get_by_text("30").first.wait_for()
                assert tab.evaluate("window.isTheSame")
            process.kill()
        send(brokers, names.pages, pages(60, 70))
        with console(view, *arguments) as (address, _):
            said = wait_until(lambda said: is_settled(said, 70), address)
            assert [each.name for each in view.glob("*.sqlite")] == ["view-1.sqlite"]
            broker("kill", folder)
            said = wait_until(lambda said: said["state"]["warnings"], address)
            assert "The brokers have been unreachable since" in said["state"]["warnings"][0]
            assert said["pages"] == 70
            broker("start", folder, port)
            wait_until(lambda said: not said["state"]["warnings"], address)
            assert workers.kill("all", signal.SIGTERM) == 0
            delete_topic(brokers, names.verdicts)
            wait_until(is_gone, address)
            make_topic(brokers, names.verdicts)
            send(brokers, names.verdicts, [(None, msgspec.json.encode(unique(0)))])
            wait_until(lambda said: (said["pages"], said["letters"]) == (1, 1), address)


def test_pages_of_another_topic_are_not_counted(brokers: str, names: Names, tmp_path: Path) -> None:
    for topic in (names.pages, names.verdicts, other := f"{names.pages}-other"):
        make_topic(brokers, topic)
    send(brokers, names.pages, pages(0, 2))

    async def sign_others() -> None:
        async with AIOKafkaConsumer(bootstrap_servers=brokers, group_id=names.sign_group) as signer:
            signer.assign([TopicPartition(other, 0)])
            await signer.commit({TopicPartition(other, 0): 0})

    asyncio.run(sign_others())
    view = VerdictView(tmp_path / "view")
    fold = TopicFold(view, Connection(brokers), names)
    fold.go_on()
    state = fold.state()
    fold._disconnect()  # noqa: SLF001 - its process would end
    fold.close()
    view.close()
    assert state.lags == []
    assert f"sign the pages of {other}, not of {names.pages}" in state.trouble
