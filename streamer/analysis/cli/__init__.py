"""The commands of analysis, and how they write files that options name."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from streamer.run.output_checks import check_distinct, check_new
from streamer.run.outputs import complete_output


def check_outputs(names: Sequence[str], inputs: Iterable[str], *, overwrite: bool) -> None:
    """Raise SettingsError if an output is an input, another output, or there already."""
    check_distinct(names, inputs)
    for name in names:
        check_new(name, overwrite=overwrite)


def write_file(path: Path, data: bytes) -> None:
    """Write a file that an option has named, whole or not at all.

    Raises:
        SettingsError: it cannot be written.
    """
    with complete_output(str(path)) as file:
        file.write_packed(data)
