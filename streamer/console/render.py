"""Answers to pages and to CSV: Jinja2's templates, which escape all text, and words for people.

Whatever comes from a crawl is text: it is escaped, isolated from the direction of the text around
it (`dir=auto`, `bdi`), and control characters in it are replaced. No address of a page is a link
that a browser would follow: links lead to the console's own pages only.
"""

import io
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import msgspec

from streamer.analysis.comparison import hue
from streamer.console.answers import LIKE_AMONG
from streamer.console.overview import CrawlState
from streamer.console.routes import MENU, Route
from streamer.errors import needs_extra
from streamer.run.explanation import place_name
from streamer.run.verdict_files import Cell, write_table
from streamer.version import __version__
from streamer.web_server import STYLE

_FOLDER = Path(__file__).parent / "templates"
_COLOURS = 24  # of what two texts share; the next one is the first again
_OF_SHARED = "".join(f".g{group} {{ --hue: {hue(group)} }}\n" for group in range(_COLOURS))
STYLES = (STYLE + _OF_SHARED).encode()
SCRIPT = (_FOLDER / "console.js").read_bytes()
# What no text of a page should do to a reader: control characters, and marks that turn the
# direction of all that comes after them.
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def visible(value: object) -> object:
    """Return a text with its control characters replaced; all else as it is, as what is HTML."""
    if not isinstance(value, str) or hasattr(value, "__html__"):
        return value
    return _UNSEEN.sub("\ufffd", value)


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


def top_of(most: int) -> int:
    """Return where an axis ends that begins at 0: a round number, and half of it is one, too."""
    power: int = 10 ** (len(str(most)) - 1)
    return next(top for n in (1, 2, 4, 6, 8, 10) if (top := n * power) >= max(most, 2))


class Renderer:
    """Makes the pages of a console below the path `base`.

    Raises:
        SettingsError: the extra `console` is not installed.
    """

    def __init__(self, base: str) -> None:
        with needs_extra("console", "The console"):
            import jinja2  # noqa: PLC0415 - an extra

        self._base, own = base, jinja2.FileSystemLoader(_FOLDER)
        self._environment = jinja2.Environment(
            loader=jinja2.ChoiceLoader([own, jinja2.PackageLoader("streamer.analysis", ".")]),
            autoescape=True, undefined=jinja2.StrictUndefined, finalize=visible,
            trim_blocks=True, lstrip_blocks=True, auto_reload=False,
        )  # fmt: skip
        self._environment.filters.update(
            number="{:,}".format, percent=percent, amount=amount, top=top_of, place=place_name,
            visible=visible, judged=lambda bar: bar.unique + bar.similar + bar.equal,
        )  # fmt: skip
        self._environment.tests["prefixed"] = str.startswith
        self._environment.globals.update(
            link=self.link, menu=MENU, version=__version__, colours=_COLOURS, like_among=LIKE_AMONG
        )

    def link(self, path: str, **parameters: object) -> str:
        """Return the address of a path and its parameters."""
        given = {k: v for k, v in parameters.items() if v is not None}
        return f"{self._base}{path}" + (f"?{urlencode(given, errors='replace')}" if given else "")

    def view(
        self, route: Route, answer: object, query: object, parameters: Mapping[str, str],
        state: CrawlState,
    ) -> bytes:  # fmt: skip
        """Return the page of a view; `parameters` are those of its address."""
        name = f"{route.path.strip('/')}.html.jinja"
        return self._render_template(
            name, title=route.title or route.path[1:].title(), route=route, answer=answer,
            query=query, parameters=parameters, state=state, live=False,
        )  # fmt: skip

    def live(self, route: Route, answer: object) -> bytes:
        """Return the parts of a view's page that are sent while it is looked at."""
        name = f"{route.path.strip('/')}-live.html.jinja"
        return self._render_template(name, answer=answer, route=route, parameters={}, live=True)

    def message(self, title: str, sentence: str, *, login: bool = False) -> bytes:
        """Return a page that says one thing; `login` asks for the token."""
        return self._render_template(
            "message.html.jinja", title=title, route=None, sentence=sentence, login=login,
            state=None,
        )  # fmt: skip

    def _render_template(self, name: str, **values: Any) -> bytes:  # noqa: ANN401 - the templates' names
        return self._environment.get_template(name).render(values).encode("utf-8", "replace")


def csv_of(answer: msgspec.Struct, names: Sequence[str]) -> str:
    """Return the first list of an answer that has rows, of those with these names, as CSV.

    Fields of a field have its name in front, as `page_topic`; other lists are JSON.
    """
    found: Iterator[Sequence[msgspec.Struct]] = (getattr(answer, name) for name in names)
    rows = next(filter(None, found), ())
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
