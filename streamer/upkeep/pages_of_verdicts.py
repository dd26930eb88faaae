"""Find the kept pages of a crawl or of a source in verdict files, and who depends on them.

An index keeps no carried field, and rows do not name files. The verdicts have both. What is found
is named by page refs, in a folder and in a log alike.
"""

# Each page to forget takes 15 bytes in the log, and 30 in the states until the sweep.

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from streamer.errors import InputError, SettingsError
from streamer.index.forgetting import REF, Terms
from streamer.index.messages import Forget, Term
from streamer.model import SOURCES_MAX, Location, Verdict, page_ref
from streamer.run.catalogue import Catalogue
from streamer.run.outputs import complete_output
from streamer.run.verdict_files import open_verdicts, verdicts_in

RefOf = Callable[[Location], int]


def refs_of_files(catalogue: Catalogue) -> RefOf:
    """Return a function from the place of a page to its ref in an index of files.

    It raises InputError for a source that the index has not read.
    """
    numbers = {(each.name, each.partition): i for i, each in enumerate(catalogue.entries)}

    def ref_of(place: Location) -> int:
        number = numbers.get((place.topic, place.partition))
        if number is None:
            raise InputError(
                f"The index has read no source {place.topic}, of which the verdicts have pages. "
                "Give the verdicts of this index."
            )
        return page_ref(number, place.offset)

    return ref_of


def refs_of_topic(topic: str) -> RefOf:
    """Return such a function for an index of the pages in a topic."""

    def ref_of(place: Location) -> int:
        if place.topic != topic or place.partition >= SOURCES_MAX:
            raise InputError(
                f"The verdicts are on pages of {place.topic}, and those of the index are in the "
                f"topic {topic}. Give the verdicts of this index, or the right --input-topic."
            )
        return page_ref(place.partition, place.offset)

    return ref_of


@dataclass(frozen=True)
class WantedPages:
    """What is to be forgotten: a page is, if any of this names it.

    Attributes:
        carried: pairs of a carried field and its value as text.
        sources: files or topics, as verdicts name them in `page.topic`.
        terms: URLs and hosts.
    """

    carried: Sequence[tuple[str, str]] = ()
    sources: Sequence[str] = ()
    terms: Sequence[Term] = ()

    def by_crawl(self, verdict: Verdict) -> list[str]:
        """Return which of the carried fields and sources name a page, in words."""
        fields, source = verdict.carried, verdict.page.topic
        found = [
            f"carried {field}={value}"
            for field, value in self.carried
            if field in fields and _text(fields[field]) == value
        ]
        return [*found, f"source {source}"] if source in self.sources else found

    @property
    def in_words(self) -> list[str]:
        """Return all carried fields and sources, as `by_crawl` does."""
        carried = [f"carried {field}={value}" for field, value in self.carried]
        return [*carried, *(f"source {each}" for each in self.sources)]


def parse_carried(given: Iterable[str]) -> list[tuple[str, str]]:
    """Return FIELD=VALUE texts as pairs.

    Raises:
        SettingsError: one has no field, or no value.
    """
    pairs = [each.partition("=") for each in given]
    for field, _, value in pairs:
        if not (field and value):
            raise SettingsError("--carried needs a field and its value, as crawl_id=2026-11.")
    return [(field, value) for field, _, value in pairs]


def _text(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


class KeptSelection:
    """The kept pages in some verdict files that `wanted` names.

    Attributes:
        terms: page refs of those that a crawl or source names.

    Raises:
        InputError: a file cannot be read, or the verdicts are not of the index `own`, or of one
            that keeps versions of URLs; or none is on a page of a
            carried field or source.
    """

    def __init__(self, files: Sequence[Path], wanted: WantedPages, ref_of: RefOf, own: str) -> None:
        self._files, self._wanted, self._ref_of, self._own = files, wanted, ref_of, own
        self._by_name = Terms.of(Forget([*wanted.terms]))
        self._gone: set[int] = set()
        by_crawl: list[Term] = []
        seen = set[str]()
        for verdict in self._verdicts():
            self._check_index(verdict)
            seen.update(wanted.by_crawl(verdict))
            if verdict.is_duplicate or not self._names(verdict):
                continue
            ref = ref_of(verdict.page)
            if wanted.by_crawl(verdict) and ref not in self._gone:
                by_crawl.append((REF, ref))
            self._gone.add(ref)
        if missing := [each for each in wanted.in_words if each not in seen]:
            raise InputError(
                f"The verdicts have no page of {missing[0]}, so nothing is forgotten. Give it as "
                "they have it, and all files of verdicts of the index."
            )
        self.terms: Sequence[Term] = by_crawl

    def write_dependents(self, out: str) -> int:
        """Write the verdicts on duplicates that stay and lose their representative.

        Return how many they are.
        """
        count, encode = 0, msgspec.json.Encoder().encode
        with complete_output(out) as file:
            for verdict in self._verdicts():
                other = verdict.representative
                if other is None or other.index is not msgspec.UNSET or self._names(verdict):
                    continue
                if self._ref_of(other.page) in self._gone:
                    file.write(encode(verdict) + b"\n")
                    count += 1
        return count

    def _verdicts(self) -> Iterator[Verdict]:
        for path in self._files:
            with open_verdicts(path) as file:
                yield from verdicts_in(file, path)

    def _names(self, verdict: Verdict) -> bool:
        by_name = len(self._by_name) and self._by_name.name(verdict.url.encode(), 0, -1)
        return bool(by_name or self._wanted.by_crawl(verdict))

    def _check_index(self, verdict: Verdict) -> None:
        if verdict.index != self._own:
            raise InputError(
                f"A verdict is of the index {verdict.index}, and pages are to be forgotten in "
                f"{self._own}. Give the verdicts of this one."
            )
        if verdict.change is not msgspec.UNSET and self._wanted.by_crawl(verdict):
            raise InputError(
                "The index keeps a version of each URL (--track-changes), which belongs to no "
                "crawl or source, and would stay. Forget by --url or --host."
            )
