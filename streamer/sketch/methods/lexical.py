"""Methods that hash one string of words, chosen by how common they are.

The two moulds of methods that reduce a page to strings: equal strings, duplicate pages.

A string's hash is a key. Equal hashes are verified by comparing the strings, of which the sketch
keeps a digest: 256 bits of a single one, 64 bits of each of several. A page that lacks what a
string is made of has no key for it, and in its sketch the digest of all its words: that equals only
that of a page of the same words, which meets it under the content key.
"""

import math
from collections import Counter
from collections.abc import Sequence
from enum import StrEnum
from typing import Generic, NamedTuple, Self, TypeVar

from pydantic import Field, model_validator

from streamer.sketch import method
from streamer.sketch.collection import CollectionOption, Shares, idf, rarest_first, shares_for
from streamer.sketch.methods.hashes import HashName, digest_of, hash64, seed_of, slots_of
from streamer.text.words import canonical_words


class StringParameters(method.Parameters):
    """The parameters of each method of strings.

    Attributes:
        hash: hash of a string that gives its key.
    """

    hash: HashName = "md5"


S = TypeVar("S", bound=StringParameters)


class SeveralStrings(method.Method[S], Generic[S], measure=method.Measure.SLOTS):
    """A method of as many strings as it has bands, compared one by one by their numbers."""

    def __init__(self, parameters: S, secret: bytes) -> None:
        super().__init__(parameters, secret)
        self._seeds = [seed_of(secret, f"{self.name} {band}") for band in range(self.bands)]

    def strings(self, page: method.PageText) -> Sequence[str]:
        """Return the strings of a page, empty where it lacks something; it may have fewer."""
        raise NotImplementedError

    def sign(self, page: method.PageText) -> method.MethodSignature:
        """Return a key for each string that is there, and a slot for each."""
        strings = self.strings(page) or [""]
        slots = [slots_of(self.digest(string, page))[0] for string in strings]
        return method.MethodSignature(self.keys(strings), method.pack_slots(slots))

    def keys(self, strings: Sequence[str]) -> list[int]:
        """Return the keys of strings, each under the seed of its number."""
        return [
            hash64(string.encode(), seed, self.parameters.hash) if string else method.ABSENT_KEY
            for string, seed in zip(strings, self._seeds, strict=False)  # a short page has fewer
        ]

    def digest(self, string: str, page: method.PageText) -> int:
        """Return 256 bits of a string, or of all words of a page that lacks it."""
        if string:
            return digest_of(string, self.secret, self.name)
        return digest_of(page.content, self.secret, f"{self.name} lacking")


class OneString(SeveralStrings[S], Generic[S], threshold=1.0):
    """A method of a single string, of which the sketch holds 256 bits."""

    def string(self, page: method.PageText) -> str:
        """Return the string of a page; empty if the page lacks what it is made of."""
        raise NotImplementedError

    def strings(self, page: method.PageText) -> Sequence[str]:
        """Return the single string."""
        return [self.string(page)]

    def sign(self, page: method.PageText) -> method.MethodSignature:
        """Return the key of the string, if it is there, and its digest."""
        string = self.string(page)
        slots = slots_of(self.digest(string, page))
        return method.MethodSignature(self.keys([string]), method.pack_slots(slots))


class ExactContent(OneString[StringParameters], name="exact_content"):
    """Hash of all words in order: finds pages of equal text only.

    Use it when only exact copies may be dropped, or as a baseline for other methods. A date or a
    counter on the page is enough to hide a copy.

    Pages with the same words in the same order; the canonical options say what is the same.
    """

    def string(self, page: method.PageText) -> str:
        """Return the words in order."""
        return page.content


class IdfStringParameters(StringParameters):
    """The parameters of `idf_string`.

    Attributes:
        kept_percent: percentage of distinct words kept, rarest first.
        min_words: pages that keep fewer words match equal content only.
    """

    collection: CollectionOption = None
    kept_percent: int = Field(default=70, ge=1, le=100)
    min_words: int = Field(default=5, ge=1)


class IdfString(OneString[IdfStringParameters], name="idf_string"):
    """Hash of the 70 % rarest words by descending IDF (I-Match family).

    Use it for copies that are reordered or differ in frequent words only. It is fast and seldom
    wrong, and works best with a collection counted on your own pages. One new rare word hides a
    copy.

    Pages with the same rarer words, whatever their order and number.

    The frequent words, which a writer changes freely, do not count. This is I-Match with a cut by
    share instead of a lexicon (Chowdhury, Frieder, Grossman and McCabe 2002, Collection statistics
    for fast duplicate document detection).
    """

    def string(self, page: method.PageText) -> str:
        """Return the kept words, rarest first; their number is rounded up."""
        words = rarest_first(page.words, shares_for(self.parameters.collection))
        kept = words[: math.ceil(len(words) * self.parameters.kept_percent / 100)]
        return " ".join(kept) if len(kept) >= self.parameters.min_words else ""


class LexiconParameters(StringParameters):
    """The parameters of `lexicon`.

    Attributes:
        hash: hash of the string that gives the key.
        least_share: words on a smaller share of pages are too rare.
        most_share: words on a greater share of pages are too frequent.
        occurrences: minimum occurrences of a word on the page.
        min_words: pages with fewer words of the dictionary have no key.
    """

    hash: HashName = "sha1"
    collection: CollectionOption = None
    least_share: float = Field(default=0.001, ge=0, le=1)
    most_share: float = Field(default=0.05, ge=0, le=1)
    occurrences: int = Field(default=1, ge=1)
    min_words: int = Field(default=5, ge=1)

    @model_validator(mode="after")
    def _check_room(self) -> Self:
        if self.least_share > self.most_share:
            raise ValueError("least_share is above most_share: no word is between; swap them")
        return self


def lexicon_words(page: method.PageText, parameters: LexiconParameters) -> list[str]:
    """Return the distinct words of a page that the dictionary has, by alphabet."""
    shares = shares_for(parameters.collection)
    least, most = parameters.least_share, parameters.most_share
    often = (word for word, times in Counter(page.words).items() if times >= parameters.occurrences)
    return sorted(word for word in often if least <= shares(word) <= most)


class Lexicon(OneString[LexiconParameters], name="lexicon"):
    """Hash of the page's words of medium frequency, sorted (I-Match).

    Use it when order and frequent words change, and you have a collection with word counts. One
    dictionary word more or less hides a copy; random_lexicon tolerates that.

    Pages with the same words of a dictionary of middle frequency.

    Frequent words are on all pages, rare ones are names and typing errors; between them lie the
    words that distinguish topics and stay in a copy (I-Match: Chowdhury, Frieder, Grossman and
    McCabe 2002; descriptive words: Ilyinsky, Kuzmin, Melkov and Segalovich 2002). A page with few
    of them has no key, since other pages would share these by chance.
    """

    def string(self, page: method.PageText) -> str:
        """Return the page's words of the dictionary by alphabet; empty if they are too few."""
        words = lexicon_words(page, self.parameters)
        return " ".join(words) if len(words) >= self.parameters.min_words else ""


class RandomLexiconParameters(LexiconParameters):
    """The parameters of `random_lexicon`.

    Attributes:
        parts: random parts of the dictionary, besides the whole one.
        dropped: share of the words that each part leaves out.
    """

    parts: int = Field(default=10, ge=1, le=31)
    dropped: float = Field(default=1 / 3, gt=0, lt=1)


class RandomLexicon(SeveralStrings[RandomLexiconParameters], name="random_lexicon", threshold=0.01):
    """The lexicon method with 10 random parts of the dictionary; one match.

    Use it instead of lexicon when copies differ in a few words. Each part is one more key per page,
    and one more chance for pages with few words to collide.

    Pages with the same words of the dictionary or of one of its parts: the threshold is below 1 of
    32, so any equal slot reaches it.

    A change of one word spares all parts that lack it: with k parts without a third of the words,
    (1 - 1/3)**k of the changes hit every part (Kolcz, Chowdhury and Alspector 2004, Improved
    robustness of signature-based near-replica detection via lexicon randomization). Which words a
    part lacks depends on the secret.
    """

    def __init__(self, parameters: RandomLexiconParameters, secret: bytes) -> None:
        super().__init__(parameters, secret)
        parts = range(parameters.parts)
        self._part_seeds = [seed_of(secret, f"{self.name} part {part}") for part in parts]
        self._dropped_below = int(parameters.dropped * 2**64)

    @property
    def bands(self) -> int:
        """Return the number of dictionaries: the whole one and its parts."""
        return 1 + self.parameters.parts

    def strings(self, page: method.PageText) -> list[str]:
        """Return the words of a page by each dictionary, joined; empty where they are too few."""
        words = lexicon_words(page, self.parameters)
        kept = [words, *([w for w in words if self._has(s, w)] for s in self._part_seeds)]
        return [" ".join(one) if len(one) >= self.parameters.min_words else "" for one in kept]

    def _has(self, seed: int, word: str) -> bool:
        """Return whether the part of the dictionary with this seed has a word of it."""
        return hash64(word.encode(), seed) >= self._dropped_below


class OptimumFrequencyParameters(StringParameters):
    """The parameters of `optimum_frequency`.

    Attributes:
        words: number of words in the hash.
        best_idf: natural logarithm: 6 is a word on one page in 403.
    """

    collection: CollectionOption = None
    words: int = Field(default=6, ge=1, le=1000)
    best_idf: float = Field(default=6.0, gt=0, le=40)


class OptimumFrequency(OneString[OptimumFrequencyParameters], name="optimum_frequency"):
    """Hash of the 6 words whose TF*IDF is nearest to the best value.

    Use it for long articles on one topic, whose keywords stay when sentences change. Short pages of
    one kind share their few words, and count as duplicates.

    Pages whose words of best frequency are the same.

    A word's weight is TF * IDF', with TF = 1/2 + 1/2 * times / times of the most frequent word, and
    IDF' = min(IDF / best, best / IDF): 1 at the best IDF and less on both sides of it. Common words
    distinguish pages badly; the rarest are names, numbers and typing errors, which change most.

    After Zelenkov and Segalovich 2007, who hash the six words nearest an optimum of TF and IDF.
    Ours are these two formulas, the best IDF of 6, and that words on all pages are left out.
    """

    def string(self, page: method.PageText) -> str:
        """Return the words of greatest weight by alphabet; empty if the page has fewer."""
        weights = self._weights(page.words, shares_for(self.parameters.collection))
        if len(weights) < self.parameters.words:
            return ""
        best = sorted(weights, key=lambda word: (-weights[word], word))
        return " ".join(sorted(best[: self.parameters.words]))

    def _weights(self, words: list[str], shares: Shares) -> dict[str, float]:
        """Return the weights of the words; those on all pages weigh nothing and are left out."""
        counts, best = Counter(words), self.parameters.best_idf
        most = max(counts.values(), default=1)
        weights: dict[str, float] = {}
        for word, times in counts.items():
            rarity = idf(word, shares)
            if rarity > 0:
                nearness = min(rarity / best, best / rarity)
                weights[word] = (0.5 + 0.5 * times / most) * nearness
        return weights


BEGINNING_BYTES = 512  # of UTF-8, in place of a description


class Keyword(NamedTuple):
    """A word and its weight on the page."""

    word: str
    weight: float


def top_keywords(words: Sequence[str], shares: Shares, count: int) -> list[Keyword]:
    """Return at most `count` words by descending TF*IDF, equal ones by alphabet.

    Words that stand on all pages weigh nothing and are no keywords.
    """
    counts = Counter(words).items()
    weighed = (Keyword(word, times / len(words) * idf(word, shares)) for word, times in counts)
    keywords = [keyword for keyword in weighed if keyword.weight > 0]
    return sorted(keywords, key=lambda keyword: (-keyword.weight, keyword.word))[:count]


class Variant(StrEnum):
    """What is hashed, and whether weights must be near each other.

    DESCRIPTION: the meta description, or the first 512 bytes of a text without one; CON: keywords
    in order of weight; SORT: by alphabet, so that it does not matter which of two words of about
    equal weight comes first.
    """

    DESCRIPTION = "description"
    CON = "con"
    SORT = "sort"
    CON_WEIGHTS = "con_weights"
    SORT_WEIGHTS = "sort_weights"


BY_ALPHABET = frozenset({Variant.SORT, Variant.SORT_WEIGHTS})
WITH_WEIGHTS = frozenset({Variant.CON_WEIGHTS, Variant.SORT_WEIGHTS})


class DigestsParameters(StringParameters):
    """The parameters of `digests`.

    Attributes:
        variant: description, con, sort, con_weights or sort_weights.
        keywords: N: number of keywords in the hash.
        apart: a: maximum difference between the weights of a word.
    """

    variant: Variant = Variant.SORT
    keywords: int = Field(default=10, ge=1, le=method.WEIGHTS_MAX)
    apart: float = Field(default=0.01, gt=0, lt=1)
    collection: CollectionOption = None


class Digests(OneString[DigestsParameters], name="digests", measure=method.Measure.WEIGHTED):
    """Hash of the description or of the 10 keywords, in five variants.

    Use sort for long pages and one cheap key, con_weights when false matches are expensive. Use
    description only if sites write one for each page: many use one for all.

    Pages with the same description, or the same keywords.

    Keywords are the N words of greatest TF*IDF; TF is the share of the page's words, so that pages
    of different length compare. Weights are near each other if those of each word, w and v, have
    (w - v)**2 / (w**2 + v**2) < a, which is a similarity above 1 - a.
    """

    def __init__(self, parameters: DigestsParameters, secret: bytes) -> None:
        super().__init__(parameters, secret)
        self._seeds = [seed_of(secret, self.name)]

    @property
    def threshold(self) -> float:
        """Return 1 - a: weights that are near each other are at least so similar."""
        return 1 - self.parameters.apart

    def string(self, page: method.PageText) -> str:
        """Return what represents a page without keywords: its description, in that variant."""
        return self.description(page) if self.parameters.variant is Variant.DESCRIPTION else ""

    def sign(self, page: method.PageText) -> method.MethodSignature:
        """Return the key of the description or keywords, and their digest with the weights."""
        keywords = self.keywords(page)
        string = " ".join(keyword.word for keyword in keywords) or self.string(page)
        weighted = self.parameters.variant in WITH_WEIGHTS
        weights = [keyword.weight for keyword in keywords] if weighted else []
        digest = self.digest(string, page) % 2**128
        return method.MethodSignature(self.keys([string]), method.pack_weighted(digest, weights))

    def description(self, page: method.PageText) -> str:
        """Return the words of the description, or of the beginning of a text without one."""
        words = canonical_words(page.description, page.canonical)
        if not words:
            beginning = page.text.encode(errors="surrogatepass")[:BEGINNING_BYTES]
            words = canonical_words(beginning.decode(errors="ignore"), page.canonical)
        return " ".join(words)

    def keywords(self, page: method.PageText) -> list[Keyword]:
        """Return the keywords of a page in the variant's order; none if it has fewer than N."""
        if self.parameters.variant is Variant.DESCRIPTION:
            return []
        wanted = self.parameters.keywords
        top = top_keywords(page.words, shares_for(self.parameters.collection), wanted)
        if len(top) < wanted:
            return []
        return sorted(top) if self.parameters.variant in BY_ALPHABET else top
