"""A comparison as one HTML file: both texts side by side, with what they share highlighted.

The page needs no network and no script. Everything that comes from the texts is escaped by the
template engine, and a policy in the page forbids whatever might be loaded.
"""

from __future__ import annotations

from collections.abc import Sequence

from jinja2 import Environment, PackageLoader, StrictUndefined

from streamer.cli.comparison import Report
from streamer.cli.highlight import Piece, visible

GOLDEN_ANGLE = 137.508  # degrees: hues in steps of it are far apart, however many there are
TEMPLATE = "side_by_side.html.jinja"


def hue(group: int) -> int:
    """Return the hue of a group's colour, in degrees."""
    return round(40 + group * GOLDEN_ANGLE) % 360


def side_by_side(report: Report, one: Sequence[Piece], other: Sequence[Piece]) -> str:
    """Return the page; `one` and `other` are the texts in pieces."""
    environment = Environment(
        loader=PackageLoader("streamer.cli", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["visible"] = visible
    groups = sorted({piece.group for piece in one if piece.group is not None})
    return environment.get_template(TEMPLATE).render(
        report=report,
        sides=(("a", "b", report.a, one), ("b", "a", report.b, other)),
        hues=[(group, hue(group)) for group in groups],
    )
