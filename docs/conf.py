"""How `make site` makes a site of the documents: Sphinx reads this file."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from sphinx.application import Sphinx
from typer.main import get_command

HERE = Path(__file__).absolute().parent
sys.path.insert(0, str(HERE.parent))

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


def commands() -> Iterator[tuple[str, Any]]:
    """Yield the name of each command, and of each of a group, with the command."""
    from streamer.cli.main import COMMANDS, app  # noqa: PLC0415 - found by the path above

    root: Any = get_command(app)
    for name in COMMANDS:
        part = root.get_command(click.Context(root), name)
        for own, command in getattr(part, "commands", {"": part}).items():
            yield f"{name} {own}".strip(), command


def section(name: str, command: Any) -> str:  # noqa: ANN401 - typer has no public type of it
    """Return the help of a command as Markdown: what it does, examples, a table for each panel."""
    parts, tables = [f"## streamer {name}"], dict[str, list[str]]()
    for paragraph in command.help.split("\n\n"):
        text = " ".join(paragraph.split())
        example = text.removeprefix("Example: ")
        parts.append(text if example == text else f"```console\n$ {example}\n```")
    for each in command.params:
        if each.name not in {"help", "help_all"}:
            panel = getattr(each, "rich_help_panel", None) or f"{each.param_type_name.title()}s"
            row = f"| `{label(each)}` | {meaning(each)} |"
            tables.setdefault(panel, [f"| {panel} | |", "|---|---|"]).append(row)
    return "\n\n".join([*parts, *("\n".join(rows) for rows in tables.values())])


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


def write_commands(_app: Sphinx) -> None:
    """Write the page of all commands."""
    parts = ["# Commands", *(section(*each) for each in commands())]
    page = HERE.parent / "build" / "commands.md"
    page.parent.mkdir(exist_ok=True)
    page.write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def setup(app: Sphinx) -> None:
    """Have the page of commands written before the documents are read."""
    app.connect("builder-inited", write_commands)
