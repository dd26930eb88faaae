"""The options of `streamer replay`: where things go, which topic is read, what bad input does."""

import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import typer

from streamer.compression import is_parquet, is_table_name
from streamer.errors import SettingsError
from streamer.pages.remote import is_remote
from streamer.panels import FIELDS, KAFKA, OUTPUTS
from streamer.run import output_checks
from streamer.run.kept_tables import TEXTS_SUFFIX
from streamer.run.output_checks import LINES_SUFFIX, ROWS_SUFFIX, output_key
from streamer.run.page_outputs import DUPLICATES, KEPT, REVISITS, TEXTS

VERDICTS_OPTION, LETTERS_OPTION = "verdicts", "dead-letters"


@dataclass(frozen=True)
class Targets:
    """The options that say where things go.

    Attributes:
        verdicts: File for verdicts: JSON lines, CSV (.csv) or Parquet (.parquet, written when the
            run ends), compressed if named .gz or .zst; - for standard output.
        index: Folder of the index. Without it the index is temporary.
        moved (OLD=NEW): Path of files or folders that the index knows, and their path now. May be
            given several times.
        dead_letters: File for records that cannot be judged. [default: VERDICTS.dead.jsonl]
        kept: File for unique pages, as they came: the clean data set. Rows of tables stay rows in a
            .parquet or .arrow file, written when the run ends.
        with_text: Add the text that was compared to pages of --kept: a field or column "text".
        duplicates: File for the other judged pages.
        revisits: File for WARC records of duplicates: a revisit of the representative where the
            payload has the same bytes, else metadata with the verdict. Of WARC files only.
        summary: File for the summary, as JSON.
        overwrite: Replace existing outputs of a run without --index. An output that belongs to an
            index is never replaced.
    """

    panel: ClassVar = OUTPUTS

    verdicts: str
    index: Path | None = None
    moved: Annotated[list[str] | None, typer.Option(rich_help_panel=FIELDS)] = None
    dead_letters: str | None = None
    kept: str | None = None
    with_text: bool = False
    duplicates: str | None = None
    revisits: str | None = None
    summary: Path | None = None
    overwrite: bool = False

    def _list_given(self) -> dict[str, str]:
        """Return the names of the outputs as given, by their options."""
        dead_letters = self.dead_letters
        if dead_letters is None and not output_checks.is_opened(self.verdicts):
            dead_letters = f"{self.verdicts}.dead.jsonl"
        options = {
            VERDICTS_OPTION: self.verdicts,
            LETTERS_OPTION: dead_letters,
            KEPT: self.kept,
            DUPLICATES: self.duplicates,
            REVISITS: self.revisits,
        }
        return {option: name for option, name in options.items() if name is not None}

    @property
    def made(self) -> dict[str, str]:
        """Return the names of the files that are made of an output when the run ends, by option."""
        is_made = {VERDICTS_OPTION: is_parquet, KEPT: is_table_name, DUPLICATES: is_table_name}
        given = self._list_given()
        return {
            option: given[option]
            for option, names_it in is_made.items()
            if option in given and names_it(given[option])
        }

    def outputs(self, scratch: Path | None = None) -> dict[str, str]:
        """Return the names of the outputs by their options, that of the verdicts first.

        Dead letters are next to the verdicts, unless the options say otherwise. Of what a file is
        made of when the run ends is next to that, or in the folder `scratch`.

        Raises:
            SettingsError: two of them are one, one is a URL, or has an ending of no format.
        """
        named = self._list_given()
        for option, name in self.made.items():
            place = name if scratch is None else str(scratch / option)
            named[option] = place + (LINES_SUFFIX if option == VERDICTS_OPTION else ROWS_SUFFIX)
            if option == KEPT and self.with_text:
                named[TEXTS] = place + TEXTS_SUFFIX
        if self.with_text and self.kept is None:
            raise SettingsError("--with-text is for the pages of --kept. Give --kept too.")
        if elsewhere := [option for option, name in named.items() if is_remote(name)]:
            raise SettingsError(
                f"--{elsewhere[0]} is a URL, but outputs are files of this machine. Name one, and "
                "copy it when the run has ended."
            )
        claimed = [*named.items(), *self.made.items()]
        for (one, its), (other, name) in itertools.combinations(claimed, 2):
            if one != other and output_key(its) == output_key(name):
                raise SettingsError(f"--{one} and --{other} must be different files.")
        output_checks.check_ending(
            VERDICTS_OPTION, named[VERDICTS_OPTION], ".jsonl", ".csv", ".parquet"
        )
        if LETTERS_OPTION in named:
            output_checks.check_ending(LETTERS_OPTION, named[LETTERS_OPTION], ".jsonl")
        return named

    def files(self) -> list[str]:
        """Return the names of all outputs and of the file that is made of one."""
        return [*self.outputs().values(), *self.made.values()]


@dataclass(frozen=True)
class FromTopic:
    """The options that name a topic; `from_topic` is there whenever another one is.

    Attributes:
        from_topic: Read this topic of pages instead of files.
        partitions: Partitions to read, for example 0,2. [default: those of --offsets, else all]
        offsets: Offsets to read, PARTITION:START-END separated by commas, for example
            0:100-2000,1:50- (END is excluded). [default: all messages at the start]
        until: Time up to which to read each partition, for example 2026-01-31T12:00Z.
        order_of: Name of a worker's index, whose order of pages and settings to use. Needs its
            --key-file; with --per-partition, give --partitions P for the index of one.
    """

    panel: ClassVar = KAFKA

    from_topic: str | None = None
    partitions: str | None = None
    offsets: str | None = None
    until: str | None = None
    order_of: str | None = None

    def check(self, *, files: bool, key: bool) -> None:
        """Raise SettingsError unless the options make sense together.

        `files` says whether there are any, `key` whether the signatures' key can be known.
        """
        ranges = {"partitions": self.partitions, "offsets": self.offsets, "until": self.until}
        given = [f"--{name}" for name, value in ranges.items() if value is not None]
        if files == (self.from_topic is not None):
            raise SettingsError("Give PAGES or --from-topic, one of the two.")
        if self.from_topic is None and (given or self.order_of):
            raise SettingsError(f"{(given or ['--order-of'])[0]} needs --from-topic.")
        if self.order_of and (others := [each for each in given if each != "--partitions"]):
            raise SettingsError(
                f"--order-of takes what the index has taken: leave out {others[0]}, or --order-of."
            )
        if self.order_of and not key:
            raise SettingsError("--order-of needs the worker's key. Give it with --key-file.")


@dataclass(frozen=True)
class Handling:
    """The options that say what becomes of input that is not as it should be.

    Attributes:
        complete: Treat files as complete. By default, with --index, a last line without a newline
            waits for a later run.
        keep_going: Continue although the first records of a source all fail in the same way. By
            default that ends the run before any of them counts as read.
        fail_on_dead_letters (SHARE): End with exit code 4 if more than this share of the records
            are dead letters.
    """

    panel: ClassVar = FIELDS

    complete: bool = False
    keep_going: bool = False
    fail_on_dead_letters: Annotated[float | None, typer.Option(min=0.0, max=1.0)] = None
