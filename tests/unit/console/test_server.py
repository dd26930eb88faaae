import asyncio
import json
import sqlite3
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from aiohttp import ClientSession
from aiohttp.test_utils import TestClient, TestServer
from yarl import URL

from streamer.console.answers import ConsoleData
from streamer.console.fold import FoldState
from streamer.console.routes import ROUTES
from streamer.console.server import ConsoleServer, ServerOptions, is_loopback
from streamer.console.view import QueryTooLong
from streamer.errors import SettingsError
from streamer.model import Representative
from tests.helpers.verdict_lines import duplicate, place
from tests.unit.console.conftest import folded

TOKEN = "a-token-of-the-test"  # noqa: S105 - of the test
BEARER = {"Authorization": f"Bearer {TOKEN}"}
WITH_TOKEN = ServerOptions(token=TOKEN)


class Reply(NamedTuple):
    status: int
    text: str
    headers: dict[str, str]


Client = TestClient[Any, Any]


def with_client(data: ConsoleData, options: ServerOptions, work: Callable[[Client], Any]) -> Any:
    async def run() -> Any:
        app = ConsoleServer(data, options).application()
        async with TestClient(TestServer(app)) as client:
            return await work(client)

    return asyncio.run(run())


def ask(
    data: ConsoleData, path: str, options: ServerOptions | None = None, /, **more: Any
) -> Reply:
    async def work(client: Client) -> Reply:
        method = more.pop("method", "GET")
        async with client.request(method, path, allow_redirects=False, **more) as response:
            return Reply(response.status, await response.text(), dict(response.headers))

    found: Reply = with_client(data, options or ServerOptions(), work)
    return found


VIEWS = [route.path for route in ROUTES if route.is_view]


@pytest.mark.parametrize("path", VIEWS)
def test_each_view_is_a_page_and_the_same_as_json(data: ConsoleData, path: str) -> None:
    query = "?place=pages.jsonl:0" if path == "/cluster" else ""
    page = ask(data, f"{path}{query}")
    assert (page.status, page.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert f'href="{path}.json' in page.text
    answer = ask(data, f"{path}.json{query}")
    assert (answer.status, answer.headers["Content-Type"]) == (200, "application/json")
    assert json.loads(answer.text)


def test_a_unique_page_has_its_near_miss(data: ConsoleData) -> None:
    page = " ".join(ask(data, "/page?page=pages.jsonl:1").text.split())
    assert ">https://www.site0.example/page-0</bdi></a>, similarity 0.7412" in page
    assert "none with a similarity of 0.65" in ask(data, "/page?page=pages.jsonl:18").text


def test_what_has_no_page_here_is_no_link(tmp_path: Path) -> None:
    other = Representative(place(0), "https://else.example/", "last-year")
    line = msgspec.structs.replace(duplicate(1, of=0, url="no host"), representative=other)
    with folded(tmp_path, line) as data:
        text = ask(data, "/page?page=no+host").text
        assert "<bdi>https://else.example/</bdi> in the index last-year" in text
        assert '<td class="name" data-label="host">(no host)</td>' in ask(data, "/hosts").text


@pytest.mark.parametrize("path", ["/", "/overview", "/style.css", "/none", "/page?x=1", "/login"])
def test_every_answer_forbids_what_is_not_ours(data: ConsoleData, path: str) -> None:
    headers = ask(data, path).headers
    assert headers["Content-Security-Policy"].startswith("default-src 'none'; style-src 'self';")
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        ("/hosts.json?limit=0", 400, "Expected `int` >= 1"),
        ("/hosts.json?limit=501", 400, "<= 500"),
        ("/hosts.json?sort=size", 400, "Invalid enum value"),
        ("/hosts.json?color=red", 400, "unknown field `color`"),
        ("/hosts.json?limit=1&limit=2", 400, "twice"),
        ("/cluster.json", 400, "missing required field `place`"),
        ("/cluster.json?place=x:1", 404, "No page is a duplicate"),
        ("/api/none", 404, "Not Found"),
    ],
)
def test_a_refusal_has_its_reason(data: ConsoleData, path: str, status: int, said: str) -> None:
    answer = ask(data, path)
    assert (answer.status, said in json.loads(answer.text)["error"]) == (status, True)
    assert ask(data, path.replace(".json", "")).status == status


def test_the_overview_sends_its_figures_as_they_are_now(data: ConsoleData) -> None:
    rates = iter([None, None, 12.3])
    trouble = "<script>alert(1)</script>"
    data = replace(data, fold=lambda: FoldState(trouble=trouble, rate=next(rates, 45.6)))
    first, second, third = (ask(data, "/overview/live").text for _ in range(3))
    assert "</strong> pages a second now" in first
    assert "<strong>12</strong> pages a second" in second
    assert "<strong>46</strong> pages a second" in third
    assert "&lt;script&gt;alert(1)" in first
    page = ask(data, "/overview").text
    assert '<script src="/console.js" data-source="/overview/live" defer></script>' in page
    script = ask(data, "/console.js", WITH_TOKEN)
    assert script.status == 200
    assert script.headers["Content-Type"] == "text/javascript; charset=utf-8"
    assert ask(data, "/overview/live", WITH_TOKEN).status == 401


def test_empty_fields_of_a_form_count_as_not_given(data: ConsoleData) -> None:
    assert ask(data, "/clusters.json?host=").text == ask(data, "/clusters.json").text


@pytest.mark.parametrize("value", ["%FF", "%ED%A0%80", "%00", "%", "%u0041", "a;b", "%2e%2e/", "+"])
def test_what_is_no_text_is_no_failure(data: ConsoleData, value: str) -> None:
    async def work(client: Client) -> None:
        names = "page?page clusters?host dead-letters?code api/pages?url hosts?sort"
        for name in names.split():
            async with client.get(URL(f"/{name}={value}", encoded=True)) as response:
                assert response.status in {200, 400}, name

    with_client(data, ServerOptions(), work)


async def test_a_long_url_can_be_looked_up(data: ConsoleData) -> None:
    async with (
        ConsoleServer(data, ServerOptions()).serving() as address,
        ClientSession() as session,
        session.get(f"{address}page.json", params={"page": "/" * 60_000}) as response,
    ):
        assert response.status == 200


def test_a_post_to_a_view_is_refused(data: ConsoleData) -> None:
    answer = ask(data, "/hosts.json", method="POST")
    assert (answer.status, answer.headers["Allow"]) == (405, "GET,HEAD")


ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"


@pytest.mark.parametrize(("seconds", "stops"), [(0.05, False), (60, True)])
def test_a_query_has_an_end_to_its_time_and_ends_with_the_console(
    data: ConsoleData, seconds: float, *, stops: bool
) -> None:
    began = time.monotonic()
    if stops:
        threading.Timer(0.1, data.view.stopped.set).start()
    with pytest.raises(QueryTooLong), data.view.read(seconds) as view:
        view.execute(ENDLESS).fetchone()
    assert time.monotonic() - began < 30


def test_the_view_cannot_be_written_by_a_query(data: ConsoleData) -> None:
    with data.view.read(5) as view, pytest.raises(sqlite3.OperationalError, match="readonly"):
        view.execute("DELETE FROM page")


# ---- who may look --------------------------------------------------------------------------------


FOREIGN = [
    "evil.example", "evil.example:80", "127.0.0.1.evil.example", "[::1].evil", "[::1].evil:80",
    "[::1]evil", "[::1", "::1", "[::1%evil.example]", "[127.0.0.1]", "[localhost]", "127.0.0.1]",
    "localhost:80@evil.example", "localhost:evil", "127.0.0.1:1:evil", "localhost.evil.example",
    "evil@localhost", "",
]  # fmt: skip
HERE = ["localhost:1", "LocalHost", "127.0.0.1", "127.0.0.1:", "[::1]:80"]


@pytest.mark.parametrize("name", [*FOREIGN, *HERE])
def test_without_a_token_only_this_machine_is_answered(data: ConsoleData, name: str) -> None:
    wanted = 200 if name in HERE else 403
    assert ask(data, "/overview", headers={"Host": name}).status == wanted


async def test_without_a_token_no_name_of_several_may_be_foreign(data: ConsoleData) -> None:
    own, foreign = b"Host: 127.0.0.1\r\n", b"Host: evil.example\r\n"
    request = b"GET /overview HTTP/1.1\r\n"
    named = b"GET http://evil.example/overview HTTP/1.1\r\n"
    for head, statuses in (
        (request + own, {b"200"}), (request + own + foreign, {b"400", b"403"}),
        (named + own, {b"403"}),
    ):  # fmt: skip
        async with ConsoleServer(data, ServerOptions()).serving() as address:
            reader, writer = await asyncio.open_connection("127.0.0.1", URL(address).port)
            writer.write(head + b"\r\n")
            assert (await reader.readline()).split()[1] in statuses
            writer.close()


@pytest.mark.parametrize(
    "name", ["Forwarded", "Via", "X-Real-IP", "X-Forwarded-For", "x-forwarded-proto"]
)
def test_without_a_token_a_proxy_is_refused(data: ConsoleData, name: str) -> None:
    answer = ask(data, "/overview.json", headers={name: "203.0.113.9"})
    assert (answer.status, "--token-file" in answer.text) == (403, True)
    headers = {name: "203.0.113.9", "Host": "crawl.example", **BEARER}
    assert ask(data, "/overview", WITH_TOKEN, headers=headers).status == 200


@pytest.mark.parametrize("given", ["", "Bearer ", f"Bearer {TOKEN}x", f"Basic {TOKEN}"])
def test_with_a_token_nobody_else_is_answered(data: ConsoleData, given: str) -> None:
    headers = {"Authorization": given} if given else {}
    for path in ("/overview", "/overview.json", "/openapi.json", "/none"):
        answer = ask(data, path, WITH_TOKEN, headers=headers)
        assert (answer.status, answer.headers["WWW-Authenticate"]) == (401, "Bearer")
        assert "site0" not in answer.text


def test_a_person_gives_the_token_once(data: ConsoleData) -> None:
    async def work(client: Client) -> None:
        async with client.post("/login", data={"token": "wrong"}) as response:
            assert response.status == 401
        async with client.post("/login", data={"token": TOKEN}) as response:
            assert response.status == 200
            cookie = response.history[0].headers["Set-Cookie"]
        async with client.get("/hosts") as response:
            assert response.status == 200
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie
        assert TOKEN not in cookie

    with_client(data, WITH_TOKEN, work)


def test_what_anyone_sends_for_a_token_is_small_and_no_failure(data: ConsoleData) -> None:
    for headers in ({"Authorization": "Bearer \u00e9"}, {"Cookie": "streamer_console=\u00e9"}):
        assert ask(data, "/overview", WITH_TOKEN, headers=headers).status == 401
    own = "application/x-www-form-urlencoded; charset=none"
    for kind, form, statuses in (
        ("multipart/form-data", b"x", {400, 401}), (own, b"token=" + b"x" * 5000, {413}),
        (own, b"token=\xff%ff", {401}), (own, f"token={TOKEN}".encode(), {303}),
    ):  # fmt: skip
        headers = {"Content-Type": kind}
        answer = ask(data, "/login", WITH_TOKEN, method="POST", headers=headers, data=form)
        assert answer.status in statuses, form
    assert ask(data, "/login", method="POST", data={"token": ""}).status == 404


async def test_checks_that_wait_lock_no_view_out(data: ConsoleData) -> None:
    server = ConsoleServer(data, ServerOptions())
    server._waiting[server._index_pool] = 32  # noqa: SLF001 - as many as may wait
    with pytest.raises(QueryTooLong):
        await server._run_in_thread(lambda: b"answered", server._index_pool)  # noqa: SLF001 - as above
    assert await server._run_in_thread(lambda: b"answered", server._pool) == b"answered"  # noqa: SLF001 - as above


def test_other_machines_need_a_token() -> None:
    with pytest.raises(SettingsError, match="--token-file"):
        ServerOptions("0.0.0.0")  # noqa: S104 - what is refused
    assert ServerOptions("0.0.0.0", token=TOKEN)  # noqa: S104 - and what is not


@pytest.mark.parametrize("base", ["console", "/console/", "/"])
def test_a_base_path_has_one_form(base: str) -> None:
    with pytest.raises(SettingsError, match="--base-path"):
        ServerOptions(base=base, token=TOKEN)
    with pytest.raises(SettingsError, match="--token-file"):
        ServerOptions(base="/console")


def test_below_a_base_path_all_links_are(data: ConsoleData) -> None:
    options = ServerOptions(base="/console", token=TOKEN)
    page, moved, other = (
        ask(data, path, options, headers=BEARER)
        for path in ("/console/overview", "/console/", "/overview")
    )
    assert (page.status, other.status) == (200, 404)
    assert moved.headers["Location"] == "/console/overview"
    links = [part.partition('"')[0] for part in page.text.split('href="')[1:]]
    assert [link for link in links if not link.startswith(("/console/", "#", "data:"))] == []


def test_loopback_is_this_machine() -> None:
    names = ["localhost", "127.0.0.1", "127.9.9.9", "::1", "[::1]", "0.0.0.0", "::", "10.0.0.1", ""]  # noqa: S104 - as above
    assert [is_loopback(name) for name in names] == [True] * 5 + [False] * 4
    assert not any(map(is_loopback, ("[127.0.0.1]", "::1]", "[::1", "[[::1]]", "::1%evil", "[]")))


async def test_an_address_that_is_taken_is_said_so(data: ConsoleData) -> None:
    async with ConsoleServer(data, ServerOptions()).serving() as address:
        taken = ServerOptions(port=URL(address).port or 0)
        with pytest.raises(SettingsError, match="Give another --port"):
            async with ConsoleServer(data, taken).serving():
                pass
