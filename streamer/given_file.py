"""Read a small file that an option names: a key, rules, a mapping, a password, a certificate."""

from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

BYTES_MAX = 1 << 28


def read_given(path: Path) -> bytes:
    """Return what a file or a pipe holds, at once where nobody writes to the pipe.

    Raises:
        OSError: it cannot be read.
        ValueError: it has more than 256 MiB, as a device may.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    os.set_blocking(descriptor, True)  # a pipe's writer is waited for, once it is there
    with io.FileIO(descriptor) as raw, io.BufferedReader(raw) as file:
        data = file.read(BYTES_MAX + 1)
    if len(data) > BYTES_MAX:
        raise ValueError("it has more than 256 MiB")
    return data
