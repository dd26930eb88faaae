"""The commands by name, each imported when it is called: most of a start would go on the others.

Help lists all of them, and so imports all.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from streamer.garbage import without_collections

# By panel of the help. A command is what its module has under the module's own name.
PANELS = {
    "Judge pages": ("replay", "worker", "produce", "tail"),
    "Look inside": ("inspect", "check", "verify", "clusters", "explain"),
    "Compare texts": ("compare", "uniqueness", "methods", "collection"),
    "Measure and tune": ("sample", "score", "evaluate", "tune", "warm"),
}
COMMANDS = {name: panel for panel, names in PANELS.items() for name in names}


def _switches_without_type(params: list[Any]) -> list[Any]:
    """Return parameters of which no switch is shown with a type: it takes no value."""
    for param in params:
        if getattr(param, "is_flag", False):
            param.metavar = ""
    return params


class Command(TyperCommand):
    """A command whose help shows no type after a switch."""

    def get_params(self, ctx: Any) -> list[Any]:  # noqa: ANN401 - typer does not export its type
        """Return the parameters, the one for help too."""
        return _switches_without_type(super().get_params(ctx))


class Group(TyperGroup):
    """A group whose help shows no type after a switch."""

    def get_params(self, ctx: Any) -> list[Any]:  # noqa: ANN401 - as above
        """Return the parameters, the one for help too."""
        return _switches_without_type(super().get_params(ctx))


class LazyGroup(Group):
    """A group of commands of which only those are imported that somebody asks for."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ANN401 - typer does not export its type
        """Return the names of all commands, in the order of the help."""
        del ctx
        return [*COMMANDS]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ANN401 - as above
        """Return a command; of an unknown name None, with all names known for a suggestion."""
        for name in [cmd_name] if cmd_name in COMMANDS else [*COMMANDS]:
            if name not in self.commands:
                self.commands[name] = _loaded(name)
        return super().get_command(ctx, cmd_name)


def _loaded(name: str) -> Any:  # noqa: ANN401 - as above
    """Import a command, or a group of such; return it as typer makes it."""
    with without_collections():
        part = getattr(import_module(f"streamer.cli.{name}"), name)
    alone = typer.Typer(rich_markup_mode="rich", add_completion=False)
    if isinstance(part, typer.Typer):
        alone.add_typer(part, name=name, rich_help_panel=COMMANDS[name])
    else:
        alone.command(cls=Command, rich_help_panel=COMMANDS[name])(part)
    alone.callback()(lambda: None)  # so that it is a group, of this one command
    return typer.main.get_group(alone).commands[name]
