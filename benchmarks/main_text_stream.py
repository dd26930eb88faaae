"""What main text is measured by: the words that are taken, and a stream that finds articles."""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from benchmarks.labelled_sets import Score
from streamer.text.main_text import WORDS_MIN, MainText, html_to_main_text
from streamer.text.slices import Slices
from streamer.text.visible import HTML, scratch_bytes, visible_text
from streamer.text.words import canonical_words

WIDTH = 5

Words = Callable[[str, str], list[str]]  # of a page: its fold's name, and its HTML


@dataclass
class Reader:
    """The text that a model takes of pages; `is_main` says whether the last one had main text."""

    main: MainText
    is_main: bool = False

    def text(self, page: str) -> str:
        """Return the main text, all visible text if there is none."""
        body = page.encode("utf-8", "replace")
        text = np.empty(scratch_bytes(len(body)), np.uint8)
        source = Slices.joined([body]).data
        end, self.is_main = html_to_main_text(source, 0, len(body), text, self.main)
        return text[:end].tobytes().decode("utf-8", "replace")


def token_f1(one: Sequence[str], other: Sequence[str]) -> float:
    """Return the F1 of two bags of words."""
    common = (Counter(one) & Counter(other)).total()
    return 2 * common / max(1, len(one) + len(other))


def visible_words(page: str) -> list[str]:
    """Return the words of all visible text of a page."""
    return canonical_words(visible_text(page.encode("utf-8", "replace"), HTML))


def words_or_visible(text: str, page: str) -> list[str]:
    """Return the words of a text that was taken of a page; of the whole page if they are few."""
    words = canonical_words(text)
    return words if len(words) >= WORDS_MIN else visible_words(page)


class Outcome(Score):
    """What a stream of templates came to; `elsewhere` are pages kept before on other sites only."""

    elsewhere: int = 0
    found_elsewhere: int = 0

    def shown(self) -> tuple[str, str, str, str]:
        """Return the shares of false and of found ones, those on another site, and F1."""
        elsewhere = f"{self.found_elsewhere:,} of {self.elsewhere:,}"
        false = self.false / max(1, self.new)
        return f"{false:.2%}", f"{self.recall:.3f}", elsewhere, f"{self.f1:.3f}"


@dataclass
class Stream:
    """Pages in order, each a duplicate of the most similar one kept before, or kept itself."""

    threshold: float
    outcome: Outcome = field(default_factory=Outcome)
    _kept: dict[int, tuple[int, str]] = field(default_factory=dict)
    _pages_of: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    _sites: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    def judge(
        self, article: str, template: str, words: Sequence[str], threshold: float = 0.0
    ) -> None:
        """Judge the next page, from `threshold` on if that is higher than the stream's."""
        shingles = {
            hash(tuple(words[i : i + WIDTH])) for i in range(max(1, len(words) - WIDTH + 1))
        }
        shared = Counter(page for each in shingles for page in self._pages_of.get(each, ()))
        near = [
            (common / (len(shingles) + self._kept[page][0] - common), -page)
            for page, common in shared.most_common(20)
        ]
        similarity, page = max(near, default=(0.0, 0))
        is_duplicate = similarity >= max(threshold, self.threshold)
        self._count(article, template, self._kept[-page][1] if is_duplicate else None)
        if not is_duplicate:
            number = len(self._kept)
            self._kept[number] = len(shingles), article
            self._sites[article].add(template)
            for each in shingles:
                self._pages_of[each].append(number)

    def _count(self, article: str, template: str, found: str | None) -> None:
        sites, out = self._sites[article], self.outcome
        elsewhere, is_right = bool(sites) and template not in sites, found == article
        out.count(is_duplicate=found is not None, found=is_right, was_seen=bool(sites))
        out.elsewhere += elsewhere
        out.found_elsewhere += elsewhere and is_right
