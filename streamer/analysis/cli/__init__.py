"""The commands of analysis, and how they write files that options name."""

from __future__ import annotations

from pathlib import Path

from streamer.run.outputs import complete_output


def write_file(path: Path, data: bytes) -> None:
    """Write a file that an option has named, whole or not at all.

    Raises:
        SettingsError: it cannot be written.
    """
    with complete_output(str(path)) as file:
        file.write_packed(data)
