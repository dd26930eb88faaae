"""The command line's root: its help, and how errors become exit codes."""

from __future__ import annotations

import sys
from typing import Annotated

import typer
from rich.console import Console

from streamer import __version__
from streamer.cli.lazy_group import LazyGroup
from streamer.errors import StreamerError

EPILOG = """
[bold]Examples[/bold]

  streamer replay crawl.jsonl.gz --verdicts verdicts.jsonl --index my-index\n
  streamer replay archive/ --preset warc --verdicts - | grep duplicate\n
  streamer produce crawl.jsonl.gz --topic pages --brokers localhost:9092\n
  streamer worker --index my-index --key-file key\n
  streamer tail --limit 10\n
  streamer verify --settled --wait 60\n
  streamer inspect my-index\n
  streamer check --index my-index --threshold 0.9\n
  streamer clusters verdicts.jsonl --policy https --out clusters.csv\n
  streamer explain https://example.com/a.html --index my-index --texts crawl.jsonl.gz\n
  streamer compare old.html new.html --html difference.html\n
  streamer uniqueness essay.txt --against library/\n
  streamer collection build pages/ --out words.json\n
  streamer tune --threshold 0.9 --sample pages/\n
  streamer evaluate pages/ --methods minhash,simhash+minhash\n
  streamer sample pages/ && streamer replay pages/ --verdicts v.jsonl && streamer score pages
  v.jsonl

[bold]Exit codes[/bold]: 0 done, 1 failed, 2 usage or settings, 3 the index does not fit or is
damaged, 4 too many dead letters; 130 interrupted.
"""

app = typer.Typer(
    cls=LazyGroup,
    help="Find near-duplicate pages in a stream: one verdict a page, unique or duplicate of which.",
    epilog=EPILOG,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    add_completion=False,
)


def _print_version(wanted: bool) -> None:  # noqa: FBT001 - typer's callback
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def root(
    *,
    _version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Find near-duplicate pages in a stream."""


def run() -> None:
    """Run the command line; end the process with the error's exit code and one clear sentence."""
    try:
        app()
    except StreamerError as error:
        Console(stderr=True).print(f"[red]Error:[/red] {error}", highlight=False, soft_wrap=True)
        sys.exit(error.exit_code)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)


if __name__ == "__main__":
    run()
