"""How `make site` makes a site of the documents: Sphinx reads this file."""

import re
import sys
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

sys.path.insert(0, str(Path(__file__).absolute().parents[1]))

from deploy.command_help import CommandHelp, command_helps

project = html_title = "streamer"
root_doc = "docs/index"
include_patterns = [
    "*.md", "docs/**.md", "deploy/README.md", "examples/**.md", "tests/README.md",
    "build/commands.md",
]  # fmt: skip
exclude_patterns = ["build/[!c]*", ".venv"]
extensions = ["myst_parser"]
myst_heading_anchors = 4
nitpicky = True
smartquotes = False  # they would make one dash of the two before an option
html_theme = "furo"
html_static_path = ["site"]
html_css_files = ["tables.css"]
html_show_sphinx = html_copy_source = False


def section(found: CommandHelp) -> str:
    """Return the help of a command as Markdown: what it does, examples, a table for each panel."""
    parts = [f"## streamer {found.name}", *(" ".join(each.split()) for each in found.texts)]
    parts.insert(1, " ".join(found.summary.split()))
    parts += [f"```console\n$ {' '.join(each.split())}\n```" for each in found.examples]
    for panel, options in found.options.items():
        rows = [f"| {panel} | |", "|---|---|"]
        shown = [each for each in options if each.name not in {"help", "help_all"}]
        rows += [f"| `{label(each)}` | {meaning(each)} |" for each in shown]
        parts += ["\n".join(rows)] * bool(shown)
    return "\n\n".join(parts)


def label(option: Any) -> str:  # noqa: ANN401 - as above
    """Return how an option or argument is written."""
    if option.param_type_name == "argument":
        return str(option.metavar or option.name.upper())
    value = f" {option.metavar}" if option.metavar else ""
    return " / ".join([*option.opts, *option.secondary_opts]) + value.replace("|", "\\|")


def meaning(option: Any) -> str:  # noqa: ANN401 - as above
    """Return the help of an option, whose pipes and brackets are no markup."""
    text = (option.help or "").replace("\\[", "[").replace("|", "\\|")
    return re.sub(r"([<*])", r"\\\1", text) + (" Required." if option.required else "")


def write_commands(app: Sphinx) -> None:
    """Write the page of all commands."""
    parts = ["# Commands", *map(section, command_helps())]
    page = Path(app.srcdir, "build", "commands.md")
    page.parent.mkdir(exist_ok=True)
    page.write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def setup(app: Sphinx) -> None:
    """Have the page of commands written before the documents are read."""
    app.connect("builder-inited", write_commands)
