"""What the command line of the console names: files of verdicts, and folders of indexes."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from streamer.console.inputs import CutOff, read_batches
from streamer.errors import InputError
from streamer.run.index_folder import shard_folders
from streamer.run.output_checks import is_table
from streamer.stored.opening import has_index

_SUFFIXES = (".jsonl", ".jsonl.gz", ".jsonl.zst", ".parquet")
_LETTERS_SUFFIX = ".dead.jsonl"


@dataclass(frozen=True, slots=True)
class Given:
    """What the command line names: files to fold, and folders of indexes to open.

    `notices` names the files of folders that are skipped.
    """

    files: tuple[Path, ...]
    indexes: tuple[Path, ...]
    notices: tuple[str, ...] = ()


def sort_inputs(paths: Sequence[Path]) -> Given:
    """Return the files and indexes among `paths`; of a folder without an index, its files.

    The dead letters that a run has written next to its verdicts belong to these. What else is in a
    folder, such as the pages of the crawl, is skipped.

    Raises:
        InputError: a path is missing or cannot be read, or its file is no verdicts.
    """
    files: dict[Path, None] = {}
    indexes, notices = [], []
    for path in paths:
        if path.is_dir() and has_index(path / shard_folders(path)[0]):
            indexes.append(path)
        elif path.is_dir():
            found, other = _list_folder(path)
            files |= dict.fromkeys(found)
            notices += other
        else:
            check_first_line(path)
            files[path] = None
            letters = path.with_name(path.name + _LETTERS_SUFFIX)
            if letters.is_file():
                check_first_line(letters)
                files[letters] = None
    return Given(tuple(files), tuple(indexes), tuple(notices))


def _list_folder(folder: Path) -> tuple[list[Path], list[str]]:
    """Return the inputs in a folder, and a notice of each other file that looks like one.

    Raises:
        InputError: there is no input.
    """
    files: list[Path] = []
    others: list[InputError] = []
    for path in sorted(each for each in folder.iterdir() if each.name.endswith(_SUFFIXES)):
        try:
            check_first_line(path)
            files.append(path)
        except InputError as error:
            others.append(error)
    if not files and others:
        raise others[0]
    if not files:
        said = f"has no index, and no file of verdicts (*{', *'.join(_SUFFIXES)})"
        raise InputError(f"{folder}: {said}; check the path")
    return files, [f"A file of the folder is skipped. {error}." for error in others]


def check_first_line(path: Path) -> None:
    """Raise InputError unless a file can be read and, if it has a line, begins with one of ours."""
    if is_table(path.name):
        raise InputError(f"{path}: CSV is not read; give a file of JSON lines or Parquet")
    with suppress(CutOff):
        next(read_batches(path, 0, 0, lines_max=1), None)
