"""The options that say where a message has its fields, and the parser that they make."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from streamer.errors import SettingsError
from streamer.stream.fields import DEFAULT_MAPPING, FieldMapping, parse_fields
from streamer.stream.parse import PageParser
from streamer.stream.presets import PRESETS

Preset = Annotated[
    str | None, typer.Option(help=f"Field mapping of a crawler: {', '.join(sorted(PRESETS))}.")
]
Fields = Annotated[
    str | None,
    typer.Option(
        help='Field mapping as JSON or a file with it, as {"url": "/uri", "body": "/html"}.'
    ),
]


def page_parser(
    preset: str | None, fields: str | None, carry: Sequence[str], page_bytes_max: int
) -> PageParser:
    """Return the parser that `--preset`, `--fields` and `--carry` ask for.

    Raises:
        SettingsError: one of them cannot be used, or both mappings are given.
    """
    if preset is not None and fields is not None:
        raise SettingsError("Give --preset or --fields, not both.")
    mapping: FieldMapping = DEFAULT_MAPPING
    if preset is not None:
        if preset not in PRESETS:
            raise SettingsError(
                f"There is no preset {preset}; there are {', '.join(sorted(PRESETS))}."
            )
        mapping = PRESETS[preset]
    elif fields is not None:
        mapping = parse_fields(fields)
    try:
        return PageParser(mapping, carry, page_bytes_max)
    except ValueError as error:
        raise SettingsError(f"--carry cannot be used: {error}.") from error
