"""The commands of analysis, and how they write files that options name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from streamer.errors import SettingsError
from streamer.run.outputs import STANDARD_OUTPUT, OutputFile, output_key


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


@contextmanager
def complete_output(name: str) -> Iterator[OutputFile]:
    """Open an output that has another name until it is complete; if something fails, none is left.

    Standard output and devices are written as they are.

    Raises:
        SettingsError: it cannot be written.
    """
    target = Path(output_key(name))
    if name == STANDARD_OUTPUT or (target.exists() and not target.is_file()):
        with closing(OutputFile.open(name, None, index=None)) as file:
            yield file
            file.sync()
        return
    part = target.with_name(f"{target.name}.part")
    try:
        raw = part.open("wb", buffering=0)
    except OSError as error:
        raise SettingsError(
            f"Cannot write {part}: {error.strerror}; give another --out."
        ) from error
    try:
        with closing(OutputFile(name, raw, 0)) as file:
            yield file
            file.sync()
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
