"""Snapshots in an object store: S3 or a compatible one, Google Cloud Storage, Azure.

An object appears when its upload has ended. There is no lock: of two writers of the same object the
later one is refused. Only objects that are a day old are removed, because another process may be
about to need a newer one.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import obstore

from streamer.errors import SettingsError, StoreUnavailable
from streamer.object_store import check_credentials, open_store, said_by
from streamer.upkeep import snapshot_places as places

if TYPE_CHECKING:
    from obstore import ListResult, ObjectMeta

_LISTING_SECONDS = 300.0
_YOUNG = timedelta(days=1)  # no upload takes so long


class Bucket:
    """A place in an object store, by its URL: s3://BUCKET/PATH, or one of gs: or az:.

    Credentials and the address of the store come from the environment, as AWS_* for s3:; for gs:
    and az: also from the machine.

    Raises:
        SettingsError: the URL cannot be used, or credentials are missing.
    """

    def __init__(self, url: str) -> None:
        self.name = url.rstrip("/")
        check_credentials(url, f"Snapshots in {url}")
        try:
            # A large file takes as long as it takes; a store that says nothing does not.
            self._store = open_store(self.name, timeout="1h")
        except obstore.exceptions.BaseError as error:
            raise SettingsError(
                f"Snapshots cannot be put to {url}: {said_by(error)}. Name a folder, or "
                "s3://BUCKET/PATH."
            ) from error

    def below(self, part: str) -> Bucket:
        """Return the place below it that is called `part`."""
        return Bucket(f"{self.name}/{part}")

    def parts(self) -> list[str]:
        """Return the names directly below it."""
        return [path.rpartition("/")[2] for path in self._list("")["common_prefixes"]]

    def sizes(self, folder: str = "") -> dict[str, int]:
        """Return its objects with their sizes."""
        return {_last(found): found["size"] for found in self._list(folder)["objects"]}

    def _list(self, folder: str) -> ListResult[Sequence[ObjectMeta]]:
        async def listing() -> ListResult[Sequence[ObjectMeta]]:
            async with asyncio.timeout(_LISTING_SECONDS):
                return await obstore.list_with_delimiter_async(self._store, folder)

        # In its own thread, since the caller's may be in the midst of what asyncio runs there.
        with self._explain_failures(), ThreadPoolExecutor(1) as apart:
            try:
                return apart.submit(lambda: asyncio.run(listing())).result()
            except TimeoutError as error:
                seconds = f"{_LISTING_SECONDS:g} seconds"
                raise OSError(f"the listing does not end within {seconds}") from error

    def read(self, name: str) -> bytes:
        """Return what is in an object."""
        with self._explain_failures():
            return obstore.get(self._store, name).bytes().to_bytes()

    def writing(self) -> AbstractContextManager[None]:
        """Do nothing: there is no lock."""
        return nullcontext()

    def put(self, source: Path, name: str, digest: str, stopping: threading.Event) -> None:
        """Upload a file."""
        with self._explain_failures():
            data = places.check_digest(places.blocks_of(source, stopping), digest, source)
            obstore.put(self._store, name, data)

    def create(self, name: str, data: bytes) -> None:
        """Upload an object.

        Raises:
            StoreUnavailable: there is one.
        """
        with self._explain_failures():
            try:
                obstore.put(self._store, name, data, mode="create")
            except obstore.exceptions.AlreadyExistsError as error:
                raise places.another_writes(self.name) from error

    def remove(self, name: str) -> None:
        """Remove an object."""
        with self._explain_failures():
            obstore.delete(self._store, name)

    def sweep(self, folder: str, needed: Collection[str]) -> None:
        """Remove the other objects with digests for names that have been there for a day."""
        old = datetime.now(UTC) - _YOUNG
        for found in self._list(folder)["objects"]:
            if places.is_unneeded(_last(found), needed) and found["last_modified"] < old:
                self.remove(f"{folder}/{_last(found)}")

    def fetch(self, name: str, target: Path, digest: str) -> None:
        """Download an object; only its owner may read the copy."""
        target.touch(0o600)
        places.write_copy(target, 0o600, self._check(name, digest))

    def _check(self, name: str, digest: str) -> Iterator[bytes]:
        with self._explain_failures():  # nothing of what happens to those who take the bytes
            blocks = obstore.get(self._store, name).stream(min_chunk_size=places.COPIED_BYTES)
            yield from places.check_digest(blocks, digest, f"{self.name}/{name}")

    lend = fetch  # there is nothing to link to

    @contextmanager
    def _explain_failures(self) -> Iterator[None]:
        try:
            yield
        except (obstore.exceptions.BaseError, OSError) as error:
            raise StoreUnavailable(
                f"Snapshots in {self.name} cannot be used: {said_by(error)}. Check the name, "
                "the rights, and whether the store can be reached."
            ) from error


def _last(found: ObjectMeta) -> str:
    return found["path"].rpartition("/")[2]
