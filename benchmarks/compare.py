"""A run next to the stored baseline: `make bench-compare`. Says which figures got worse.

Times, rates and memory compare on one machine only; where the baseline's is another, they are left
out, and only what is relative within a run is compared. Measurements of different size do not
compare either. The exit code is 1 if a figure is worse by more than a tenth, and 2 if there was
nothing to compare.

    python benchmarks/compare.py benchmarks/baseline.json build/bench/results.json
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from rich.console import Console

# A script has its own folder on the path, but its modules are imported from the root.
sys.path.insert(0, str(Path(__file__).absolute().parents[1]))

from benchmarks import results
from benchmarks.figures import empty_table
from benchmarks.machine import ROOT, Machine
from benchmarks.results import Results

BASELINE = ROOT / "benchmarks" / "baseline.json"
NEW = ROOT / "build" / "bench" / results.RESULTS_FILE
WORSE_MAX = 0.1
WORSE, NOTHING = 1, 2  # exit codes


MORE, LESS = True, False  # which way a figure improves


class Watched(NamedTuple):
    """A figure by its path in a subject's result; `*` stands for every item of a list.

    `bound` figures belong to their machine. A difference below `noise` counts as none.
    """

    path: str
    improves_upwards: bool
    bound: bool = True
    noise: float = 0.0


class Subject(NamedTuple):
    """What is watched of a subject; the path `size` says how much was measured."""

    size: str
    figures: tuple[Watched, ...]


SUBJECTS = {
    "throughput": Subject(
        "corpus.pages",
        (
            Watched("rate", MORE),
            Watched("flatness", MORE, bound=False),
            Watched("cpu_us", LESS),
            Watched("stages.*.cpu_us", LESS, noise=0.5),
            Watched("run.peak_rss_bytes", LESS),
            Watched("index_bytes_a_page", LESS, bound=False),
        ),
    ),
    "signing": Subject(
        "pages", (Watched("peers.0.median_us", LESS), Watched("peers.*.ratio", MORE, bound=False))
    ),
    "lsh": Subject(
        "documents",
        (
            Watched("systems.0.us", LESS),
            Watched("systems.0.peak_rss_bytes", LESS),
            Watched("systems.*.ratio", MORE, bound=False),
        ),
    ),
    "library": Subject("pages", (Watched("rate", MORE),)),
    "quality": Subject("", (Watched("*.trials.*.f1", MORE, bound=False),)),
    "html": Subject("pages", (Watched("rate", MORE), Watched("cpu_us", LESS))),
    "scale": Subject(
        "run.pages",
        (
            Watched("rate", MORE),
            Watched("last_to_first", MORE, bound=False),
            Watched("cpu_us", LESS),
            Watched("peak_bytes", LESS),
            Watched("index_bytes_a_page", LESS, bound=False),
            Watched("start.clean_s", LESS, noise=0.5),
            Watched("start.killed_s", LESS, noise=0.5),
        ),
    ),
    "growth": Subject(
        "samples.9.kept",
        (
            Watched("samples.9.wall_us", LESS),
            Watched("samples.9.memory_bytes", LESS, bound=False),
            Watched("samples.9.disk_bytes", LESS, bound=False),
            Watched("opened", LESS, noise=0.5),
            Watched("restored", LESS, noise=2.0),
        ),
    ),
}


class Change(NamedTuple):
    """A figure in both files; `ratio` is new to old, `worse` says whether by too much."""

    name: str
    old: float
    new: float
    ratio: float
    worse: bool


class Comparison(NamedTuple):
    """The figures in both files, and sentences on what was not compared."""

    changes: list[Change]
    sentences: list[str]


def compare(old: Results, new: Results) -> Comparison:
    """Compare what both hold."""
    sentences = list(_differences(old.machine, new.machine))
    same = _hardware(old.machine) == _hardware(new.machine)
    changes: list[Change] = []
    for name, subject in SUBJECTS.items():
        if name not in old.subjects or name not in new.subjects:
            lacking = "the baseline" if name not in old.subjects else "the new run"
            sentences.append(f"{name} is not compared: {lacking} does not have it.")
            continue
        before, after = (msgspec.json.decode(one.subjects[name].result) for one in (old, new))
        sizes = [dict(values(one, subject.size)) for one in (before, after)] if subject.size else []
        if sizes and sizes[0] != sizes[1]:
            sentences.append(f"{name} is not compared: one measured more than the other.")
            continue
        for watched in subject.figures:
            if same or not watched.bound:
                changes += _changes(name, watched, before, after)
    return Comparison(changes, sentences)


def _hardware(machine: Machine) -> tuple[str, int, int]:
    return machine.processor, machine.cores, round(machine.memory_bytes / 2**30)


def _differences(old: Machine, new: Machine) -> Iterator[str]:
    """Yield sentences on what else than the code may have changed a figure."""
    if _hardware(old) != _hardware(new):
        yield (
            f"The machines differ ({_named(old)}; now {_named(new)}): absolute figures are not"
            " compared, only those that are relative within a run."
        )
    before, after = ({"Python": one.python, **one.packages} for one in (old, new))
    for name in sorted(before.keys() | after.keys()):
        if name != "streamer" and before.get(name) != after.get(name):
            yield f"{name} was {before.get(name) or 'absent'}, is {after.get(name) or 'absent'}."


def _named(machine: Machine) -> str:
    processor, cores, memory = _hardware(machine)
    return f"{processor}, {cores} cores, {memory} GiB"


def _changes(subject: str, watched: Watched, before: object, after: object) -> Iterator[Change]:
    old, new = (dict(values(one, watched.path)) for one in (before, after))
    for name in old.keys() & new.keys():
        yield _change(f"{subject}: {name}", watched, old[name], new[name])


def _change(name: str, watched: Watched, old: float, new: float) -> Change:
    gone = (old - new) if watched.improves_upwards else (new - old)
    worse = gone > WORSE_MAX * old and gone > watched.noise
    return Change(name, old, new, new / old if old else 1.0, worse)


def values(node: Any, path: str, name: str = "") -> Iterator[tuple[str, float]]:  # noqa: ANN401 - JSON
    """Yield the numbers at a path of decoded JSON with their names; nothing where there are none.

    Items of a list are named by what they call themselves, else by their place.
    """
    if not path:
        if isinstance(node, int | float):
            yield name.strip(), float(node)
        return
    step, _, rest = path.partition(".")
    if isinstance(node, dict):
        yield from values(node.get(step), rest, f"{name} {step}")
    elif isinstance(node, list):
        for place, item in enumerate(node):
            if step in ("*", str(place)):
                yield from values(item, rest, f"{name} {_label(item, place)}")


def _label(item: object, place: int) -> str:
    named = item if isinstance(item, dict) else {}
    parts = [str(named[key]) for key in ("name", "collection", "detector") if named.get(key)]
    return " ".join(parts) or str(place)


def show(comparison: Comparison, console: Console) -> None:
    """Print every figure's ratio, and mark what got worse."""
    table = empty_table("new beside baseline", "figure", "baseline", "new", "new / baseline", "")
    for change in sorted(comparison.changes):
        mark = "worse" if change.worse else ""
        ratio = f"{change.ratio:.3f}"
        table.add_row(change.name, f"{change.old:,.4g}", f"{change.new:,.4g}", ratio, mark)
    if table.row_count:
        console.print(table)
    for sentence in comparison.sentences:
        console.print(sentence, highlight=False)


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare two files; return the exit code."""
    parser = argparse.ArgumentParser(description="Compare benchmark results with a baseline.")
    parser.add_argument("baseline", type=Path, nargs="?", default=BASELINE)
    parser.add_argument("new", type=Path, nargs="?", default=NEW)
    asked = parser.parse_args(arguments)
    console = Console()
    old, new = results.read(asked.baseline), results.read(asked.new)
    for path, found in ((asked.baseline, old), (asked.new, new)):
        if found is None:
            console.print(f"{path} is not there, or of another version.", soft_wrap=True)
    if old is None or new is None:
        return NOTHING
    comparison = compare(old, new)
    show(comparison, console)
    if not comparison.changes:
        return NOTHING
    return WORSE if any(change.worse for change in comparison.changes) else 0


if __name__ == "__main__":
    sys.exit(main())
