"""All that the console serves, in one table: views, the query API, and the document about both.

A view is a page of the browser, and with `.json` behind its path what the page is made of; some are
part of the API under another name. The OpenAPI document is made from this table and from the types
of queries and answers, so it cannot say anything else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from streamer.console import answers
from streamer.console.answers import ConsoleData, NoQuery, WrongQuery
from streamer.version import __version__

Answer = Callable[[ConsoleData, Any], msgspec.Struct]


@dataclass(frozen=True)
class Route:
    """A view, or a path of the API alone.

    Attributes:
        path: below the base path.
        title: what the menu calls the view; '' where it is in no menu.
        summary: what it answers, in a sentence.
        query: the parameters; of a POST, the body.
        answer: what is made of them, in any thread.
        api: the path in the API; '' for none.
        is_view: whether there is a page, of the template with the path's name.
    """

    path: str
    title: str
    summary: str
    query: type[msgspec.Struct]
    answer: Answer
    result: type[msgspec.Struct]
    api: str = ""
    is_view: bool = True


ROUTES = (
    Route(
        "/overview", "Overview", "Verdicts by basis, the largest clusters and hosts, warnings.",
        NoQuery, answers.overview, answers.Overview, "/api/stats",
    ),
    Route(
        "/page", "Page", "The verdicts on a page, by its URL or place, and their reasons.",
        answers.PageQuery, answers.page, answers.PageAnswer,
    ),
    Route(
        "/clusters", "Clusters", "The largest clusters of duplicates, of one host if it is named.",
        answers.ClustersQuery, answers.clusters, answers.ClustersAnswer, "/api/clusters",
    ),
    Route(
        "/cluster", "", "The duplicates of one representative.",
        answers.ClusterQuery, answers.cluster, answers.ClusterAnswer,
    ),
    Route(
        "/hosts", "Hosts", "Hosts, and the share of duplicates among their pages.",
        answers.HostsQuery, answers.hosts, answers.HostsAnswer, "/api/hosts",
    ),
    Route(
        "/dead-letters", "Dead letters", "Records that could not be judged, by code.",
        answers.LettersQuery, answers.dead_letters, answers.LettersAnswer,
    ),
    Route(
        "/threshold", "Threshold", "Duplicates by similarity, and how many another threshold has.",
        answers.ThresholdQuery, answers.threshold, answers.ThresholdAnswer,
    ),
    Route(
        "/api/pages", "", "Verdicts by URL, place, host or cluster, or all, page by page.",
        answers.PagesQuery, answers.pages, answers.PagesAnswer, "/api/pages", is_view=False,
    ),
)  # fmt: skip
MENU = tuple(route for route in ROUTES if route.title)


def parsed(route: Route, given: Mapping[str, str]) -> msgspec.Struct:
    """Return the query in the parameters of a URL; those that are empty count as not given.

    Raises:
        WrongQuery: one of them is unknown, missing or outside its bounds.
    """
    try:
        return msgspec.convert({k: v for k, v in given.items() if v}, route.query, strict=False)
    except msgspec.ValidationError as error:
        raise WrongQuery(f"The address cannot be answered: {error}.") from error


class ErrorAnswer(msgspec.Struct, frozen=True):
    """What went wrong, and what to do."""

    error: str


_COMPONENTS = "#/components/schemas/{name}"
# By status, what a person reads of it.
_FAILURES = {
    400: "The query cannot be answered as it is.",
    401: "The token is missing or wrong.",
    404: "There is nothing of this name.",
    503: "The query took too long, or the index cannot be read now.",
}


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
            paths[path] = {"get": operation | {"operationId": path.strip("/").replace("/", "_")}}
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
    return {
        "summary": route.summary,
        "parameters": _parameters(components[route.query.__name__]),
        "responses": {"200": _content("The answer.", schemas[route.result])}
        | {str(status): _content(said, schemas[ErrorAnswer]) for status, said in _FAILURES.items()},
    }


def _content(description: str, schema: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON Schema
    return {"description": description, "content": {"application/json": {"schema": schema}}}


def _parameters(query: Mapping[str, Any]) -> list[dict[str, Any]]:
    required = query.get("required", [])
    return [
        {"name": name, "in": "query", "required": name in required, "schema": schema}
        for name, schema in query["properties"].items()
    ]
