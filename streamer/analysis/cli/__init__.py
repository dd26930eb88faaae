"""The commands of analysis, and how they write files that options name."""

from __future__ import annotations

from pathlib import Path

from streamer.errors import SettingsError


def write_file(path: Path, data: bytes, option: str, *, whole: bool = False) -> None:
    """Write a file that an option has named; if asked for, whole or not at all.

    Raises:
        SettingsError: it cannot be written.
    """
    part = path.with_name(path.name + ".part") if whole else path
    try:
        part.write_bytes(data)
        if whole:
            part.replace(path)
    except OSError as error:
        raise SettingsError(
            f"Cannot write {path}: {error.strerror or error}; give another {option}."
        ) from error
