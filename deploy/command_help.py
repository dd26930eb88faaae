"""What the help of each command says: the manual and the page of all commands are made of it."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

import typer

from streamer.cli.main import PANELS, app


class CommandHelp(NamedTuple):
    """The help of a command.

    Attributes:
        panel: the subject of the command, in the help of all.
        name: without the name of the program.
        command: as typer makes it, which exports no type of it.
        texts: what it does, a paragraph each.
        options: those of each panel, in the order of the help.
    """

    panel: str
    name: str
    command: Any
    summary: str
    texts: list[str]
    examples: list[str]
    options: dict[str, list[Any]]


def command_helps() -> Iterator[CommandHelp]:
    """Yield the help of each command, and of each of a group."""
    root: Any = typer.main.get_command(app)
    for panel, names in PANELS.items():
        for name in names:
            part = root.get_command(typer.Context(root), name)
            for own, command in (getattr(part, "commands", None) or {"": part}).items():
                yield _read(panel, f"{name} {own}".rstrip(), command)


def _read(panel: str, name: str, command: Any) -> CommandHelp:  # noqa: ANN401 - as above
    summary, *paragraphs = (command.help or "").split("\n\n")
    texts, examples = list[str](), list[str]()
    for each in paragraphs:
        text = each.removeprefix("Example:")
        (texts if text == each else examples).append(text)
    options = defaultdict[str, list[Any]](list)
    for one in command.get_params(typer.Context(command)):
        default = "Arguments" if one.param_type_name == "argument" else "Options"
        options[one.rich_help_panel or default].append(one)
    return CommandHelp(panel, name, command, summary, texts, examples, options)
