"""The options of commands: made from the settings and from records, and what is made of them.

typer takes each option as a parameter of the command's function. `command` writes these parameters,
so that a command has few of its own: one for all its settings, whose flags come from their
declaration in panels.py, and one for each record of options that belong together. Help texts are
those of docstrings: in the section `Args:` of a command, `Attributes:` of a record.
"""

import errno
import inspect
import logging
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer
from rich.markup import escape

from streamer.assembly import page_parser, reader_of
from streamer.cli.terminal import Terminal
from streamer.config import Declared, Settings, list_settings, load_settings
from streamer.docstrings import Described, read_section
from streamer.errors import OutputClosed, StreamerError
from streamer.kafka.connection import Connection, connection_of
from streamer.panels import FIELDS, RUNNING, SUBJECTS
from streamer.run.reading import PageReader, describe_skipped

_NAMED = inspect.Parameter.KEYWORD_ONLY
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace existing outputs.")]


def _show_all(ctx: typer.Context, value: bool) -> None:  # noqa: FBT001 - typer's callback
    """Show the help with all options, and end."""
    if value:
        vars(ctx.command)["shows_all"] = True
        typer.echo(ctx.get_help())
        raise typer.Exit


MANY_OPTIONS = 25  # more than one reads
_PAGE_SETTINGS = [
    "preset", "fields", "url_prefix", "cdx_base", "page_bytes_max", "include", "exclude",
]  # fmt: skip


@dataclass(frozen=True)
class _Shared:
    """Options that `command` gives to commands by itself.

    Attributes:
        config: TOML file with settings; flags and STREAMER_* come before it.
        keep_going: Continue if the first records of a source all fail in the same way. Without it,
            that ends the command.
        help_all: Show all options and exit.
    """

    config: Annotated[Path | None, typer.Option(rich_help_panel=RUNNING)] = None
    keep_going: Annotated[bool, typer.Option(rich_help_panel=FIELDS)] = False
    help_all: Annotated[bool, typer.Option(is_eager=True, callback=_show_all)] = False


@contextmanager
def _explaining_standard_output() -> Iterator[None]:
    """Turn what the system says about standard output into our error.

    Raises:
        OutputClosed: nobody reads it any more.
        StreamerError: its disk is full.
    """
    try:
        yield
        if sys.stdout:
            sys.stdout.flush()
    except OSError as error:
        if error.errno == errno.EPIPE:
            raise OutputClosed from error
        if error.errno != errno.ENOSPC or error.filename:
            raise
        raise StreamerError(
            "No space is left for standard output. Free some and run the same command again."
        ) from error


def command(function: Callable[..., None]) -> Callable[..., None]:
    """Return a command's function as typer is to see it: with each of its options a parameter.

    A parameter `Annotated[Settings, "brokers", SECURITY]` becomes the flags of these settings and
    panels (all, if none is named) and `--config`; a parameter that is a dataclass becomes its
    fields; a `PageReader` becomes the options that all commands have that read pages. Any other
    one is an argument if it may be given by its place, else an option; it is annotated as typer
    wants it where it has bounds, say. Called with these, it calls `function` with the settings as
    `load_settings` gives them, with the reader, and with the records.
    """
    spelled: dict[str, inspect.Parameter] = {}
    shared = {one.name: one for one in _fields_of(_Shared)}
    made: dict[str, tuple[Callable[..., object], list[str]]] = {}
    hints = get_type_hints(function, include_extras=True)
    text, described = read_section(function.__doc__, "Args")
    for name, parameter in inspect.signature(function).parameters.items():
        kind, *wanted = get_args(hints[name]) if _is_annotated(hints[name]) else [hints[name]]
        if kind is Settings:
            own = [*_flags(wanted), shared["config"]]
            made[name] = load_settings, [one.name for one in own]
        elif kind is PageReader:
            own = [*_flags(_PAGE_SETTINGS), shared["config"], shared["keep_going"]]
            made[name] = page_reader, [one.name for one in own]
        elif isinstance(kind, type) and is_dataclass(kind):
            own = _fields_of(kind)
            made[name] = kind, [one.name for one in own]
        else:
            own = [_describe(parameter.replace(annotation=hints[name]), described)]
        spelled |= {one.name: one for one in own}  # --config may be there twice
    if sum(one.kind is _NAMED for one in spelled.values()) >= MANY_OPTIONS:
        spelled["help_all"] = shared["help_all"]
    in_order = sorted(spelled.values(), key=_subject)
    signature = inspect.Signature(in_order)

    @wraps(function)
    def spelled_out(*args: Any, **options: Any) -> None:  # noqa: ANN401 - as typer parses them
        bound = signature.bind(*args, **options)
        bound.apply_defaults()
        given = bound.arguments
        parts = {
            name: make(**{one: given[one] for one in names}) for name, (make, names) in made.items()
        }
        used = {"help_all", *(one for _, names in made.values() for one in names)}
        with _explaining_standard_output():
            function(**{one: value for one, value in given.items() if one not in used}, **parts)

    spelled_out.__doc__ = text
    vars(spelled_out)["__signature__"] = signature
    spelled_out.__annotations__ = {one.name: one.annotation for one in in_order}
    return spelled_out


def _subject(parameter: inspect.Parameter) -> int:
    """Return the place of an option's subject in the help; what has none comes first."""
    panels = (getattr(one, "rich_help_panel", None) for one in get_args(parameter.annotation))
    return max(SUBJECTS.index(panel) if panel in SUBJECTS else -1 for panel in panels)


def _is_annotated(hint: object) -> bool:
    return get_origin(hint) is Annotated


def _flags(wanted: list[str]) -> list[inspect.Parameter]:
    """Return the flags of the settings and panels that are wanted."""
    own = [one for one in list_settings() if not wanted or {one.name, one.panel} & {*wanted}]
    return [_flag(one) for one in own if one.flag]


def _flag(one: Declared) -> inspect.Parameter:
    """Return the parameter that typer makes the flag of a setting from."""
    kinds = [one.type, *get_args(one.type)]
    kind: Any = next((each for each in (bool, int, float, Path) if each in kinds), str)
    several = get_origin(one.type) is tuple
    text = escape(one.text) + (" Repeatable." if several else "")
    if one.default and kind is not bool:
        text += f" \\[default: {escape(one.default)}]"
    flag = f"--{one.name.replace('_', '-')}"
    option = typer.Option(
        f"{flag}/--no-{flag[2:]}" if one.default == "yes" else flag,
        help=text,
        metavar=one.form or None,
        rich_help_panel=one.panel,
    )
    own: Any = Annotated[(list[str] if several else kind) | None, option]
    return inspect.Parameter(one.name, _NAMED, default=None, annotation=own)


def _fields_of(record: Any) -> list[inspect.Parameter]:  # noqa: ANN401 - a dataclass
    """Return the fields of a record of options as parameters; a record may have a `panel`."""
    hints = get_type_hints(record, include_extras=True)
    _, described = read_section(record.__doc__, "Attributes")
    made = []
    for one in fields(record):
        default = inspect.Parameter.empty if one.default is MISSING else one.default
        parameter = inspect.Parameter(one.name, _NAMED, default=default, annotation=hints[one.name])
        made.append(_describe(parameter, described, getattr(record, "panel", None)))
    return made


def _describe(
    parameter: inspect.Parameter, described: Mapping[str, Described], panel: str | None = None
) -> inspect.Parameter:
    """Return a parameter with what its command's docstring says of it.

    A switch has no form that switches off.
    """
    kind, name = parameter.annotation, parameter.name
    kind, given = get_args(kind) if _is_annotated(kind) else (kind, None)
    own = copy(given)
    if own is None and parameter.kind is _NAMED:
        own = typer.Option()
    elif own is None:
        own = typer.Argument(show_default=parameter.default is not None)
    if kind is bool and not own.param_decls and not isinstance(own.default, str):
        own.param_decls = (f"--{name.replace('_', '-')}",)
    if said := described.get(name):
        own.help, own.metavar = escape(said.text), said.form or own.metavar
    own.rich_help_panel = own.rich_help_panel or panel
    return parameter.replace(annotation=Annotated[kind, own])


def page_reader(*, keep_going: bool = False, **given: Any) -> PageReader:  # noqa: ANN401 - flags
    """Return the reader that `--keep-going` and settings ask for; it warns on standard error.

    Raises:
        SettingsError: as `page_parser`.
    """

    def warn(files: Mapping[str, str]) -> None:
        Terminal(stderr=True).warn(describe_skipped(files))

    settings = load_settings(**given | {"value": "page"})  # which is of messages
    reader = reader_of(settings, page_parser(settings))
    return replace(reader, keep_going=keep_going, note_skipped=warn)


def quiet_connection_of(settings: Settings) -> Connection:
    """Return `connection_of` for a command that raises what fails: its client logs nothing."""
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    return connection_of(settings)
