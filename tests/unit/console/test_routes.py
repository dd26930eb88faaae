import json
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streamer.console.answers import ConsoleData
from streamer.console.routes import ROUTES, openapi
from streamer.console.server import ConsoleServer, ServerOptions
from tests.unit.console.test_server import Client, ask, with_client

DOCUMENT = openapi("")
GETS = sorted(path for path, each in DOCUMENT["paths"].items() if "get" in each)


def resolved(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema of the document with all that it refers to."""
    return {**schema, "components": DOCUMENT["components"]}


def values_of(schema: dict[str, Any]) -> st.SearchStrategy[str]:
    """Return values for a parameter: those that its schema allows, those near, and any text."""
    options = schema.get("anyOf", [schema])
    strategies: list[st.SearchStrategy[str]] = [st.text(max_size=30)]
    for each in options:
        if "enum" in each:
            strategies.append(st.sampled_from(each["enum"]))
        elif each.get("type") == "integer":
            least, most = each["minimum"], each["maximum"]
            strategies.append(st.integers(least, most).map(str))
            strategies.append(st.sampled_from([str(least - 1), str(most + 1), str(2**70), "1e3"]))
        elif each.get("type") == "string":
            known = ["pages.jsonl:0", "pages.jsonl:24", "https://www.site1.example/page-1", "'--"]
            strategies.append(st.sampled_from([*known, "www.site0.example", "missing_url"]))
    return st.one_of(strategies)


@st.composite
def requests(draw: st.DrawFn) -> tuple[str, dict[str, str]]:
    path = draw(st.sampled_from(GETS))
    parameters = DOCUMENT["paths"][path]["get"]["parameters"]
    chosen = draw(st.lists(st.sampled_from(parameters), unique_by=id)) if parameters else []
    return path, {each["name"]: draw(values_of(each["schema"])) for each in chosen}


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(asked=st.lists(requests(), min_size=10, max_size=20))
def test_whatever_is_asked_the_document_has_the_answer(
    data: ConsoleData, asked: list[tuple[str, dict[str, str]]]
) -> None:
    async def work(client: Client) -> None:
        for path, parameters in asked:
            responses = DOCUMENT["paths"][path]["get"]["responses"]
            async with client.get(path, params=parameters) as response:
                status, kind = response.status, response.content_type
                answer = await (response.text() if kind == "text/csv" else response.json())
            assert status < 500, answer
            schema = responses[str(status)]["content"][kind]["schema"]
            jsonschema.validate(answer, resolved(schema))
            if path.endswith(".json"):
                async with client.get(path.removesuffix(".json"), params=parameters) as page:
                    assert page.status == status

    with_client(data, ServerOptions(), work)


def test_the_document_is_served_and_names_every_route(data: ConsoleData) -> None:
    served = json.loads(ask(data, "/openapi.json").text)
    assert served == json.loads(json.dumps(DOCUMENT))
    assert served["openapi"].startswith("3.1.")
    named = {route.api for route in ROUTES}
    named |= {f"{r.path}.{kind}" for r in ROUTES if r.is_view for kind in ("json", "csv")}
    assert set(served["paths"]) == named - {""}
    for reference in {part.split('"')[0] for part in json.dumps(served).split('"#/')[1:]}:
        found: Any = served
        for name in reference.split("/"):
            found = found[name]
    operations = [op for each in served["paths"].values() for op in each.values()]
    assert len({op["operationId"] for op in operations}) == len(operations)


async def test_what_the_server_serves_is_in_the_document(data: ConsoleData) -> None:
    app = ConsoleServer(data, ServerOptions()).application()
    served = {resource.canonical for resource in app.router.resources()}
    apart = {"/", "/style.css", "/console.js", "/openapi.json", "/login", "/overview/live"}
    views = {route.path for route in ROUTES if route.is_view}
    assert served - apart - views == set(DOCUMENT["paths"])
    await app.cleanup()


@pytest.mark.parametrize(
    ("kind", "body", "status"),
    [
        ("text/plain", b"{}", 415),
        ("application/json", b'{"url": "https://a.example/", "body": "x"}', 404),
        ("application/json", b"x" * (1 << 20), 413),
    ],
    ids=["type", "no_index", "large"],
)
def test_a_wrong_check_is_refused(data: ConsoleData, kind: str, body: bytes, status: int) -> None:
    answer = ask(
        data, "/api/check", ServerOptions(body_max=100_000), method="POST", data=body,
        headers={"Content-Type": kind},
    )  # fmt: skip
    assert answer.status == status
    assert str(status) in DOCUMENT["paths"]["/api/check"]["post"]["responses"]
    assert json.loads(answer.text)["error"]
