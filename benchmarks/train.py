"""Train the models of main text: `make train` makes those of the package again, byte for byte.

Without pages, the package's own training pages are taken from ../shared/data.

    python benchmarks/train.py marked.jsonl --out model.json
    python benchmarks/train.py --sites --out streamer/text/main_text_sites.json
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

# A script has its own folder on the path, but its modules are imported from the root.
sys.path.insert(0, str(Path(__file__).absolute().parents[1]))

from benchmarks.machine import ROOT
from benchmarks.main_text import training_pages
from benchmarks.training.forests import TREES, train
from benchmarks.training.marked import read_marked
from streamer.errors import StreamerError

DATA = ROOT / "../shared/data"


def main(arguments: Sequence[str] | None = None) -> None:
    """Train a model as the command line says, and write it."""
    parser = argparse.ArgumentParser(description="Train a model of main text.")
    parser.add_argument(
        "pages", type=Path, nargs="?",
        help='JSON lines {"html": ..., "main_text": ...}, a paragraph a line; "weight" for a page '
        'that counts more or less than 1, "url" for --sites; default: the pages of the package',
    )  # fmt: skip
    parser.add_argument("--out", type=Path, required=True, help="the model")
    parser.add_argument("--trees", type=int, default=TREES)
    parser.add_argument(
        "--sites", action="store_true",
        help='the model of --site-memory: pages with a "url" in the order of their fetch',
    )  # fmt: skip
    asked = parser.parse_args(arguments)
    try:
        marked = (
            list(read_marked(asked.pages))
            if asked.pages
            else [each.page for each in training_pages(DATA)]
        )
        model = train(marked, asked.trees, sites=asked.sites)
    except StreamerError as error:
        sys.exit(str(error))
    asked.out.write_bytes(model)
    print(f"Wrote {asked.out}: {asked.trees} trees from {len(marked):,} pages.")


if __name__ == "__main__":
    main()
