"""Every subject on a tiny input: it is measured, kept, shown on the page and compared."""

import io
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rich.console import Console

from benchmarks import (
    compare,
    corpus,
    growth,
    html_pages,
    library,
    lsh,
    quality,
    report,
    run,
    scale,
    signing,
    start_time,
    throughput,
    timed_replay,
)
from benchmarks.run import SUBJECTS, Options, Subject


def small_quality(folder: Path) -> list[quality.Quality]:
    """Judge an archive of one collection; the other one is absent."""
    shared = folder / "shared"
    pages = shared / "set7_mccormick" / "pages.jsonl"
    pages.parent.mkdir(parents=True)
    pages.write_bytes(b"".join(corpus.generate(60)))
    with tarfile.open(shared / "set7_mccormick.tar.xz", "w:xz") as archive:
        archive.add(pages.parent, "set7_mccormick")
    return quality.measure(folder / "unpacked", keys=2, data=shared)


def small_scale(folder: Path) -> scale.Scale:
    sizes = {"base_pages": 300, "step": 1800, "head_pages": 100, "killed_pages": 1500}
    return scale.measure(folder, 5400, start_rounds=1, **sizes)


MEASURED: dict[str, Callable[[Path], Any]] = {
    "throughput": lambda folder: throughput.measure(folder, 5000, step=200, head_pages=16),
    "signing": lambda _folder: signing.measure(pages=12, rounds=2),
    "lsh": lambda folder: lsh.measure(folder, 2_000, rounds=1),
    "library": lambda _folder: library.measure(60, rounds=1),
    "quality": small_quality,
    "html": lambda folder: html_pages.measure(folder, 60, rounds=1),
    "scale": small_scale,
    "growth": lambda folder: growth.measure(folder, 60_000),
}


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make what comes before and around a measurement small, too."""
    monkeypatch.setattr(timed_replay, "WARM_PAGES", 10)
    monkeypatch.setattr(signing, "TURN_SECONDS", 0.0)
    monkeypatch.setattr(library, "PEER_PAGES", 50)
    monkeypatch.setattr(start_time, "SMALL_PAGES", 20)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.name)
def test_a_subject_is_measured_kept_shown_and_compared(
    subject: Subject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work, page, name = tmp_path / "work", tmp_path / "benchmarks.md", subject.name
    tiny = subject._replace(measure=lambda asked: MEASURED[name](asked.folder))
    monkeypatch.setattr(run, "SUBJECTS", (tiny,))
    done = run.run([name], Options(work), Console(file=io.StringIO(), width=120))
    report.write(work, page)
    (section,) = (one for one in report.SECTIONS if one.subject == name)
    shown = page.read_text("utf-8").partition(f"## {section.title}\n")[2].partition("\n## ")[0]
    assert "| --- |" in shown
    assert report.NOT_MEASURED not in shown
    decoded = msgspec.json.decode(done.subjects[name].result)
    watched = compare.SUBJECTS[name]
    for path in filter(None, (watched.size, *(one.path for one in watched.figures))):
        assert list(compare.values(decoded, path)), path
