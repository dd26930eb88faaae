"""The command `console`: verdicts, dead letters and an index in a browser, and over HTTP."""

import asyncio
import logging
import os
import signal
import time
from collections.abc import Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from streamer.cli.options import command, quiet_connection_of
from streamer.config import Settings
from streamer.console.answers import ConsoleData
from streamer.console.fold_process import FoldProcess, FoldTask
from streamer.console.index import IndexReader, PageTexts
from streamer.console.inputs import CutOff, read_batches
from streamer.console.server import ConsoleServer, ServerOptions
from streamer.console.view import QueryTooLong, VerdictView, default_folder
from streamer.errors import InputError, SettingsError, StreamerError
from streamer.given_file import read_given
from streamer.kafka.topics import Names
from streamer.panels import SECURITY
from streamer.run.index_folder import shard_folders
from streamer.run.output_checks import is_table
from streamer.run.reading import PageReader
from streamer.stored.opening import has_index

TOKEN_VARIABLE = "STREAMER_CONSOLE_TOKEN"  # noqa: S105 - its name
_TOKEN_MIN = 16
_log = logging.getLogger("streamer")
_LOOK_SECONDS, _SHOW_SECONDS = 0.5, 10.0  # between two looks at the fold; two lines about it
_SUFFIXES = (".jsonl", ".jsonl.gz", ".jsonl.zst", ".parquet")
_LETTERS_SUFFIX = ".dead.jsonl"
_BODY_MAX = 2  # pages: JSON's escapes and base64 take more than the page


@dataclass(frozen=True, slots=True)
class Given:
    """What the command line names: files to fold, and folders of indexes to open.

    `notices` names the files of folders that are skipped.
    """

    files: tuple[Path, ...]
    indexes: tuple[Path, ...]
    notices: tuple[str, ...] = ()


def sort_inputs(paths: Sequence[Path]) -> Given:
    """Return the files and indexes among `paths`; of a folder without an index, its files.

    The dead letters that a run has written next to its verdicts belong to these. What else is in a
    folder, such as the pages of the crawl, is skipped.

    Raises:
        InputError: a path is missing or cannot be read, or its file is no verdicts.
    """
    files: dict[Path, None] = {}
    indexes, notices = [], []
    for path in paths:
        if path.is_dir() and has_index(path / shard_folders(path)[0]):
            indexes.append(path)
        elif path.is_dir():
            found, other = _list_folder(path)
            files |= dict.fromkeys(found)
            notices += other
        else:
            letters = path.with_name(path.name + _LETTERS_SUFFIX)
            for each in (path, letters) if letters.is_file() else (path,):
                check_first_line(each)
                files[each] = None
    return Given(tuple(files), tuple(indexes), tuple(notices))


def _list_folder(folder: Path) -> tuple[list[Path], list[str]]:
    """Return the inputs in a folder, and a notice of each other file that looks like one.

    Raises:
        InputError: there is no input.
    """
    files, others = list[Path](), list[InputError]()
    for path in sorted(each for each in folder.iterdir() if each.name.endswith(_SUFFIXES)):
        try:
            check_first_line(path)
            files.append(path)
        except InputError as error:
            others.append(error)
    if not files and others:
        raise others[0]
    if not files:
        said = f"has no index, and no file of verdicts (*{', *'.join(_SUFFIXES)})"
        raise InputError(f"{folder}: {said}; check the path")
    return files, [f"A file of the folder is skipped. {error}." for error in others]


def check_first_line(path: Path) -> None:
    """Raise InputError unless a file can be read and, if it has a line, begins with one of ours."""
    if is_table(path.name):
        raise InputError(f"{path}: CSV is not read; give a file of JSON lines or Parquet")
    with suppress(CutOff):
        next(read_batches(path, 0, 0, lines_max=1), None)


@dataclass(frozen=True)
class Serving:
    """Where and to whom the console answers.

    Attributes:
        host (ADDRESS): Address to answer at; with a token, any.
        port: Port to answer at; 0 takes a free one.
        base_path (PATH): Path that all addresses begin with, for a proxy, as /console; needs a
            token.
    """

    host: str = "127.0.0.1"
    port: Annotated[int, typer.Option(min=0, max=65535)] = 8477
    base_path: str = ""
    token_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help=f"File with the token that the console asks for; or set {TOKEN_VARIABLE}. Needed "
            "for another --host than this machine, and behind a proxy.",
        ),
    ] = None

    def options(self, body_max: int) -> ServerOptions:
        """Return the options of the server, for bodies of so many bytes.

        Raises:
            SettingsError: the token is missing, too short or cannot be read.
        """
        return ServerOptions(self.host, self.port, self.base_path, self._token(), body_max)

    def _token(self) -> str | None:
        token = os.environ.get(TOKEN_VARIABLE, "").strip()
        if self.token_file is None and not token:
            return None
        if self.token_file is not None:
            try:
                token = read_given(self.token_file).decode().strip()
            except (OSError, ValueError) as error:
                why = error.strerror if isinstance(error, OSError) else "it is no text"
                raise SettingsError(
                    f"The token cannot be read of {self.token_file}: {why}. Make it with `openssl "
                    "rand -hex 32`."
                ) from error
        if len(token) < _TOKEN_MIN or not token.isascii():
            raise SettingsError(
                f"A token has at least {_TOKEN_MIN} characters of ASCII. Make one with `openssl "
                "rand -hex 32`."
            )
        return token


@command
def console(
    inputs: list[Path] | None = None,
    *,
    serving: Serving,
    pages: list[str] | None = None,
    no_text: bool = False,
    view: Path | None = None,
    query_seconds: Annotated[float, typer.Option(min=0.1, max=600)] = 10.0,
    reader: PageReader,
    settings: Annotated[
        Settings, "index_name", "brokers", "input_topic", "key_file", "also", SECURITY
    ],
) -> None:
    """Look at verdicts, clusters, hosts and dead letters in a browser, or over HTTP.

    The console reads verdicts as they are written, and an index as of its newest flush; it changes
    neither. With --index-name or --brokers it reads the topics of workers instead of files, and
    shows how far they are behind. Dead letters next to a file of verdicts are read with it. Each
    page is an address that can be shared, and also available as .json; /openapi.json describes the
    API.

    Example: streamer console verdicts.jsonl my-index

    Example: streamer console --index-name streamer --brokers localhost:9092

    Example: streamer console verdicts.jsonl --pages crawl/

    Example: streamer console verdicts/ --host 0.0.0.0 --token-file token --base-path /console

    Args:
        inputs (INDEX_OR_VERDICTS): Files of verdicts or dead letters (JSON lines, .gz, .zst,
            Parquet), folders of these, and at most one folder of an index.
        pages: Page files to take texts from, for why a page has its verdict, and to compare pages.
            Repeatable.
        no_text: Show no text of a page and no record.
        view (DIR): Folder of what is made of the verdicts, as large as half of them; it may be
            removed. [default: in the user's cache]
        query_seconds: Time that a query may take.
    """
    options, given = serving.options(_BODY_MAX * reader.page_bytes_max), sort_inputs(inputs or ())
    topics = _topics(given, settings)
    for notice in given.notices:
        _log.warning("%s", notice)
    if len(given.indexes) > 1:
        raise SettingsError("Give the folder of one index: verdicts are looked up in that.")
    with ExitStack() as stack:
        texts = PageTexts(reader, reader.open(pages) if pages else ())
        index = None
        if given.indexes:
            index = IndexReader(
                given.indexes[0],
                settings.key_file,
                settings.input_topic,
                settings.also,
                texts,
                not no_text,
            )
            stack.callback(index.close)
        folder = view or default_folder([*topics, *map(str, map(Path.resolve, inputs or ()))])
        opened = stack.enter_context(closing(VerdictView(folder)))
        opened.open_to_fold().close()  # so that queries find one at once
        stack.callback(lambda: opened.open_to_fold().close())  # what it logs goes into its file
        task = (
            FoldTask.of_topics(folder, quiet_connection_of(settings), Names(topics[1], topics[2]))
            if topics
            else FoldTask(str(folder), [*map(str, given.files)])
        )
        fold = stack.enter_context(closing(FoldProcess(task)))
        data = ConsoleData(
            opened, query_seconds, index, lambda: fold.state, not no_text, given.notices,
            settings.index_name if topics else "", texts,
        )  # fmt: skip
        asyncio.run(_serve(ConsoleServer(data, options), data))


def _topics(given: Given, settings: Settings) -> tuple[str, ...]:
    """Return the brokers, the index and the topic of pages to read; nothing where files are read.

    Raises:
        SettingsError: both are asked for, or neither is.
    """
    if not settings.model_fields_set & {"brokers", "index_name"}:
        if given.files or given.indexes:
            return ()
        raise SettingsError("Give files of verdicts, or --index-name and --brokers of workers.")
    if given.files:
        raise SettingsError("Give files of verdicts, or --index-name and --brokers, not both.")
    return settings.brokers, settings.index_name, settings.input_topic


async def _serve(server: ConsoleServer, data: ConsoleData) -> None:
    """Print the address, and serve until SIGINT or SIGTERM; queries that run then end.

    On standard error it says how much is read of what there is.
    """
    stopped, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    async with server.serving() as address:
        typer.echo(address)
        telling = asyncio.create_task(_tell_progress(data))
        await stopped.wait()
        data.view.stopped.set()
        telling.cancel()


async def _tell_progress(data: ConsoleData) -> None:
    """Say how many verdicts are read, until all are that there were at the start."""
    typer.echo("Reading the verdicts.", err=True)
    shown, shown_at, is_done = "", time.monotonic(), False
    while not is_done:
        await asyncio.sleep(_LOOK_SECONDS)
        state = data.fold()
        is_done = state.is_done
        if is_done or time.monotonic() - shown_at >= _SHOW_SECONDS:
            pages = await asyncio.to_thread(_pages_of, data)
            said = f"{pages:,} pages are read{'.' if is_done else ' so far.'}"
            if (said := state.trouble or said) != shown:
                typer.echo(said, err=True)
            shown, shown_at = said, time.monotonic()


def _pages_of(data: ConsoleData) -> int:
    with suppress(QueryTooLong, StreamerError), data.view.read(1) as view:
        return int(view.execute("SELECT ifnull(max(number), 0) FROM page").fetchone()[0])
    return 0
