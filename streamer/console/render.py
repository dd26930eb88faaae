"""Answers to pages: Jinja2's templates, which escape all text, in words and numbers for people.

Whatever comes from a crawl is text: it is escaped, isolated from the direction of the text around
it (`dir=auto`, `bdi`), and control characters in it are replaced. No address of a page is a link
that a browser would follow: links lead to the console's own pages only.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from streamer.analysis.comparison import hue
from streamer.console.overview import HistoryBar
from streamer.console.queries import SimilarityBar
from streamer.console.routes import MENU, Route
from streamer.errors import needs_extra
from streamer.run.explanation import place_name
from streamer.version import __version__

_FOLDER = Path(__file__).parent / "templates"
_COLOURS = 24  # of what two texts share; the next one is the first again
_OF_SHARED = "".join(f".g{group} {{ --hue: {hue(group)} }}\n" for group in range(_COLOURS))
STYLE = (_FOLDER / "style.css").read_bytes() + _OF_SHARED.encode()
SCRIPT = (_FOLDER / "live.js").read_bytes()
# What no text of a page should do to a reader: control characters, and marks that turn the
# direction of all that comes after them.
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")

Links = Callable[..., str]


def visible(value: object) -> object:
    """Return a text with its control characters replaced; all else as it is, as what is HTML."""
    if not isinstance(value, str) or hasattr(value, "__html__"):
        return value
    return _UNSEEN.sub("\ufffd", value)


def make_link_below(base: str) -> Links:
    """Return the function that makes the address of a path and its parameters, all below `base`."""

    def link(path: str, **parameters: object) -> str:
        given = {k: v for k, v in parameters.items() if v is not None}
        return f"{base}{path}" + (f"?{urlencode(given, errors='replace')}" if given else "")

    return link


def percent(part: float) -> str:
    """Return a share as people read it: `12.3 %`, and never 0 or 100 where it is only near."""
    if 0 < part < 0.001:  # noqa: PLR2004 - less than what is shown
        return "< 0.1 %"
    if 0.999 < part < 1:  # noqa: PLR2004 - as above
        return "> 99.9 %"
    return f"{part:.1%}".replace("%", " %")


def amount(size: int) -> str:
    """Return a number of bytes with its unit."""
    value = float(size)
    for unit in ("bytes", "kB", "MB", "GB"):
        if value < 1000:  # noqa: PLR2004 - of each unit
            return f"{value:,.0f} {unit}" if unit == "bytes" else f"{value:,.1f} {unit}"
        value /= 1000
    return f"{value:,.1f} TB"


def scale_bars(bars: list[SimilarityBar]) -> list[tuple[SimilarityBar, float]]:
    """Return each bar with its height, 0 to 1, of the highest."""
    most = max((each.pages for each in bars), default=1)
    return [(each, each.pages / most) for each in bars]


def count_judged(bar: HistoryBar) -> int:
    """Return the pages of a bar, whatever their verdicts are."""
    return bar.unique + bar.similar + bar.equal


class Renderer:
    """Makes the pages of a console below the path `base`.

    Raises:
        SettingsError: the extra `console` is not installed.
    """

    def __init__(self, base: str) -> None:
        with needs_extra("console", "The console"):
            from jinja2 import (  # noqa: PLC0415 - an extra
                ChoiceLoader,
                Environment,
                FileSystemLoader,
                PackageLoader,
                StrictUndefined,
            )

        self.link, own = make_link_below(base), FileSystemLoader(_FOLDER)
        self._environment = Environment(
            loader=ChoiceLoader([own, PackageLoader("streamer.analysis", ".")]),
            autoescape=True, undefined=StrictUndefined, finalize=visible,
            trim_blocks=True, lstrip_blocks=True, auto_reload=False,
        )  # fmt: skip
        self._environment.filters.update(
            number="{:,}".format,
            percent=percent,
            amount=amount,
            drawn=scale_bars,
            place=place_name,
            visible=visible,
            judged=count_judged,
        )
        self._environment.globals.update(
            link=self.link, menu=MENU, version=__version__, colours=_COLOURS
        )

    def view(self, route: Route, answer: object, query: object, json_address: str) -> bytes:
        """Return the page of a view."""
        name = f"{route.path.strip('/')}.html.jinja"
        return self._render_template(
            name, title=route.title or route.path[1:].title(), here=route.path, answer=answer,
            query=query, json_address=json_address,
        )  # fmt: skip

    def live(self, route: Route, answer: object) -> bytes:
        """Return the parts of a view's page that are sent while it is looked at."""
        name = f"{route.path.strip('/')}-live.html.jinja"
        return self._render_template(name, answer=answer)

    def message(self, title: str, sentence: str, *, login: bool = False) -> bytes:
        """Return a page that says one thing; `login` asks for the token."""
        return self._render_template(
            "message.html.jinja", title=title, here="", sentence=sentence, login=login,
            json_address="",
        )  # fmt: skip

    def _render_template(self, name: str, **values: Any) -> bytes:  # noqa: ANN401 - the templates' names
        return self._environment.get_template(name).render(values).encode("utf-8", "replace")
