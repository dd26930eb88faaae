"""What holds for every file of verdicts, whichever command reads it.

A file has verdicts of one index, since similarities and pages of two are not comparable. The schema
is the one of this version, and a similarity is a share. A duplicate, and nothing else, has a
representative. A page may come again, with the same verdict: another one shows that the file is of
two runs, whose pages have the same names. It is a file that can be read again.
"""

from pathlib import Path
from typing import Annotated, Any

import msgspec

from streamer.errors import InputError
from streamer.model import VERDICT_SCHEMA, Decision, Location, Representative, Verdict

# Verdicts of a file, 40 MB; of more those on a half of the pages, a quarter.
REMEMBERED_MAX = 1 << 18


NO_PAGE = Location("", 0, 0)


class VerdictLine(msgspec.Struct, frozen=True):
    """What a verdict line says; `verdict` is None on lines that are none."""

    page: Location = NO_PAGE
    url: str = ""
    verdict: Decision | None = None
    representative: Representative | None = None
    basis: str = ""
    similarity: float | None = None
    exact: bool = False
    index: str = ""
    text_bytes: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)] = 0
    text: str = ""
    schema: str = VERDICT_SCHEMA
    carried: dict[str, Any] = {}


class ReadVerdict(Verdict, frozen=True):
    """A verdict as it is read again: its carried fields stay the JSON that they are."""

    carried: msgspec.Raw = msgspec.Raw(b"{}")  # type: ignore[assignment]

    def __post_init__(self) -> None:
        if self.is_duplicate != (self.representative is not None):
            raise ValueError("a duplicate, and nothing else, has a representative")


class VerdictCheck:
    """The check of one file's verdicts, in their order."""

    def __init__(self, path: object) -> None:
        self._path = path
        self._index: str | None = None
        self._seen: dict[int, int] = {}
        self._every = 1

    def check(self, said: Verdict | VerdictLine, number: int) -> None:
        """Raise InputError unless the verdict in the line of this number goes with those before."""
        why = ""
        if said.schema != VERDICT_SCHEMA:
            why = f"its schema is {said.schema}, and {VERDICT_SCHEMA} is read"
        elif said.similarity is not None and not 0 <= said.similarity <= 1:
            why = f"its similarity is {said.similarity:g}, which is not from 0 to 1"
        elif said.page is NO_PAGE:
            why = "it names no page"
        elif self._index is not None and said.index != self._index:
            why = f"it is of the index {said.index}, and those before are of {self._index}"
        elif (said.verdict == Decision.DUPLICATE) != (said.representative is not None):
            why = "a duplicate, and nothing else, has a representative"
        elif (other := said.representative) and other.page == said.page and not other.index:
            why = "it names its own page as its representative"
        elif self._contradicts(said):
            why = "its page has had another verdict before"
        if why:
            raise InputError(
                f"{self._path}:{number}: this verdict cannot be read, as {why}; give a file with "
                "the verdicts of one index and one run, as `replay --verdicts` writes it"
            )
        self._index = said.index

    def _contradicts(self, said: Verdict | VerdictLine) -> bool:
        """Return whether the page has had another verdict, as far as these are remembered."""
        page = hash(said.page)
        if page % self._every:
            return False
        verdict = hash((said.url, said.similarity, said.representative))
        if len(self._seen) > REMEMBERED_MAX:
            self._every *= 2
            self._seen = {at: each for at, each in self._seen.items() if not at % self._every}
        return self._seen.setdefault(page, verdict) != verdict


def check_regular(path: Path) -> None:
    """Raise InputError if there is a pipe or a device, for which a reader would wait."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise InputError(f"{path}: is a pipe or a device; write its lines to a file, and give that")
