"""What `streamer.analysis.sample.url_variants` writes as the truth about URLs."""

import csv
from pathlib import Path

from streamer.analysis.sample.url_variants import COLUMNS


def url_truth(path: Path) -> set[tuple[str, ...]]:
    """Return the hints that are true: (host, kind, name, under)."""
    with path.open(encoding="utf-8", newline="") as file:
        head, *rows = map(tuple, csv.reader(file, "excel-tab"))
    assert head == COLUMNS
    return set(rows)
