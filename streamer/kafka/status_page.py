"""The page at the root of a worker's health port: its state in words, with links to the rest.

Plain HTML without scripts or external styles, since it is read through a tunnel, in a hurry.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

_PAGE = """<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>streamer: {title}</title></head>
<body>
<h1>streamer: {title}</h1>
<p>{state}</p>
<ul>
{reasons}</ul>
<table>
{rows}</table>
<ul>
<li><a href="/metrics">metrics</a></li>
<li><a href="/health/ready">ready</a></li>
<li><a href="/health/live">live</a></li>
</ul>
</body>
</html>
"""


def status_page(about: Mapping[str, object], reasons: Sequence[str]) -> str:
    """Return the page of a worker; `reasons` are why it is not ready, none if it is."""
    rows = (
        f"<tr><th align=left>{escape(name)}</th><td>{escape(_shown(value))}</td></tr>\n"
        for name, value in about.items()
    )
    return _PAGE.format(
        title=escape(str(about.get("index", "worker"))),
        state="This worker is not ready:" if reasons else "This worker is ready.",
        reasons="".join(f"<li>{escape(reason)}</li>\n" for reason in reasons),
        rows="".join(rows),
    )


def _shown(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
