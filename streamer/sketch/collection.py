"""Document frequencies of a collection: counted once, kept in a file, named by a fingerprint.

A method that weighs words by a collection gives other signatures under another one. So the
fingerprint covers all that the file says, the canonical options among it, and represents the
collection wherever a method's parameters are written down or compared. Two pages compare only under
the same.
"""

import hashlib
import math
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Annotated, Any

import msgspec
from pydantic import BaseModel, BeforeValidator, Field, InstanceOf, PlainSerializer

from streamer.errors import SettingsError
from streamer.given_file import read_given
from streamer.text.canonical import UNSPACED, class_of
from streamer.text.words import CanonicalOptions

LETTERS_MAX = 17  # one page in 65,536
UNSPACED_LETTERS = 4  # a Han or Kana character is a syllable or a word
_REMEMBERED = 1 << 16


# Returns of a word in canonical form on what share of all pages it occurs: above 0, at most 1.
Shares = Callable[[str], float]


@lru_cache(_REMEMBERED)
def share_by_length(word: str) -> float:
    """Return 2**(1 - n) for a word of n letters, 17 at most: the longer a word, the rarer.

    That (Zipf's law of abbreviation) is coarse, but it needs no data, fits any language with an
    alphabet and is the same everywhere, whereas a table counted from one corpus would take the
    words of all other languages as equally rare.
    """
    letters = sum(
        UNSPACED_LETTERS if class_of(character) == UNSPACED else 1
        for character in word
        if unicodedata.category(character)[0] != "M"  # canonical words are decomposed
    )
    return 0.5 ** (min(max(letters, 1), LETTERS_MAX) - 1)


def idf(word: str, shares: Shares) -> float:
    """Return the inverse document frequency of a word: -ln of its share of pages."""
    return -math.log(shares(word)) or 0.0  # no -0.0 for a word on all pages


def rarest_first(words: Sequence[str], shares: Shares) -> list[str]:
    """Return the distinct words by descending IDF, equal ones by alphabet."""
    return sorted(set(words), key=lambda word: (shares(word), word))


FORMAT = "streamer.collection/1"


class CollectionFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a collection's file holds, as JSON; `frequencies` counts the pages with each word."""

    format: str
    documents: int
    canonical: dict[str, Any]
    frequencies: dict[str, int]


class Collection:
    """The document frequencies of a collection of pages.

    Attributes:
        documents: how many pages there are; words: how many words are known.
        canonical: the options under which the words were taken.
    """

    def __init__(
        self, documents: int, frequencies: dict[str, int], canonical: CanonicalOptions
    ) -> None:
        self.documents = documents
        self.canonical = canonical
        self._frequencies = frequencies

    @property
    def words(self) -> int:
        """Return how many words are known."""
        return len(self._frequencies)

    @cached_property
    def fingerprint(self) -> str:
        """Return 16 hexadecimal digits over the file's content; the order of counting is none."""
        return hashlib.blake2b(self.to_bytes(), digest_size=8).hexdigest()

    def share(self, word: str) -> float:
        """Return (pages with the word + 1) / (pages + 1): an unseen word is on the next."""
        return (self._frequencies.get(word, 0) + 1) / (self.documents + 1)

    def to_bytes(self) -> bytes:
        """Return the collection as the content of its file; equal ones give equal bytes."""
        canonical = self.canonical.model_dump(mode="json")
        if canonical["text"] == "visible":
            del canonical["text"]  # collections are older than this option; theirs has no such word
        frequencies = dict(sorted(self._frequencies.items()))
        file = CollectionFile(FORMAT, self.documents, canonical, frequencies)
        return msgspec.json.encode(file) + b"\n"


def count_words(
    pages: Iterable[Iterable[str]], canonical: CanonicalOptions, min_pages: int = 1
) -> Collection:
    """Count on how many pages each word is; words on fewer than `min_pages` are left out.

    Pages without words do not count.
    """
    counts: Counter[str] = Counter()
    documents = 0
    for words in pages:
        distinct = set(words)
        documents += bool(distinct)
        counts.update(distinct)
    kept = {word: count for word, count in counts.items() if count >= min_pages}
    return Collection(documents, kept, canonical)


def load_collection(path: Path) -> Collection:
    """Return the collection in a file that `streamer collection build` wrote.

    Raises:
        SettingsError: the file cannot be read or holds something else.
    """
    try:
        file = msgspec.json.decode(read_given(path), type=CollectionFile)
        if file.format != FORMAT:
            raise ValueError(f"its format is {file.format!r}, not {FORMAT!r}")  # noqa: TRY301 - all that may be wrong gives one message
        counts = file.frequencies.values()
        if file.documents < 1 or not all(0 < n <= file.documents for n in counts):
            raise ValueError("it counts a word on more pages than there are, or on none")  # noqa: TRY301 - as above
        canonical = CanonicalOptions.model_validate_json(msgspec.json.encode(file.canonical))
    except (OSError, ValueError) as error:  # msgspec's and pydantic's errors are ValueErrors
        raise SettingsError(
            f"Cannot use the collection {path}: {error}."
            " `streamer collection build PAGES --out FILE` makes such a file."
        ) from error
    return Collection(file.documents, file.frequencies, canonical)


def shares_for(collection: Collection | None) -> Shares:
    """Return how common words are: by a collection, or by their length without one."""
    return share_by_length if collection is None else collection.share


def check_collections(parameters: BaseModel, canonical: CanonicalOptions) -> None:
    """Check before the first page that a method's collection has the canonical form of the pages.

    Raises:
        SettingsError: it was counted under other canonical options.
    """
    for _, value in parameters:
        if isinstance(value, Collection) and value.canonical != canonical:
            raise SettingsError(
                "The collection was counted under other canonical options than this run's."
                " Build it again with the same ones, or give the ones it was built with."
            )


def _load(value: object) -> object:
    return load_collection(Path(value)) if isinstance(value, str | Path) else value


# As a parameter of a method: given as a path, written down as the fingerprint.
_Given = Annotated[
    InstanceOf[Collection],
    BeforeValidator(_load),
    PlainSerializer(lambda collection: collection.fingerprint, return_type=str),
]
CollectionOption = Annotated[
    _Given | None, Field(description="file with document frequencies; without one, by word length")
]
