"""Write the manual: a page for each command, of what its help says. `make man` gives the folder."""

import sys
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import typer

# A script has its own folder on the path, but its modules are imported from the root.
sys.path.insert(0, str(Path(__file__).absolute().parents[1]))

from deploy.command_help import CommandHelp, command_helps
from streamer.cli.main import EPILOG, app
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


def command_page(found: CommandHelp) -> str:
    """Return the page of a command."""
    name = f"streamer {found.name}"
    context = typer.Context(found.command, info_name=name)
    lines = head(name, found.summary, " ".join(found.command.collect_usage_pieces(context)))
    lines += [".SH DESCRIPTION"] * bool(found.texts)
    lines += [line for each in found.texts for line in (".PP", roff(each))]
    lines.append(".SH OPTIONS")
    for panel, options in found.options.items():
        lines.append(f'.SS "{roff(panel)}"')
        for names, text in filter(None, (one.get_help_record(context) for one in options)):
            lines += [".TP", f"\\fB{roff(names)}\\fR", roff(text)]
    lines += [".SH EXAMPLES"] * bool(found.examples)
    lines += [line for each in found.examples for line in (".PP", f"\\fB{roff(each)}\\fR")]
    return "\n".join([*lines, ".SH SEE ALSO", "\\fBstreamer\\fR(1)", ""])


def pages() -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each page."""
    lines = head("streamer", app.info.help or "", "COMMAND ...")
    for panel, helps in groupby(command_helps(), lambda each: each.panel):
        lines += [f'.SH "{roff(panel).upper()}"']
        for each in helps:
            page = f"streamer {each.name}".replace(" ", "-")
            lines += [".TP", f"\\fB{roff(page)}\\fR({SECTION})", roff(each.summary)]
            yield page, command_page(each)
    lines += [".SH EXIT STATUS", roff(EPILOG.rpartition("\n\n")[2].partition(": ")[2])]
    yield "streamer", "\n".join([*lines, ""])


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for page, text in pages():
        (folder / f"{page}.{SECTION}").write_text(text, encoding="utf-8")
