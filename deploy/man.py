"""Write the manual: a page for each command, of what its help says. `make man` gives the folder."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from streamer.cli.main import EPILOG, PANELS, app
from streamer.version import __version__

SECTION = 1  # of the manual: commands


def roff(text: str) -> str:
    """Return a text of the help, where brackets are escaped, as one line of roff."""
    text = " ".join(text.split()).replace("\\[", "[").replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + text.replace("'", "\\(aq").replace("`", "\\(ga")


def head(name: str, summary: str, usage: str) -> list[str]:
    """Return the beginning of a page."""
    page = name.replace(" ", "-")
    title = f'.TH "{page.upper()}" {SECTION} "" "streamer {__version__}"'
    synopsis = [".SH SYNOPSIS", f"\\fB{roff(name)}\\fR {roff(usage)}"]
    return [title, ".SH NAME", f"{roff(page)} \\- {roff(summary)}", *synopsis]


def command_page(name: str, command: Any) -> str:  # noqa: ANN401 - typer does not export its type
    """Return the page of a command."""
    context = typer.Context(command, info_name=name)
    summary, *paragraphs = (command.help or "").split("\n\n")
    examples = [each[8:] for each in paragraphs if each.startswith("Example:")]
    texts = [each for each in paragraphs if not each.startswith("Example:")]
    lines = head(name, summary, " ".join(command.collect_usage_pieces(context)))
    lines += [".SH DESCRIPTION"] * bool(texts)
    lines += [line for each in texts for line in (".PP", roff(each))]
    by_panel = defaultdict(list)
    for one in command.get_params(context):
        default = "Arguments" if one.param_type_name == "argument" else "Options"
        by_panel[one.rich_help_panel or default].append(one.get_help_record(context))
    lines.append(".SH OPTIONS")
    for panel, records in by_panel.items():
        lines.append(f'.SS "{roff(panel)}"')
        for names, text in filter(None, records):
            lines += [".TP", f"\\fB{roff(names)}\\fR", roff(text)]
    lines += [".SH EXAMPLES"] * bool(examples)
    lines += [line for each in examples for line in (".PP", f"\\fB{roff(each)}\\fR")]
    return "\n".join([*lines, ".SH SEE ALSO", "\\fBstreamer\\fR(1)", ""])


def pages() -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each page."""
    group: Any = typer.main.get_command(app)
    lines = head("streamer", app.info.help or "", "COMMAND ...")
    for panel, names in PANELS.items():
        lines += [f'.SH "{roff(panel).upper()}"']
        for name in names:
            command = group.get_command(typer.Context(group), name)
            parts = getattr(command, "commands", None) or {"": command}
            for part, own in parts.items():
                whole = f"streamer {name} {part}".rstrip()
                page = whole.replace(" ", "-")
                lines += [".TP", f"\\fB{roff(page)}\\fR({SECTION})"]
                lines.append(roff((own.help or "").split("\n\n")[0]))
                yield page, command_page(whole, own)
    lines += [".SH EXIT STATUS", roff(EPILOG.rpartition("\n\n")[2].partition(": ")[2])]
    yield "streamer", "\n".join([*lines, ""])


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for page, text in pages():
        (folder / f"{page}.{SECTION}").write_text(text, encoding="utf-8")
