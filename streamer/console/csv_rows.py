"""The rows of an answer as CSV: the table of a view, for spreadsheets and scripts."""

import io
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from streamer.run.table import Cell, write_table


def csv_of(answer: msgspec.Struct, names: Sequence[str]) -> str:
    """Return the first list of an answer that has rows, of those with these names, as CSV.

    Fields of a field have its name in front, as `page_topic`; other lists are JSON.
    """
    rows: Sequence[msgspec.Struct] = next(
        filter(None, (getattr(answer, name) for name in names)), []
    )
    flat = [dict(_cells("", msgspec.json.decode(msgspec.json.encode(row)))) for row in rows]
    columns = dict.fromkeys(name for row in flat for name in row)
    out = io.StringIO(newline="")
    write_table(out, [columns, *([row.get(name) for name in columns] for row in flat)])
    return out.getvalue()


def _cells(name: str, value: Any) -> Iterator[tuple[str, Cell]]:  # noqa: ANN401 - of JSON
    if isinstance(value, dict):
        for key, each in value.items():
            yield from _cells(f"{name}_{key}".lstrip("_"), each)
    else:
        yield name, msgspec.json.encode(value).decode() if isinstance(value, list) else value
