"""Options that several commands share, with their help; None means that one is not given."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

_SIGNATURE = "Signature (fixed when an index is made)"
_VERDICTS = "Verdicts"
_RUN = "Running"

Threshold = Annotated[
    float | None,
    typer.Option(
        help="Least similarity of duplicates, 0 to 1. \\[default: the method's, 0.8]",
        rich_help_panel=_VERDICTS,
    ),
]
MinShingles = Annotated[
    int | None,
    typer.Option(
        help="Pages with fewer distinct shingles match equal content only. \\[default: 5]",
        rich_help_panel=_VERDICTS,
    ),
]
Method = Annotated[
    str | None,
    typer.Option(
        help="How pages are compared: a method or preset that `streamer methods` lists, or two of "
        "them, as simhash+minhash. "
        "\\[default: minhash]",
        rich_help_panel=_SIGNATURE,
    ),
]
Accept = Annotated[
    str | None,
    typer.Option(
        help="The second method, that decides on the candidates of --method, if that names one.",
        rich_help_panel=_SIGNATURE,
    ),
]
MethodOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--method-option",
        metavar="NAME=VALUE",
        help="Parameter of the method; accept.NAME=VALUE of the second one. Repeatable.",
        rich_help_panel=_SIGNATURE,
    ),
]
Canonical = Annotated[
    list[str] | None,
    typer.Option(
        "--canonical",
        metavar="NAME=VALUE",
        help="Option of the words' canonical form, as stop_words=english. Repeatable.",
        rich_help_panel=_SIGNATURE,
    ),
]
ShingleWidth = Annotated[
    int | None, typer.Option(help="Tokens a shingle. \\[default: 5]", rich_help_panel=_SIGNATURE)
]
Bands = Annotated[
    int | None,
    typer.Option(
        help="Band keys a page. 14 x 6 find 98.6 % at 0.8. \\[default: 14]",
        rich_help_panel=_SIGNATURE,
    ),
]
RowsOption = Annotated[
    int | None,
    typer.Option("--rows", help="Min-hashes a band. \\[default: 6]", rich_help_panel=_SIGNATURE),
]
Shards = Annotated[
    int | None,
    typer.Option(
        help="Shards that the bands are split over. \\[default: 1]", rich_help_panel=_SIGNATURE
    ),
]
KeyFile = Annotated[
    Path | None,
    typer.Option(
        help="File with the secret of all hashes (64 hexadecimal digits). "
        "Without it a random one is made with the index.",
        rich_help_panel=_SIGNATURE,
    ),
]
Threads = Annotated[
    int | None,
    typer.Option(
        help="Threads that sign pages. \\[default: one more than cores]", rich_help_panel=_RUN
    ),
]
HeadPages = Annotated[
    int | None,
    typer.Option(
        help="Kept pages in memory before a flush. \\[default: 32768]", rich_help_panel=_RUN
    ),
]
ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config",
        help="TOML file with settings; flags and STREAMER_* come before it.",
        rich_help_panel=_RUN,
    ),
]
