"""The index that the console may look into: its facts, and why a page has its verdict.

The folder is opened for reading, and its writer goes on meanwhile: what is shown is as of the
newest flush. An explanation opens the index itself and reads all its rows, so one is made at a
time, and it ends when its time is over. What checks have opened answers until the keys of a newer
flush have been read, in a thread: that takes seconds for a large index, and a check milliseconds.
Since RocksDB is opened with the interpreter's lock held, checks would wait for each of a worker's
flushes: a newer one is opened after thirty times as long as the last opening took.
"""

import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from streamer.analysis.documents import Body, find_texts
from streamer.console.fold import moment
from streamer.console.view import QueryTooLong
from streamer.errors import InputError
from streamer.model import SignedText, Verdict
from streamer.pages.files import Source
from streamer.run import explanation
from streamer.run.index_folder import folders_of, store_folder
from streamer.run.page_check import PageChecker
from streamer.run.reading import PageReader
from streamer.sketch.scheme import canonical_options
from streamer.sketch.settings import MAIN_TEXT, SignatureSettings
from streamer.stored import witness
from streamer.text.visible import TextPart

TEXT_CHARACTERS_MAX = 200_000  # of a page that are shown
_PAUSE = 30  # times an opening's time, until the next one
_SPACE = re.compile(r"\s+")


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except FileNotFoundError:  # the writer has just removed it
        return 0


def _file_name(path: str) -> str:
    return path.rpartition("/")[2]


def collapse_space(text: str) -> str:
    """Return a text with one space, or one end of a line, for each piece of white space."""
    return _SPACE.sub(lambda found: "\n" if "\n" in found[0] else " ", text)


class IndexFacts(msgspec.Struct, frozen=True):
    """What an index says of itself: settings, and what it keeps as of its newest flush."""

    folder: str
    kept_pages: int
    flushes: int
    method: str
    text: str
    threshold: float
    exact: bool
    fingerprint: str
    disk_bytes: int
    flushed: str


class ShownText(msgspec.Struct, frozen=True):
    """A part of a page's visible text.

    Attributes:
        counts: whether it is compared.
        repeats: on how many other pages of its site it was.
        dropped: whether it is not compared because of what the site repeats.
    """

    text: str
    counts: bool
    repeats: int = 0
    dropped: bool = False

    @property
    def note(self) -> str:
        """Return what is to be said of it; "" for nothing."""
        return explanation.describe_repeats(self.repeats, dropped=self.dropped)


class Explanation(msgspec.Struct, frozen=True):
    """Why a page has its verdict, as the index has it now.

    `similarity` and `margin` (how far it is from the threshold) are those of the nearest kept page;
    `shared_keys` counts the content key, too.
    """

    why: str
    threshold: float
    nearest_url: str | None
    nearest_place: str | None
    similarity: float | None
    margin: float | None
    shared_keys: int | None
    keys: int | None
    text: list[ShownText]


@dataclass(frozen=True)
class PageTexts:
    """The page files that texts are taken from; there may be none."""

    reader: PageReader = field(default_factory=PageReader)
    sources: Sequence[Source] = ()

    def find(
        self,
        names: Sequence[str],
        check: Callable[[int], None],
        urls: Mapping[str, str] | None = None,
    ) -> dict[str, Body]:
        """Return the pages with these URLs or places, as far as the files have them.

        `urls` has the URL that the page at a place must have.

        The file of a place is looked into first; all before the last page is read.
        """
        files = {_file_name(name.rpartition(":")[0]) for name in names}
        likely = [source for source in self.sources if _file_name(source.name) in files]
        found = find_texts(self.reader, likely, names, check, urls) if likely else {}
        if len(found) < len(set(names)) and len(likely) < len(self.sources):
            found = find_texts(self.reader, self.sources, names, check, urls) | found
        return found

    def show(self, place: str, verdict: Verdict, check: Callable[[int], None]) -> list[ShownText]:
        """Return the text of a page as its verdict compared it; nothing if no file has it."""
        body = self.find([place], check, {place: verdict.url}).get(place)
        if body is None:
            return []
        is_main = verdict.text == SignedText.MAIN
        document = body.document(canonical_options(MAIN_TEXT if is_main else ()))
        return show_parts(document.parts or [TextPart(document.page.text, counts=True)])


def show_parts(parts: Sequence[TextPart]) -> list[ShownText]:
    """Return the parts of a text as they are shown: up to a bound, with little white space."""
    shown, left = list[ShownText](), TEXT_CHARACTERS_MAX
    for part in parts:
        text = collapse_space(part.text if shown else part.text.lstrip())
        shown.append(ShownText(text[:left], *part[1:]))
        left -= len(text)
        if left <= 0:
            break
    return shown


def check_until(seconds: float, stopped: threading.Event | None) -> Callable[[int], None]:
    """Return what raises QueryTooLong once so many seconds are over, or the event is set."""
    deadline = time.monotonic() + seconds

    def check(_amount: int) -> None:
        if time.monotonic() > deadline or (stopped and stopped.is_set()):
            raise QueryTooLong

    return check


_Checkers = Sequence[PageChecker]  # of one index, or of each partition


@dataclass(eq=False)
class IndexReader:
    """An index that is open for reading, as by `PageChecker`; for any thread.

    `texts` has its pages.

    Raises:
        StreamerError: as `KeptIndex`.
    """

    _folder: Path
    key_file: Path | None = None
    topic: str = "pages"
    also: tuple[str, ...] = ()
    texts: PageTexts = field(default_factory=PageTexts)
    shows_text: bool = True

    def __post_init__(self) -> None:
        self._explaining, self._checking = threading.Lock(), threading.Lock()
        self._facts: IndexFacts | None = None
        self._checkers: tuple[int, _Checkers] | None = None  # by the flushes that they know
        self._next: Future[tuple[int, _Checkers]] | None = None  # those that are being opened
        self._opens_after = 0.0  # of the monotonic clock
        self._opener = ThreadPoolExecutor(1)
        self.facts()

    @property
    def flushes(self) -> int:
        """Return the sum of the flushes of its folders: another one, another state."""
        return sum(witness.read_witness(folder) or 0 for folder in folders_of(self._folder))

    def facts(self) -> IndexFacts:
        """Return the facts as of the newest flush."""
        flushes = self.flushes
        if self._facts is None or self._facts.flushes != flushes:
            rows, parts = 0, folders_of(self._folder)
            for folder in parts:
                with closing(self._open(folder)) as kept:
                    signature, settings, rows = kept.signature, kept.settings, rows + kept.meta.rows
            files = (file for part in parts for file in store_folder(part).glob("*"))
            flushed = max((part / witness.NAME).stat().st_mtime for part in parts)
            self._facts = IndexFacts(
                self._folder.name, rows, flushes, signature.method,
                "main" if signature.takes_main_text else "visible", settings.threshold,
                settings.exact, kept.fingerprint, sum(map(_size, files)), moment(flushed),
            )  # fmt: skip
        return self._facts

    def settings_for(self, url: str) -> SignatureSettings:
        """Return how a page with this URL is signed, and from where on it is a duplicate.

        Raises:
            StreamerError: the index cannot be read.
        """
        with closing(self._open()) as kept:
            return explanation.with_bounds(kept.signature_for(url), kept.settings.for_url(url))

    def _open(self, folder: Path | None = None) -> explanation.KeptIndex:
        folder = folder or folders_of(self._folder)[0]
        return explanation.KeptIndex(folder, self.key_file, self.topic)

    def check(self, message: bytes, *, waits: bool = True) -> Verdict:
        """Return the verdict that the page in a JSON message would get as of a recent flush.

        That is the newest one, or one before it while that is not opened yet. Of the indexes of
        partitions it is that with the most similar page.

        Raises:
            InvalidPage: it cannot be judged; `code` says why.
            QueryTooLong: it would have to wait for something, and may not (`waits`).
            StreamerError: as `PageChecker`.
        """
        if not self._checking.acquire(blocking=waits):
            raise QueryTooLong
        try:
            if self._checkers is None and not waits:
                raise QueryTooLong
            said = (each.check(message) for each in self._newest_checkers())
            return max(said, key=lambda each: each.similarity or -1)
        finally:
            self._checking.release()

    def _newest_checkers(self) -> _Checkers:
        is_time = time.monotonic() >= self._opens_after
        if self._next is None and (
            self._checkers is None or (is_time and self.flushes != self._checkers[0])
        ):
            self._next = self._opener.submit(self._open_checkers)
        if self._next is not None and (self._checkers is None or self._next.done()):
            opening, self._next = self._next, None
            self._close_checkers()  # also where the newer one cannot be opened
            self._checkers = opening.result()
        assert self._checkers is not None, "else it was opened"
        return self._checkers[1]

    def _open_checkers(self) -> tuple[int, _Checkers]:
        flushes, began, page_bytes_max = (
            self.flushes,
            time.monotonic(),
            self.texts.reader.page_bytes_max,
        )
        checkers = [
            PageChecker(each, self.key_file, self.topic, self.also, page_bytes_max)
            for each in folders_of(self._folder)
        ]
        ended = time.monotonic()
        self._opens_after = ended + _PAUSE * (ended - began)
        return flushes, checkers

    def _close_checkers(self) -> None:
        for each in self._checkers[1] if self._checkers else ():
            each.close()
        self._checkers = None

    def close(self) -> None:
        """Close what checks have opened."""
        with self._checking:
            self._opener.shutdown()
            if self._next is not None and self._next.exception() is None:
                for each in self._next.result()[1]:
                    each.close()
            self._next = None
            self._close_checkers()

    def explain(
        self, verdict: Verdict, seconds: float, stopped: threading.Event | None = None
    ) -> Explanation:
        """Return why a page has its verdict.

        Raises:
            QueryTooLong: that takes longer than it may, or the event `stopped` is set.
            StreamerError: the index cannot be read, or is another one than that of the verdict.
        """
        check = check_until(seconds, stopped)
        if not self._explaining.acquire(timeout=seconds):
            raise QueryTooLong
        try:
            named = {each.name: each for each in folders_of(self._folder)}
            with closing(self._open(named.get(f"shard-{verdict.page.partition}"))) as kept:
                return self._explain_open(kept, verdict, check)
        finally:
            self._explaining.release()

    def _explain_open(
        self, kept: explanation.KeptIndex, verdict: Verdict, check: Callable[[int], None]
    ) -> Explanation:
        own = explanation.place_name(verdict.page)
        kept.check_verdict(own, verdict.index)
        texts = {} if kept.signature.scope else self.texts.find([own], check)
        if text := texts.get(own):
            body, url = bytes(text.utf8), verdict.url
            found = kept.explain_text(body, text.flags, verdict.page, check, url=url)
            shown = show_parts(kept.text_parts(body, text.flags, url)) if self.shows_text else []
            return _explain_by_index(found, shown)
        if (other := verdict.representative) is not None:
            main, similarity = verdict.text != SignedText.VISIBLE, verdict.similarity
            threshold = kept.settings.for_url(verdict.url, main=main).threshold
            margin = None if similarity is None else round(similarity - threshold, 4)
            return Explanation(
                explanation.why_duplicate(verdict.basis),
                threshold,
                other.url,
                explanation.place_name(other.page),
                similarity,
                margin,
                None,
                None,
                [],
            )
        try:
            page = kept.find(own, check)
        except InputError as error:
            raise InputError(
                f"The index no longer keeps the page at {own}: it has expired, or was forgotten or "
                "replaced; or the index is another one."
            ) from error
        return _explain_by_index(kept.explain_kept(page, check), [])


def _explain_by_index(found: explanation.Explained, text: list[ShownText]) -> Explanation:
    nearest, threshold = found.nearest, found.settings.threshold
    if nearest is None:
        return Explanation(found.why, threshold, None, None, None, None, None, None, text)
    return Explanation(
        found.why, threshold, nearest.page.url, explanation.place_name(nearest.page.place),
        nearest.similarity, round(nearest.similarity - threshold, 4), nearest.shared_keys,
        found.keys + 1, text,
    )  # fmt: skip
