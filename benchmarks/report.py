"""The benchmarks' page: `make bench-report` writes docs/benchmarks.md from the stored results.

Nothing is measured here, and no figure is typed by hand: text and order are in SECTIONS, every
figure comes from the files that `make bench` and `make bench-kafka` have left. What these do not
hold is named as not measured. Plots are next to the page; without matplotlib there are none.

    python benchmarks/report.py --out /tmp/benchmarks.md
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

# A script has its own folder on the path, but its modules are imported from the root.
sys.path.insert(0, str(Path(__file__).absolute().parents[1]))

from benchmarks import results, run_kafka
from benchmarks.figures import markdown
from benchmarks.machine import ROOT, Machine
from benchmarks.run import FOLDER, SUBJECTS

OUT = ROOT / "docs" / "benchmarks.md"
KAFKA, KAFKA_FILE = "kafka", "kafka-results.json"
HEAD = """\
# Benchmarks

Written by `make bench-report` from the results that the commands below have stored. Ratios hold
within one run. `make bench-compare` compares a new run with `benchmarks/baseline.json`.
"""
NOT_MEASURED = "Not measured: there is no result of this in `build/bench`."
BUSY = (
    "**The machine was busy: its load was {load} before this was measured on {cores} cores. The"
    " figures are not to be quoted.**"
)


class Section(NamedTuple):
    """A subject's part of the page; `plots` are functions of plots.py, with what they show."""

    subject: str
    title: str
    text: str
    plots: tuple[tuple[str, str], ...] = ()
    sizes: str = ""

    @property
    def command(self) -> str:
        """Return what measures the figures."""
        if self.subject == KAFKA:
            return "python benchmarks/run_kafka.py"
        return f"python benchmarks/run.py --only {self.subject}{self.sizes}"


SECTIONS = (
    Section(
        "throughput",
        "Throughput",
        "A file of JSON lines, 4 kB of text a page, is judged with the index on disk, on two cores."
        " A fifth of the pages are duplicates of any earlier one. Each stage's CPU time is that of"
        " a second run, with its functions wrapped.",
        (
            ("rate", "Pages a second over the size of the index"),
            ("stages", "CPU time of the stages, and their budgets"),
        ),
    ),
    Section(
        "signing",
        "Signing, and other libraries",
        "The same raw texts to each, 5-word shingles and 84 hashes or the nearest that a library"
        " has, one thread, shingling included (`benchmarks/peers/`). simhash makes one"
        " fingerprint of 64 bits. The last line is what making the shingles in Python costs,"
        " which all libraries except gaoya and datatrove leave to their user.",
        (("signers", "CPU time of signing a page"),),
    ),
    Section(
        "lsh",
        "Query and insert, and other indexes",
        "Equal short documents to each, 14 bands of 6, signed beforehand; the last fifth is"
        " timed. Figures are medians of rounds in turns; times ours also has the least and the"
        " greatest. A document is looked up, and inserted if nothing like it is there. Ours is on"
        " disk, verifies each candidate by its sketch, and its time includes flushes; it has the"
        " threads of a replay, the others one, so CPU time is next to the clock's. The others"
        " call a duplicate whatever shares a band, and are in memory. Only Lance (after `pip"
        " install pylance`) is a table on disk with its texts, signs in the time, and does not"
        " compare documents of one batch of 2,000; and incrededup, if on the PATH, reads"
        " documents from SQLite and signs in the time. Memory and disk are per document before"
        " the last fifth.",
        (("indexes", "Time of query and insert"),),
    ),
    Section(
        "library",
        "From a program",
        "`Deduplicator.add` over dicts with texts of 4 kB, a fifth of them copies, from opening a"
        " lasting index to closing it; next to libraries that sign, ask and insert one text after"
        " the other, in memory.",
    ),
    Section(
        "quality",
        "Quality",
        "Collections of real pages, judged under several random keys, each verdict scored by the"
        " exact resemblance of the pages.",
    ),
    Section(
        "html",
        "HTML pages",
        "Pages of the size that a crawl brings: HTML of a news site, a quarter of it visible.",
    ),
    Section(
        "scale",
        "A large index: rate, memory, and starts over it",
        "Pages come through a pipe from a process on the same two cores, and duplicates are of"
        " pages from any part of the run. Then the command is started over this index after a"
        " clean stop and after a kill.",
        (("scale", "Rate and memory over the size of the index"),),
    ),
    Section(
        "growth",
        "An index beyond its memory",
        "Pages without texts, signed by a source: two of five are copies of any earlier one."
        " Tables and filters may take 40 bytes for each page that will be kept, so keys are"
        " frozen as the index grows. Then it is opened, a snapshot is taken on the same disk, and"
        " an index is restored from that.",
        (("growth", "Memory, disk and time a page over the pages that are kept"),),
        " --growth-pages 30000000",
    ),
)
KAFKA_SECTION = Section(
    KAFKA,
    "Through Kafka",
    "One worker with the broker on the same two cores. Latency is from handing a page to the client"
    " to reading its verdict, at a steady rate.",
    (("latency", "Latency of a verdict"),),
)


class Shown(NamedTuple):
    """A section with what was measured: the text of its tables, and what its plots draw."""

    section: Section
    tables: str
    drawn: object
    note: str = ""


def shown(folder: Path) -> Iterator[Shown]:
    """Yield the sections of the page with the results in `folder`."""
    found = results.read(folder / results.RESULTS_FILE)
    kinds = {subject.name: subject for subject in SUBJECTS}
    for section in SECTIONS:
        subject = kinds[section.subject]
        result = found and found.found(subject.name, subject.result)
        if found is None or result is None:
            yield Shown(section, NOT_MEASURED, None)
            continue
        measured = found.subjects[subject.name]
        note = _load_note(found.machine, measured.load)
        if measured.commit not in {None, found.machine.commit}:
            note = f"Measured at commit {measured.commit}. {note}"
        yield Shown(section, markdown(subject.shown(result)), result, note)
    yield _kafka(folder / KAFKA_FILE)


def _kafka(path: Path) -> Shown:
    """Return the section of Kafka, whose results have a file and a machine of their own."""
    try:
        found = msgspec.json.decode(path.read_bytes(), type=run_kafka.Results)
    except (FileNotFoundError, msgspec.ValidationError):
        return Shown(KAFKA_SECTION, NOT_MEASURED, None)
    note = f"Measured on {found.machine.line()}."
    busy = _load_note(found.machine, found.machine.load)
    tables = markdown([run_kafka.table(found)])
    return Shown(KAFKA_SECTION, tables, found.latency, "\n\n".join(filter(None, (note, busy))))


def _load_note(machine: Machine, load: float) -> str:
    described = msgspec.structs.replace(machine, load=load)
    return BUSY.format(load=load, cores=machine.cores) if described.is_busy else ""


def write(folder: Path, out: Path) -> None:
    """Write the page of the results in `folder` to `out`, its plots into a folder next to it."""
    found = results.read(folder / results.RESULTS_FILE)
    conditions = "No results of `make bench` are stored."
    if found is not None:
        conditions = f"Measured {found.date} on {found.machine.line()}."
    plots_folder = out.with_suffix("")
    parts = [HEAD, conditions]
    for part in shown(folder):
        section = part.section
        parts += [f"## {section.title}", section.text, f"Command: `{section.command}`", part.note]
        parts += [part.tables, *_plots(part, plots_folder)]
    out.write_text("\n\n".join(part.strip() for part in parts if part) + "\n", encoding="utf-8")


def _plots(part: Shown, folder: Path) -> Iterator[str]:
    """Draw the plots of a section; yield how the page shows them. An old one goes in any case."""
    for name, caption in part.section.plots:
        path = folder / f"{name}.svg"
        path.unlink(missing_ok=True)
        if part.drawn is not None and _draw(name, part.drawn, path):
            yield f"![{caption}]({folder.name}/{path.name})"


def _draw(name: str, result: object, path: Path) -> bool:
    """Draw one plot; return whether there is one."""
    try:
        from benchmarks import plots  # noqa: PLC0415 - only the benchmarks' packages have matplotlib
    except ModuleNotFoundError:
        return False
    figure = getattr(plots, name)(result)
    if figure is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        plots.save(figure, path)
    return figure is not None


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description="Write the benchmarks' page.")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the results lie")
    parser.add_argument("--out", type=Path, default=OUT, help="the page; plots go beside it")
    asked = parser.parse_args()
    write(asked.folder, asked.out)
    print(f"The page is {asked.out}.")


if __name__ == "__main__":
    main()
