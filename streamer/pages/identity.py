"""Which file a path is: by its size and first bytes, or the version of a remote one."""

import hashlib
import os
from collections.abc import Callable
from typing import NamedTuple

from streamer.pages.remote import is_remote, name_of
from streamer.pages.stored_file import read_beginning

HEAD_BYTES_MAX = 64 << 10


class FileIdentity(NamedTuple):
    """Which file it is: `head_digest` is BLAKE2b-128, in hex, of its first `head_bytes` bytes.

    Of a remote file it is the version (`RemoteObject`), with no bytes.
    """

    size_bytes: int
    head_digest: str
    head_bytes: int

    def is_continued_by(self, path: str) -> bool:
        """Return whether `path` begins with what this identity covers and is no shorter.

        Raises:
            InputError: the file cannot be read.
        """
        now = identify(path, self.head_bytes)
        return now.size_bytes >= self.size_bytes and now.head_digest == self.head_digest


def folder_resolver() -> Callable[[str], str]:
    """Return a function as `os.path.realpath` that resolves each folder only once."""
    folders: dict[str, str] = {}

    def resolve(path: str) -> str:
        if is_remote(path):
            return name_of(path)
        folder, _, name = path.rpartition("/")
        if name in {"", ".", ".."} or os.path.islink(path):  # noqa: PTH114 - of many thousand
            return os.path.realpath(path)
        if folder not in folders:
            folders[folder] = os.path.realpath(path[: -len(name)])
        return f"{folders[folder].rstrip('/')}/{name}"

    return resolve


def identify(path: str, head_bytes: int = HEAD_BYTES_MAX) -> FileIdentity:
    """Return the identity of the file at `path`, its digest over at most `head_bytes`.

    Raises:
        InputError: the file cannot be read.
    """
    found, head = read_beginning(path, head_bytes)
    digest = hashlib.blake2b(head, digest_size=16).hexdigest()
    return FileIdentity(found.st_size, digest, len(head))
