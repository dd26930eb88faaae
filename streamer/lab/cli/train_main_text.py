"""The command `train-main-text`: the model that tells main text from furniture."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from streamer.cli.progress import compile_with_bar
from streamer.errors import SettingsError
from streamer.lab.main_text import TREES, read_marked, sheets_of
from streamer.lab.train_main_text import train
from streamer.run.outputs import check_writable


def train_main_text(
    pages: Annotated[
        Path,
        typer.Argument(
            help='JSON lines: {"html": ..., "main_text": ...}, the main text a paragraph a line; '
            '"weight" for a page that counts more or less than 1.',
        ),
    ],
    *,
    out: Annotated[Path, typer.Option(help="File to write.", dir_okay=False)],
    trees: Annotated[int, typer.Option(min=1, max=1000, help="Trees of the model.")] = TREES,
) -> None:
    r"""Train the model of --text main on pages whose main text is marked.

    Pages count whose marked text has 30 words or more, and is found in the page; an empty one says
    that the page has no main text. Needs scikit-learn: pip install 'streamer\[train]'.

    Example: streamer train-main-text marked.jsonl --out model.json
    """
    check_writable(out)
    compile_with_bar(main_text=True)
    marked = list(read_marked(pages))
    sheets = list(sheets_of(marked))
    model = train(marked, sheets, trees)
    try:
        out.write_bytes(model)
    except OSError as error:
        raise SettingsError(
            f"Cannot write {out}: {error.strerror or error}; give another --out."
        ) from error
    usable = [each[0] for each in sheets if each[0].is_usable]
    none = sum(not each.main_text.strip() for each in marked)
    blocks = sum(len(sheet.main) for sheet in usable)
    main = sum(int(sheet.main.sum()) for sheet in usable)
    typer.echo(
        f"Wrote {out}: {trees} trees from {blocks:,} blocks ({main:,} of main text) "
        f"of {len(usable):,} pages; {none:,} pages without main text, "
        f"{len(sheets) - len(usable) - none:,} left out."
    )
