"""The command line's root: its help, and how errors become exit codes.

The commands by name, each imported when it is called: most of a start would go on the others. The
list of all of them is read from their sources, where a docstring's first line says what each does.
"""

from __future__ import annotations

import inspect
import itertools
import os
import re
import sys
import warnings
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from streamer.cli.terminal import Terminal
from streamer.errors import OutputClosed, SettingsError, StreamerError
from streamer.garbage import pause_collections
from streamer.version import __version__
from streamer.wrong_values import why_wrong

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

# By panel of the help, and of each command the module below this package that has it: a command is
# what that has under the command's own name.
PANELS = {
    "Judge pages": {
        "replay": "cli.replay",
        "spark": "cli.spark",
        "worker": "cli.kafka_commands",
        "produce": "cli.kafka_commands",
        "tail": "cli.kafka_commands",
        "select": "analysis.cli.clusters",
        "text": "analysis.cli.text",
    },
    "Keep an index": dict.fromkeys(["snapshot", "restore", "trim-log", "forget"], "cli.upkeep"),
    "Look inside": {
        "console": "console.command",
        "inspect": "cli.inspect",
        "check": "cli.inspect",
        "verify": "analysis.cli.verify",
        "clusters": "analysis.cli.clusters",
        "hints": "analysis.cli.hints",
        "explain": "analysis.cli.explain",
        "dead-letters": "cli.dead_letters",
    },
    "Compare texts": {
        "compare": "analysis.cli.compare",
        "uniqueness": "analysis.cli.compare",
        "methods": "analysis.cli.methods",
        "collection": "analysis.cli.compare",
    },
    "Measure and tune": {
        "sample": "analysis.cli.evaluate",
        "score": "analysis.cli.evaluate",
        "evaluate": "analysis.cli.evaluate",
        "tune": "analysis.cli.evaluate",
        "warm": "cli.upkeep",
    },
}
COMMANDS = {name: panel for panel, names in PANELS.items() for name in names}

# Of the options with a subject, those that a command's `--help` shows.
COMMON = {
    "verdicts", "index", "kept", "dead_letters", "overwrite", "preset", "threshold", "text",
    "exact", "key_file", "fields", "carry", "keep_going", "from_topic", "brokers", "index_name",
    "input_topic",
}  # fmt: skip


# Opened by its name, it would be written from its beginning, where a summary comes too.
_STANDARD_OUTPUT = re.compile(r"^(--[a-z-]+=)?/(dev/stdout|dev/fd/1|proc/self/fd/1)$")
_EMPTY_OPTION = re.compile(r"--[a-z-]+=")


class _InOurWords:
    """Help that shows no type after a switch, which takes no value; errors in our words."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - as get_params
        """Return what is left of the arguments.

        Raises:
            SettingsError: an option's value is empty, not of its type, or outside its bounds.
        """
        for before, each in itertools.pairwise(["streamer", *args]):
            if not each or _EMPTY_OPTION.fullmatch(each):
                raise SettingsError(
                    f"The empty text is given after {each or before}. Is a variable of the shell "
                    "not set? For an option's default, leave the option out."
                )
        args = [_STANDARD_OUTPUT.sub(r"\1-", each) for each in args]
        try:
            left: list[str] = super().parse_args(ctx, args)  # type: ignore[misc]  # of typer's
        except typer.BadParameter as error:
            from pydantic_core import ValidationError  # noqa: PLC0415 - only a wrong value needs it

            if isinstance(error.__cause__, ValidationError) and error.param:
                raise _refusal(error.param, error.__cause__.errors()[0]) from None
            raise
        return left

    def get_params(self, ctx: Any) -> list[Any]:  # noqa: ANN401 - typer does not export its type
        """Return the parameters, the one for help too."""
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]  # of typer's classes
        for param in params:
            if getattr(param, "is_flag", False):
                param.metavar = ""
        return params


def _refusal(param: Any, error: ErrorDetails) -> SettingsError:  # noqa: ANN401 - as get_params
    name = max(param.opts, key=len) if param.param_type_name == "option" else param.metavar
    why = why_wrong(error).rstrip(".")  # one of typer's is a sentence
    return SettingsError(f"{name} {error['input']!r} cannot be used: {why}.")


class Command(_InOurWords, TyperCommand):
    """A command whose help leaves out what is rarely used, where it has a `--help-all`."""

    shows_all = False

    def format_help(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401 - as get_params
        """Write the help, without what is rarely used."""
        params: list[Any] = self.params
        rare = [one for one in params if getattr(one, "rich_help_panel", None)]
        rare = [one for one in rare if one.name not in COMMON]
        is_short = not self.shows_all and any(one.name == "help_all" for one in self.params)
        for option in rare if is_short else ():
            option.hidden = True
        # A paragraph of a docstring is one line, which the help wraps to the terminal.
        paragraphs = inspect.cleandoc(self.help or "").split("\n\n")
        self.help = "\n\n".join(" ".join(each.split()) for each in paragraphs)
        super().format_help(ctx, formatter)
        if is_short:
            subjects = dict.fromkeys(one.rich_help_panel.partition(" (")[0] for one in rare)
            Terminal().print(
                f" {len(rare)} more options: {ctx.command_path} --help-all. Subjects: "
                f"{'; '.join(subjects)}.\n"
            )


class Group(_InOurWords, TyperGroup):
    """A group whose help shows no type after a switch."""


class LazyGroup(Group):
    """A group of commands of which only those are imported that somebody asks for."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ANN401 - typer does not export its type
        """Return the names of all commands, which can be listed from now on, and not called."""
        del ctx
        self.commands = {
            name: Command(name, help=_summary(name), rich_help_panel=panel)
            for name, panel in COMMANDS.items()
        }
        return [*COMMANDS]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ANN401 - as above
        """Return a command; of an unknown name None, with all names known for a suggestion."""
        if cmd_name not in COMMANDS:
            self.list_commands(ctx)
        elif cmd_name not in self.commands:
            self.commands[cmd_name] = _load(cmd_name)
        return super().get_command(ctx, cmd_name)


def _summary(name: str) -> str:
    """Return what a command does, by its source: its docstring's first line, or its `help`."""
    path = Path(__file__).parents[1].joinpath(*PANELS[COMMANDS[name]][name].split("."))
    own = name.replace("-", "_")
    forms = rf'^def {own}\(.*?^    r?"""([^\n]+)|^{own} = .*?help="([^"\n]+)"'
    found = re.search(forms, path.with_suffix(".py").read_text("utf-8"), re.MULTILINE | re.DOTALL)
    assert found, name
    return found[1] or found[2]


def _load(name: str) -> Any:  # noqa: ANN401 - as above
    """Import a command, or a group of such; return it as typer makes it."""
    with pause_collections():
        module = PANELS[COMMANDS[name]][name]
        part = getattr(import_module(f"streamer.{module}"), name.replace("-", "_"))
    alone = typer.Typer(rich_markup_mode="rich", add_completion=False)
    if isinstance(part, typer.Typer):
        alone.add_typer(part, name=name, rich_help_panel=COMMANDS[name])
    else:
        alone.command(cls=Command, rich_help_panel=COMMANDS[name])(part)
    alone.callback()(lambda: None)  # so that it is a group, of this one command
    return typer.main.get_group(alone).commands[name]


EPILOG = """
[bold]Examples[/bold]; each command's --help has more

  streamer replay crawl.jsonl.gz --verdicts verdicts.jsonl --index my-index\n
  streamer produce crawl.jsonl.gz --topic pages --brokers localhost:9092\n
  streamer worker --index my-index --key-file key\n
  streamer verify --settled --wait 60\n
  streamer console verdicts.jsonl my-index\n
  streamer explain https://example.com/a.html --index my-index --texts crawl.jsonl.gz\n
  streamer select verdicts.jsonl pages/ --policy longest --out clean.jsonl.gz\n
  streamer compare old.html new.html --html difference.html\n

[bold]Exit codes[/bold]: 0 done, 1 failed, 2 usage or settings, 3 the index does not fit or is
damaged, 4 too many dead letters; 130 interrupted, 141 standard output was closed.
"""

app = typer.Typer(
    cls=LazyGroup,
    help="Find near-duplicate pages in a stream: one verdict per page, unique or duplicate.",
    epilog=EPILOG,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)


def _say_version(wanted: bool) -> None:  # noqa: FBT001 - typer's callback
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


_VERSION = typer.Option("--version", callback=_say_version, is_eager=True, help="Show the version.")


@app.callback()
def root(*, _version: Annotated[bool, _VERSION] = False) -> None:
    """Find near-duplicate pages in a stream."""


def _warn(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:  # noqa: ANN401 - as Python calls it
    """Print a warning of ours in one line; any other as Python does."""
    if category is UserWarning:
        Terminal(stderr=True).warn(str(message))
    else:
        _as_python_does(message, category, *place, **more)


_as_python_does = warnings.showwarning


def run() -> None:
    """Run the command line; end the process with the error's exit code and one clear sentence."""
    warnings.showwarning = _warn
    try:
        app()
    except StreamerError as error:
        if not isinstance(error, OutputClosed):
            Terminal(stderr=True).fail(str(error))
        try:
            typer.echo(nl=False)  # which flushes
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # for what is buffered there
        sys.exit(error.exit_code)


if __name__ == "__main__":
    run()
