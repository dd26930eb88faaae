"""Read a small file that an option names: a key, rules, a mapping, a password, a certificate."""

import os
import ssl
from pathlib import Path

from streamer.errors import SettingsError

BYTES_MAX = 1 << 28


def read_given(path: Path) -> bytes:
    """Return what a file or a pipe holds, at once where nobody writes to the pipe.

    Raises:
        OSError: it cannot be read.
        ValueError: it has more than 256 MiB, as a device may.
    """

    def opener(name: str, flags: int) -> int:
        descriptor = os.open(name, flags | os.O_NONBLOCK)
        os.set_blocking(descriptor, True)  # a pipe's writer is waited for, once it is there
        return descriptor

    with open(path, "rb", opener=opener) as file:
        data = file.read(BYTES_MAX + 1)
    if len(data) > BYTES_MAX:
        raise ValueError("it has more than 256 MiB")
    return data


def trust(option: str, cafile: str | Path | None) -> ssl.SSLContext:
    """Return what trusts the certificates in a file, which `option` names; None: the system's.

    Raises:
        SettingsError: the file has none that can be used.
    """
    try:
        return ssl.create_default_context(cafile=cafile)
    except (OSError, ValueError) as error:
        raise SettingsError(
            f"{option} {cafile} has no certificates that can be used: {error}. Give certificates "
            "in PEM form."
        ) from error
