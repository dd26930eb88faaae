"""What is below a prefix of an object store, with an end to what a store may answer.

obstore refuses a whole page of a listing if one key in it is not a path: with "..", an empty part
or a control character. S3 is then asked for its pages here, by URLs that obstore signs, and such
keys are passed over. The Hugging Face hub lists in a way of its own.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError
from urllib.parse import quote, unquote_plus, urlencode, urljoin, urlsplit
from urllib.request import Request, urlopen
from xml.etree import ElementTree as ET

import msgspec
import obstore
from obstore.store import ObjectStore, S3Store

from streamer.errors import InputError
from streamer.object_store import hub_address, hub_headers

if TYPE_CHECKING:
    from obstore import ObjectMeta

FILES_MAX = 2_000_000
PART_SECONDS = 120.0  # for the next files of a listing; a request is repeated for a minute
_NO_PATH = re.compile(r"(?:^|/)\.{0,2}(?:/|$)|[\x00-\x1f\x7f]")

_NEXT = re.compile(r'<([^>]*)>; *rel="next"')
_HUB_ERRORS: dict[int, type[Exception]] = {
    401: obstore.exceptions.UnauthenticatedError,
    403: obstore.exceptions.PermissionDeniedError,
    404: FileNotFoundError,
}


class _HubFile(msgspec.Struct):
    type: str
    path: str


_Page = Mapping[str, "ObjectMeta | None"]  # by key; None for one that is not a path


def list_below(store: ObjectStore, prefix: str, name: str) -> tuple[list[ObjectMeta], list[str]]:
    """Return the files below a prefix, and the keys there that are not paths.

    The prefix is shown as `name`.

    Raises:
        InputError: the listing does not end, or has more than FILES_MAX files.
        obstore.exceptions.BaseError, OSError, ValueError: the store cannot be read.
    """
    try:
        found = _take_all(_pages(store, prefix, name), name)
    except obstore.exceptions.InvalidPathError:
        if not isinstance(store, S3Store):
            raise
        found = _take_all(_pages_of_s3(store, prefix), name)
    files = [meta for meta in found.values() if meta]
    return files, [key for key, meta in found.items() if not meta]


def list_of_hub(name: str) -> list[str]:
    """Return the paths of all files below a folder of a dataset, from its root.

    Raises:
        InputError: as `list_below`.
        obstore.exceptions.BaseError, OSError, ValueError: the hub cannot be read.
    """
    return [*_take_all(_pages_of_hub(hub_address(name, "api/tree")), name)]


def _pages_of_hub(folder: str) -> Iterator[_Page]:
    """Yield the pages of a list of the hub, each of which names the next one."""
    url = f"{folder}?recursive=true"
    while url:
        request = Request(url)  # noqa: S310 - of the hub
        for header in hub_headers().items():
            request.add_unredirected_header(*header)
        try:
            with urlopen(request, timeout=30) as answer:  # noqa: S310 - as above
                found = msgspec.json.decode(answer.read(), type=list[_HubFile])
                link = _NEXT.search(answer.headers.get("Link", ""))
        except HTTPError as error:
            with error:
                raise _HUB_ERRORS.get(error.code, OSError)(f"HTTP {error.code}") from error
        yield {each.path: None for each in found if each.type == "file"}
        url = urljoin(url, link[1]) if link else ""
        if url and urlsplit(url)[:2] != urlsplit(folder)[:2]:
            raise ValueError("its list continues on another host")  # which would get the token


def _take_all(pages: Iterable[_Page], name: str) -> dict[str, ObjectMeta | None]:
    found: dict[str, ObjectMeta | None] = {}
    deadline = time.monotonic() + PART_SECONDS
    for page in pages:
        before = len(found)
        found |= page
        if len(found) > before:
            deadline = time.monotonic() + PART_SECONDS
        elif page:
            raise _endless(name, "the store lists the same files again and again")
        elif time.monotonic() > deadline:
            raise _too_slow(name)
        if len(found) > FILES_MAX:
            raise _endless(name, f"the store lists more than {FILES_MAX:,} files")
    return found


def _endless(name: str, why: str) -> InputError:
    return InputError(
        f"{name}: cannot be listed: {why}. Give a longer prefix, or a list of the files that is "
        "named .paths"
    )


def _too_slow(name: str) -> InputError:
    return _endless(name, f"the store named no further file for {PART_SECONDS:g} seconds")


def _pages(store: ObjectStore, prefix: str, name: str) -> Iterator[_Page]:
    """Yield what obstore lists; not in a thread with an event loop."""
    stream = obstore.list(store, prefix or None)

    async def following() -> list[ObjectMeta]:
        async with asyncio.timeout(PART_SECONDS):  # it takes empty pages, of which none is the last
            return [*await anext(stream)]

    with asyncio.Runner() as runner:
        while True:
            try:
                yield {each["path"]: each for each in runner.run(following())}
            except StopAsyncIteration:
                return
            except TimeoutError as error:
                raise _too_slow(name) from error


def _pages_of_s3(store: S3Store, prefix: str) -> Iterator[_Page]:
    """Yield the pages of a listing of S3."""
    is_public = os.environ.get("AWS_SKIP_SIGNATURE", "").lower() in {"1", "true"}
    keys: Any = {"access_key_id": "-", "secret_access_key": "-"} if is_public else {}
    name = store.config["bucket"]
    bucket = _sign(S3Store(name, **keys), "x").partition("?")[0].removesuffix("/x")
    wanted = {"encoding-type": "url", "list-type": "2", "prefix": f"{prefix}/" if prefix else ""}
    while True:
        # A store at this place: the slash of its root becomes the value of the last parameter.
        place = f"{bucket}?{urlencode(wanted, quote_via=quote)}&x-id="
        url = f"{place}/"
        if not is_public:
            url = _sign(S3Store(name, endpoint=place, virtual_hosted_style_request=True), "")
        with urlopen(url, timeout=30) as answer:  # noqa: S310 - of the store
            root = ET.fromstring(answer.read())  # noqa: S314 - expat bounds what it expands
        yield dict(map(_object_of, root.findall("{*}Contents")))
        if root.findtext("{*}IsTruncated") != "true":
            return
        wanted["continuation-token"] = root.findtext("{*}NextContinuationToken") or ""


def _sign(store: S3Store, path: str) -> str:
    return obstore.sign(store, "GET", path, timedelta(minutes=5))


def _object_of(element: ET.Element) -> tuple[str, ObjectMeta | None]:
    said = {each.tag.rpartition("}")[2]: each.text or "" for each in element}
    key = unquote_plus(said["Key"])
    if _NO_PATH.search(key):
        return key, None
    return key, {
        "path": key,
        "size": int(said["Size"]),
        "e_tag": said.get("ETag"),
        "last_modified": datetime.fromisoformat(said["LastModified"]),
        "version": None,
    }
