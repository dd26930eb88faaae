"""The store's failures as errors that name the cause and the remedy."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator
from pathlib import Path

from streamer.errors import StoreUnavailable, StreamerError


@contextlib.contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn the store's failures into errors that name the cause and the remedy."""
    try:
        yield
    except StreamerError:
        raise
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            raise StoreUnavailable(_full(path)) from error
        raise StoreUnavailable(f"Cannot use the index {path}: {error}.") from error
    except Exception as error:  # rocksdict raises Exception itself, told apart by its text only
        text = str(error)
        if "No space left" in text:
            raise StoreUnavailable(_full(path)) from error
        if "lock" in text.lower():
            raise StoreUnavailable(
                f"The index {path} is in use by another process. "
                "Wait until that has ended, or use another --index."
            ) from error
        raise StoreUnavailable(f"Cannot use the index {path}: {text}.") from error


def _full(path: Path) -> str:
    return (
        f"No space is left on the disk of the index {path}. Free some and run the same command "
        "again; it goes on where the index stands."
    )
