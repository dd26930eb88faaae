"""Lists of page files: a file that is named .paths, with the path or URL of one file a line.

So the archives of a crawl are named, as Common Crawl's warc.paths.gz does it. In a list that is
read from a store or a web server, a line that is no URL is a path from the root of that: of the
bucket, of the host. In a list on this machine it is a path from the folder of the list.
"""

import os
from collections.abc import Sequence

from streamer.errors import InputError
from streamer.pages.bytestream import read_whole
from streamer.pages.remote import is_remote, name_of, store_of

LIST_BYTES_MAX = 256 << 20
_SUFFIXES = (".paths", ".paths.gz", ".paths.zst")


def expand_lists(paths: Sequence[str]) -> list[str]:
    """Return the paths and URLs that are named, with what lists name in place of the lists.

    Raises:
        InputError: a list cannot be read, or is empty.
        SettingsError: the extra that a URL needs is not installed, or credentials are missing.
    """
    found = []
    for path in paths:
        name = name_of(path)
        found += _read_list(path, name) if name.lower().endswith(_SUFFIXES) else [path]
    return found


def _read_list(path: str, name: str) -> list[str]:
    """Return what a list names; a folder of such a name is none."""
    if os.path.isdir(path):  # noqa: PTH112 - as above
        return [path]
    data = read_whole(path, LIST_BYTES_MAX)
    try:
        lines = [line.strip() for line in data.decode("utf-8-sig").splitlines()]
    except UnicodeDecodeError as error:
        raise InputError(f"{name}: is no UTF-8 text ({error}); is it a list of files?") from error
    root = root_of(name)
    found = [line if is_remote(line) else join_path(root, line) for line in lines if line]
    if not found:
        raise InputError(f"{name}: names no file; give a list with the path of one a line")
    return found


def root_of(name: str) -> str:
    """Return where the paths in a list start: at its folder, or at the root of its store."""
    if is_remote(name):
        return store_of(name)
    return os.path.dirname(name)  # noqa: PTH120 - as it was given, of many thousand


def join_path(root: str, path: str) -> str:
    """Return where a path from a root leads to."""
    return f"{root}/{path.lstrip('/')}" if is_remote(root) else os.path.join(root, path)  # noqa: PTH118 - as above
