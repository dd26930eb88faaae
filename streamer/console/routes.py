"""All that the console serves, in one table: views, the query API, and the document about both.

A view is a page of the browser, with `.json` after its path what the page is made of, and with
`.csv` its table; some are part of the API under another name. The OpenAPI document is made from
this table and from the types of queries and answers, so it cannot say anything else.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from streamer.console import answers, comparing
from streamer.console.answers import ConsoleData, WrongQuery
from streamer.console.host_hints import HostAnswer, HostQuery, host
from streamer.console.overview import Overview, OverviewQuery, overview
from streamer.model import Page, Verdict
from streamer.version import __version__


@dataclass(frozen=True)
class Route:
    """A view, or a path of the API alone.

    Attributes:
        path: below the base path.
        title: what the menu calls the view; '' where it is in no menu.
        summary: what it answers, in a sentence.
        query: the parameters; of a POST, what its body is.
        answer: what is made of them, in any thread.
        api: the path in the API; '' for none.
        is_view: whether there is a page, of the template with the path's name.
        is_slow: whether it takes longer than views do.
        is_live: whether parts of that page are sent again while it is looked at.
        rows: of the answer the lists of which the first with rows is the view's table, for CSV.
        at_once: of a POST, the answer in a moment, or None if that takes longer.
    """

    path: str
    title: str
    summary: str
    query: type[msgspec.Struct]
    answer: Callable[[ConsoleData, Any], msgspec.Struct]
    result: type[msgspec.Struct]
    api: str = ""
    is_view: bool = True
    method: str = "GET"
    is_slow: bool = False
    is_live: bool = False
    rows: tuple[str, ...] = ()
    at_once: Callable[[ConsoleData, Any], msgspec.Struct | None] | None = None


ROUTES = (
    Route(
        "/overview", "Overview", "Verdicts by basis, the largest clusters and hosts, warnings.",
        OverviewQuery, overview, Overview, "/api/stats", is_live=True, rows=("verdicts",),
    ),
    Route(
        "/page", "Page", "The verdicts on a page, by its URL or place, and their reasons.",
        answers.PageQuery, answers.page, answers.PageAnswer, rows=("found", "like"),
    ),
    Route(
        "/compare", "Compare", "Two pages side by side: verdicts, and what their texts share.",
        comparing.CompareQuery, comparing.compare, comparing.CompareAnswer, is_slow=True,
        rows=("figures",),
    ),
    Route(
        "/clusters", "Clusters", "The largest clusters of duplicates, of one host if it is named.",
        answers.ClustersQuery, answers.clusters, answers.ClustersAnswer, "/api/clusters",
        rows=("clusters",),
    ),
    Route(
        "/cluster", "", "The duplicates of one representative.",
        answers.ClusterQuery, answers.cluster, answers.ClusterAnswer, rows=("members",),
    ),
    Route(
        "/hosts", "Hosts", "Hosts, and the share of duplicates among their pages.",
        answers.HostsQuery, answers.hosts, answers.HostsAnswer, "/api/hosts", rows=("hosts",),
    ),
    Route(
        "/host", "", "One host, and which of its URLs a crawler need not fetch.",
        HostQuery, host, HostAnswer, rows=("hints",),
    ),
    Route(
        "/dead-letters", "Dead letters", "Records that could not be judged, by code.",
        answers.LettersQuery, answers.dead_letters, answers.LettersAnswer,
        rows=("letters", "codes"),
    ),
    Route(
        "/api/pages", "", "Verdicts by URL, place, host or cluster, or all, page by page.",
        answers.PagesQuery, answers.pages, answers.PagesAnswer, "/api/pages", is_view=False,
    ),
    Route(
        "/api/check", "", "The verdict that a page would get; nothing changes.",
        Page, answers.check, Verdict, "/api/check", is_view=False, method="POST",
        at_once=answers.check_at_once,
    ),
)  # fmt: skip
MENU = tuple(route for route in ROUTES if route.title)


def parse_query(route: Route, given: Mapping[str, str]) -> msgspec.Struct:
    """Return the query in the parameters of a URL; those that are empty count as not given.

    Raises:
        WrongQuery: one of them is unknown, missing or outside its bounds.
    """
    values = {name: value for name, value in given.items() if value}
    try:
        return msgspec.convert(values, route.query, strict=False)
    except msgspec.ValidationError as error:
        raise WrongQuery(f"The address cannot be answered: {error}.") from error


class ErrorAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    """What went wrong, and what to do; `code` of a page that cannot be judged."""

    error: str
    code: str | None = None


_COMPONENTS = "#/components/schemas/{name}"
# By status, what a person reads of it.
_FAILURES = {
    400: "The query cannot be answered as it is.",
    401: "The token is missing or wrong.",
    404: "There is nothing of this name.",
    413: "The page is larger than --page-bytes-max.",
    415: "The body is not application/json.",
    422: "The page cannot be judged: `code` is that of a dead letter.",
    503: "The query took too long, or the index cannot be read now.",
}
_OF_BODIES = {413, 415, 422}


def openapi(base: str) -> dict[str, Any]:
    """Return the OpenAPI document of all routes, for a console below the path `base`."""
    types: list[type[msgspec.Struct]] = [ErrorAnswer]
    for route in ROUTES:
        types += [route.query, route.result]
    schemas, components = msgspec.json.schema_components(types, ref_template=_COMPONENTS)
    by_type = dict(zip(types, schemas, strict=True))
    paths = {}
    for route in ROUTES:
        operation = _operation(route, components, by_type)
        for path in {route.api, f"{route.path}.json" if route.is_view else ""} - {""}:
            name = {"operationId": path.strip("/").replace("/", "_")}
            paths[path] = {route.method.lower(): operation | name}
        if route.rows:
            path, text = f"{route.path}.csv", {"text/csv": {"schema": {"type": "string"}}}
            rows = {"description": "The rows of the view.", "content": text}
            table = operation | {"responses": operation["responses"] | {"200": rows}}
            paths[path] = {"get": table | {"operationId": path.strip("/")}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "streamer console", "version": __version__},
        "servers": [{"url": base or "/"}],
        "paths": dict(sorted(paths.items())),
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
    }


def _operation(
    route: Route, components: Mapping[str, Any], schemas: Mapping[type[msgspec.Struct], Any]
) -> dict[str, Any]:
    error = schemas[ErrorAnswer]
    responses = {"200": _content("The answer.", schemas[route.result])}
    operation: dict[str, Any] = {"summary": route.summary, "responses": responses}
    if route.method == "POST":
        body = {"application/json": {"schema": schemas[route.query]}}
        operation["requestBody"] = {"required": True, "content": body}
    else:
        operation["parameters"] = _parameters(components[route.query.__name__])
    for status, said in _FAILURES.items():
        if route.method == "POST" or status not in _OF_BODIES:
            responses[str(status)] = _content(said, error)
    return operation


def _content(description: str, schema: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON Schema
    return {"description": description, "content": {"application/json": {"schema": schema}}}


def _parameters(query: Mapping[str, Any]) -> list[dict[str, Any]]:
    required = query.get("required", [])
    return [
        {"name": name, "in": "query", "required": name in required, "schema": schema}
        for name, schema in query["properties"].items()
    ]
