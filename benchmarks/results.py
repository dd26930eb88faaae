"""The results file: what each subject measured, on one machine.

A run of some subjects keeps what is there of the others, but only of the same machine and packages.
The load before the run and the commit are kept with each subject, because they belong to its
figures: a long run is not done again for each change.
"""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import msgspec

from benchmarks.machine import Machine

RESULTS_FILE = "results.json"

Figures = TypeVar("Figures")


class Measured(msgspec.Struct, frozen=True):
    """A subject's result as JSON, the machine's load before the run, and the checkout's commit."""

    load: float
    result: msgspec.Raw
    commit: str | None = None


class Results(msgspec.Struct):
    """The results by the subjects' names; `date` is the last run's day."""

    machine: Machine
    date: str
    subjects: dict[str, Measured] = {}

    def found(self, subject: str, kind: type[object]) -> object | None:
        """Return a subject's result; None if there is none, or another version's."""
        measured = self.subjects.get(subject)
        if measured is None:
            return None
        try:
            return msgspec.json.decode(measured.result, type=kind, dec_hook=_made)
        except msgspec.ValidationError:
            return None


def read(path: Path) -> Results | None:
    """Return the results in a file; None where there are none, or another version's."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Results)
    except (FileNotFoundError, msgspec.ValidationError):
        return None


def write(path: Path, new: Results) -> Results:
    """Write results, with those of other subjects that the file holds and that go with them."""
    old = read(path)
    if old is not None and _alike(old.machine, new.machine):
        new.subjects = {**old.subjects, **new.subjects}
    path.write_bytes(msgspec.json.format(msgspec.json.encode(new)) + b"\n")
    return new


def encoded(result: object, load: float, commit: str | None = None) -> Measured:
    """Return a subject's result as it is kept."""
    return Measured(load, msgspec.Raw(msgspec.json.encode(result, enc_hook=str)), commit)


def _made(kind: Callable[[object], object], value: object) -> object:
    """Return a value of a type that JSON does not know, such as a path."""
    return kind(value)


def _alike(one: Machine, other: Machine) -> bool:
    """Return whether machine and packages are equal."""
    return msgspec.structs.replace(one, load=other.load, commit=other.commit) == other


def figures_of_page(
    description: str,
    folder: Path,
    out: Path,
    name: str,
    kind: type[Figures],
    measure: Callable[[Path], Figures],
) -> tuple[Figures, Path]:
    """Read a command line; return a page's figures, measured again or stored, and where it goes.

    The figures are stored in the folder under `name`, for whoever only writes the page again.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--folder", type=Path, default=folder, help="where the datasets lie")
    parser.add_argument("--out", type=Path, default=out, help="the page")
    parser.add_argument(
        "--stored", action="store_true", help="write it from the figures of the last run"
    )
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    stored = asked.folder / name
    if not asked.stored:
        stored.write_bytes(msgspec.json.encode(measure(asked.folder)))
    return msgspec.json.decode(stored.read_bytes(), type=kind), asked.out
