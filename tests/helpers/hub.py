"""A server on loopback that answers as the Hugging Face hub does for one private dataset.

Large files are on another host, to which the hub redirects with a signed address.
"""

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import parse_qs, quote, unquote, urlsplit

from tests.helpers.web_server import HttpAnswers, WebServer, serving, web_server

NAME = "owner/crawl"
TOKEN = "hf_" + "t0ken" * 6
PAGE_FILES = 2  # of a list


@dataclass
class Hub:
    """A running hub.

    Attributes:
        files: the files of the dataset by revision and path.
        store: the other host.
        asked: the requests.
        elsewhere: where a list says that it continues.
    """

    store: WebServer
    url: str = ""
    files: dict[tuple[str, str], bytes] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    elsewhere: str = ""

    def put(self, path: str, data: bytes, revision: str = "main") -> None:
        self.files[revision, path] = data


class _HubAnswers(HttpAnswers):
    hub: Hub

    def answer(self) -> None:
        hub, asked = self.hub, urlsplit(self.path)
        hub.asked.append(f"{self.command} {self.path}")
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            self.give(401, b"", **{"X-Error-Code": "RepoNotFound"})
            return
        for kind, give in (
            (f"/api/datasets/{NAME}/tree/", self.give_list),
            (f"/datasets/{NAME}/resolve/", self.give_file),
        ):
            if asked.path.startswith(kind):
                revision, _, path = asked.path.removeprefix(kind).partition("/")
                give(unquote(revision), unquote(path), asked.query)
                return
        self.give(404, b"")

    def give_list(self, revision: str, folder: str, query: str) -> None:
        prefix = f"{folder}/" if folder else ""
        found = sorted(
            path for own, path in self.hub.files if own == revision and path.startswith(prefix)
        )
        if not found:
            self.give(404, b"", **{"X-Error-Code": "EntryNotFound"})
            return
        wanted = parse_qs(query)
        assert wanted["recursive"] == ["true"] or wanted["recursive"] == ["True"], query
        begin = int(wanted.get("cursor", ["0"])[0])
        entries = [
            {"type": "directory", "oid": "0" * 40, "size": 0, "path": path.rpartition("/")[0]}
            for path in found[:1]
            if "/" in path and not begin
        ]
        entries += [
            {
                "type": "file",
                "oid": hashlib.sha1(path.encode()).hexdigest(),  # noqa: S324 - as git has it
                "size": len(self.hub.files[revision, path]),
                "path": path,
            }
            for path in found[begin : begin + PAGE_FILES]
        ]
        headers = {"Content-Type": "application/json"}
        if begin + PAGE_FILES < len(found):
            here = self.hub.elsewhere or self.hub.url
            own = f"{here}{urlsplit(self.path).path}?recursive=true&cursor={begin + PAGE_FILES}"
            headers["Link"] = f'<{own}>; rel="next"'
        self.give(200, json.dumps(entries).encode(), **headers)

    def give_file(self, revision: str, path: str, _query: str) -> None:
        data = self.hub.files.get((revision, path))
        if data is None:
            self.give(404, b"", **{"X-Error-Code": "EntryNotFound"})
            return
        tag = hashlib.sha256(data).hexdigest()
        own = {"X-Repo-Commit": "c" * 40, "ETag": f'"{tag}"'}
        if path.endswith((".json", ".md")):
            whole = b"" if self.command == "HEAD" else data
            self.give(200, whole, **own, **{"Content-Length": str(len(data))})
            return
        place = f"/{quote(path)}"
        self.hub.store.put(place, data, tag)
        away = f"{self.hub.store.url}{place}?Signature=SIGNED"
        linked = {"X-Linked-Size": str(len(data)), "X-Linked-ETag": f'"{tag}"'}
        self.give(302, b"", Location=away, **own, **linked)


@contextmanager
def running_hub() -> Iterator[Hub]:
    with web_server() as store:
        hub = Hub(store)

        class Answers(_HubAnswers):
            pass

        Answers.hub = hub
        with serving(Answers) as hub.url:
            yield hub
