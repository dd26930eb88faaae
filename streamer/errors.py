"""The errors, by what the operator does about them.

    StreamerError                exit 1   something failed; the message says what to do
    ├── SettingsError            exit 2   change the settings or the command line
    ├── StoreMismatch            exit 3   the index belongs to other settings or another input
    ├── StoreDamaged             exit 3   the index is damaged: restore it, or build it anew
    ├── StoreUnavailable         exit 1   the disk is full, or another process holds the index
    └── InputError               exit 1   an input cannot be opened or read
    InvalidPage                  never leaves a stage: the page becomes a dead letter, the run goes
    on

A message is one or two sentences: the cause with its values, then the remedy.
"""

from __future__ import annotations


class StreamerError(Exception):
    """End the run with one clear sentence."""

    exit_code = 1


class SettingsError(StreamerError):
    """Report a setting or an option that cannot be used as given."""

    exit_code = 2


class StoreMismatch(StreamerError):  # noqa: N818 - a state of the index, the name operators search for
    """Report an index whose settings, position or inputs are not the ones of this run."""

    exit_code = 3


class StoreDamaged(StreamerError):  # noqa: N818 - as StoreMismatch
    """Report an index of which something is missing or not what was written.

    Attributes:
        part: the file or folder of the index that is damaged.
        what: what is wrong with it.
    """

    exit_code = 3

    def __init__(self, part: str, what: str, remedy: str) -> None:
        super().__init__(f"The index file {part} is damaged ({what}). {remedy}")
        self.part = part
        self.what = what


class StoreUnavailable(StreamerError):  # noqa: N818 - as StoreMismatch
    """Report an index that cannot be opened or written now."""


class InputError(StreamerError):
    """Report an input that cannot be opened or read."""


class InvalidPage(Exception):  # noqa: N818 - not an error of the run
    """Turn one page into a dead letter.

    Attributes:
        code: a stable, documented word (docs/dead-letters.md lists them).
        detail: what was found, without page text.
    """

    def __init__(self, code: str, detail: str = "") -> None:
        super().__init__(f"{code}: {detail}" if detail else code)
        self.code = code
        self.detail = detail


class SkippedRecord(Exception):  # noqa: N818 - not an error of the run
    """Count one record as skipped: it is no page, by the rules of its source.

    Attributes:
        code: a stable, documented word, counted in the summary.
    """

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code
