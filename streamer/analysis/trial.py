"""One method over one dataset: a pass through the replay, and how right its verdicts are.

The pass is that of `streamer replay --method`, with a temporary index and one signing thread, so
verdicts are the same. The key is fixed by a seed: the same seed, the same verdicts. Speed is pages
a second of CPU time of the process, so that what else runs on the machine counts little.

On the command line NAME is a method or a preset. NAME+ACCEPT takes the keys of one and the decision
of the other, as Henzinger combined them. Either may be followed by parameters:
`digests:variant=con:keywords=8`; `minhash:exact` is minhash with --exact.

A dataset is page files, and labels next to them.

    pages.jsonl and truth.tsv        the sample crawl: how each page was made
    pages.jsonl and truth_pairs.tsv  pairs of pages with a label: url_a, url_b, label
    any other JSON-lines page files  without labels

True duplicates are in all of them those of exact resemblance, by the plain reference; labels are
counted in addition.

A partition is a label for each page. The true one is that of a detector without error: each page
goes to the kept page of the greatest exact resemblance, the earliest of several, or is kept.
"""

import csv
import hashlib
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import comb
from pathlib import Path, PurePath
from tempfile import TemporaryDirectory
from typing import NamedTuple

import msgspec
import numpy as np

from streamer.analysis.documents import page_texts
from streamer.analysis.evaluation import ConfusionCounts, ratio_text
from streamer.analysis.sample import reference
from streamer.analysis.sample.crawl import PAGES_FILE, TRUTH_FILE, read_kinds
from streamer.errors import InputError, SettingsError
from streamer.index.messages import IndexSettings
from streamer.pages.files import Source
from streamer.pages.remote import is_remote, name_of
from streamer.run.catalogue import Catalogue
from streamer.run.engine import Engine, Signing
from streamer.run.index_folder import IndexFolder
from streamer.run.judge import replay_judge
from streamer.run.outputs import OutputFile
from streamer.run.reading import DEFAULT_READER, FileInput, PageReader
from streamer.run.replay import Replay
from streamer.run.stages import OneAThread
from streamer.run.warm import warm_kernels
from streamer.sketch.collection import count_words
from streamer.sketch.method_signer import make_signer
from streamer.sketch.scheme import ACCEPT, PRESETS, check_exact, choose, method_class, methods
from streamer.sketch.settings import SECRET_BYTES, SignatureSettings
from streamer.sketch.signer import PageSigner, Signatures
from streamer.text.visible import Buffer
from streamer.text.words import CanonicalOptions

PAIRS_FILE = "truth_pairs.tsv"


@dataclass(frozen=True)
class Dataset:
    """Pages in the order of their files, with what is known about them.

    Attributes:
        reader: how its files are read.
        kinds: how a page was made, by its ordinal in the first file.
        labelled: pairs of pages that have a label, each with the lower index first.
    """

    name: str
    sources: Sequence[Source]
    reader: PageReader
    pages: reference.ReferencePages
    kinds: dict[int, str] = field(default_factory=dict)
    labelled: frozenset[tuple[int, int]] = frozenset()


def open_dataset(given: Path | str, reader: PageReader = DEFAULT_READER) -> Dataset:
    """Return the dataset in a folder or file, or at a URL, where it has no labels.

    Raises:
        StreamerError: it holds no pages, a file of it cannot be read, or as `PageReader.read`.
    """
    if is_remote(str(given)):
        sources, name = reader.open([str(given)]), name_of(str(given))
        return Dataset(PurePath(name).stem, sources, reader, _pages_of(name, sources, reader))
    path = Path(given)
    folder = path if path.is_dir() else path.parent
    sources = reader.open([str(path)])
    pages = _pages_of(str(path), sources, reader)
    truth, pairs = folder / TRUTH_FILE, folder / PAIRS_FILE
    return Dataset(
        path.stem if path.is_file() and path.name != PAGES_FILE else folder.resolve().name,
        sources,
        reader,
        pages,
        read_kinds(truth) if truth.is_file() else {},
        frozenset(_read_labels(pairs, pages)) if pairs.is_file() else frozenset(),
    )


def _pages_of(name: str, sources: Sequence[Source], reader: PageReader) -> reference.ReferencePages:
    pages = reference.pages_of(sources, reader)
    if not len(pages):
        raise InputError(f"{name}: holds no page that can be judged; give page files")
    return pages


def write_collection(dataset: Dataset, folder: Path) -> Path:
    """Write the document frequencies of a dataset's own pages into `folder`; return their file."""
    options = CanonicalOptions()
    texts = page_texts(dataset.reader, dataset.sources, options)
    path = folder / f"{dataset.name}.words.json"
    path.write_bytes(count_words((page.words for page in texts), options).to_bytes())
    return path


def _read_labels(path: Path, pages: reference.ReferencePages) -> Iterator[tuple[int, int]]:
    """Yield the pairs of a file that have a label and whose pages are both known."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file, dialect="excel-tab"):
                one, other = (pages.find(None, row[name]) for name in ("url_a", "url_b"))
                if row["label"] and one is not None and other is not None:
                    yield min(one, other), max(one, other)
    except (OSError, KeyError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(
            f"{path}: not a file of labelled pairs ({error}); its columns are url_a, url_b, label"
        ) from error


Pair = tuple[int, int]


def true_pairs(pages: reference.ReferencePages, threshold: float) -> frozenset[Pair]:
    """Return all pairs of exact resemblance >= threshold, the earlier page first."""
    index = reference.KeptSoFar(pages.exact, threshold, reference.MIN_SHINGLES)
    found: list[Pair] = []
    for page in range(len(pages)):
        found += ((other, page) for other, _ in index.matches(page))
        index.keep(page)
    return frozenset(found)


def true_labels(pages: reference.ReferencePages, threshold: float) -> list[int]:
    """Return each page's representative, itself where it is kept, by a detector without error."""
    index = reference.KeptSoFar(pages.exact, threshold, reference.MIN_SHINGLES)
    labels: list[int] = []
    for page in range(len(pages)):
        best = min(index.matches(page), key=lambda one: (-one[1], one[0]), default=None)
        if best is None:
            index.keep(page)
        labels.append(page if best is None else best[0])
    return labels


def pair_outcomes(labels: Sequence[int], true: Collection[Pair]) -> ConfusionCounts:
    """Count the pairs of pages under one label against the true pairs."""
    said = _pairs(Counter(labels).values())
    right = count_shared_pairs(labels, true)
    wrong, missed = said - right, len(true) - right
    return ConfusionCounts(right, wrong, missed, comb(len(labels), 2) - right - wrong - missed)


def count_shared_pairs(labels: Sequence[int], pairs: Iterable[Pair]) -> int:
    """Return how many of the pairs are under one label."""
    return sum(labels[one] == labels[other] for one, other in pairs)


def adjusted_rand_index(one: Sequence[int], other: Sequence[int]) -> float:
    """Return the adjusted Rand index of two partitions: 1 for equal ones, about 0 for chance.

    Source: Hubert and Arabie 1985, Comparing partitions, equation 5. Two partitions that both put
    every page, or no two pages, together are equal.
    """
    both = _pairs(Counter(zip(one, other, strict=True)).values())
    first, second = _pairs(Counter(one).values()), _pairs(Counter(other).values())
    expected = first * second / max(1, comb(len(one), 2))
    greatest = (first + second) / 2
    return 1.0 if greatest == expected else (both - expected) / (greatest - expected)


def _pairs(sizes: Iterable[int]) -> int:
    return sum(comb(size, 2) for size in sizes)


# ---- methods -------------------------------------------------------------------------------------


ALL = "all"
COMBINATIONS = ("simhash+minhash", "minhash+simhash")
COLLECTION = "collection"
EXACT = "exact"


class Selected(NamedTuple):
    """A method with everything that its pass needs."""

    name: str
    signature: SignatureSettings
    rules: IndexSettings


def select(names: Iterable[str], collection: Path | None = None) -> list[Selected]:
    """Return the methods of `names`; `all` means every method and both combinations.

    A method that weighs words takes them from the file `collection`, where there is one.

    Raises:
        SettingsError: there is no such method or parameter, or no name at all.
    """
    wanted: dict[str, None] = {}
    for given in names:
        for name in filter(None, given.split(",")):
            wanted.update(dict.fromkeys([*methods(), *COMBINATIONS] if name == ALL else [name]))
    if not wanted:
        raise SettingsError("No method is named; leave --methods out for all of them.")
    return [_select_one(name, collection) for name in wanted]


def _select_one(name: str, collection: Path | None) -> Selected:
    both, *options = name.split(":")
    exact = EXACT in options
    options = [option for option in options if option != EXACT]
    first, _, accept = both.partition("+")
    preset = PRESETS.get(first)
    if collection is not None:
        own = preset.method if preset else first
        options = [*_collection_options(own, accept, collection), *options]
    signature = choose(both, options=options).model_copy(update={"exact": exact})
    check_exact(signature)
    rules = IndexSettings(
        threshold=signature.threshold,
        measure=signature.measure,
        shingles_min=signature.min_shingles,
        exact=signature.exact,
    )
    return Selected(name, signature, rules)


def _collection_options(first: str, accept: str, collection: Path) -> list[str]:
    prefixes: Mapping[str, str] = {first: "", **({accept: ACCEPT} if accept else {})}
    return [
        f"{prefix}{COLLECTION}={collection}"
        for method, prefix in prefixes.items()
        if COLLECTION in method_class(method).defaults.model_fields
    ]


KEY_BYTES = 8


class Ratios(msgspec.Struct, frozen=True):
    """Precision, recall and F1, with how many decisions were said, wrong and missed."""

    precision: float | None
    recall: float | None
    f1: float | None
    said: int
    wrong: int
    missed: int


class Trial(msgspec.Struct, frozen=True):
    """The result of a method on a dataset.

    Attributes:
        pages: decisions on pages, each against the pages kept before; pairs: two pages of one
            cluster, against all pairs at the threshold.
        rand_index: of the clusters, against those of a detector without error.
        labelled: how many of the labelled pairs lie in one cluster, and how many there are; None
            without labels.
        kinds: decisions on pages by planted kind.
        pages_per_second: of CPU time.
        signature_bytes: a page, mean: its keys, its sketch up to the last word that is not 0, and
            its set of shingles, with --exact.
    """

    dataset: str
    method: str
    pages: Ratios
    pairs: Ratios
    rand_index: float
    labelled: tuple[int, int] | None
    kinds: dict[str, Ratios]
    pages_per_second: float
    signature_bytes: float

    def cells(self) -> list[str]:
        """Return the method's row of a table: its name, and all figures but those of kinds.

        Their order: precision, recall and F1 of pages, of pairs, the Rand index, the labelled pairs
        in one cluster (no cell without labels), pages a second, bytes.
        """
        pages, pairs = self.pages, self.pairs
        shares = (pages.precision, pages.recall, pages.f1, pairs.precision, pairs.recall, pairs.f1)
        return [
            self.method,
            *(ratio_text(value, 3) for value in (*shares, self.rand_index)),
            *([f"{self.labelled[0]:,}"] if self.labelled else []),
            f"{self.pages_per_second:,.0f}",
            f"{self.signature_bytes:,.0f}",
        ]


@dataclass(frozen=True)
class Yardstick:
    """A dataset with what is true at a threshold, which all methods are held against."""

    dataset: Dataset
    threshold: float = reference.THRESHOLD

    @cached_property
    def pairs(self) -> frozenset[tuple[int, int]]:
        """Return the true pairs."""
        return true_pairs(self.dataset.pages, self.threshold)

    @cached_property
    def labels(self) -> list[int]:
        """Return the true clusters, as labels."""
        return true_labels(self.dataset.pages, self.threshold)


class _Measuring:
    """A signer that counts the bytes of what it signs."""

    def __init__(self, signer: PageSigner) -> None:
        self._signer = signer
        self.pages = self.bytes = 0

    def sign(self, bodies: Sequence[Buffer], flags: Sequence[int]) -> Signatures:
        """Sign, and count."""
        signatures = self._signer.sign(bodies, flags)
        used = signatures.sketches != 0
        words = np.where(used.any(axis=1), used.shape[1] - used[:, ::-1].argmax(axis=1), 0)
        self.pages += len(signatures.keys)
        self.bytes += KEY_BYTES * (signatures.keys.size + int(words.sum()))
        self.bytes += sum(map(len, signatures.shingles or ()))
        return signatures


def try_method(
    yardstick: Yardstick,
    method: Selected,
    *,
    seed: int = 0,
    progress: Callable[[int], None] = lambda _pages: None,
) -> Trial:
    """Judge a dataset by a method; `progress` gets the pages judged so far.

    Raises:
        StreamerError: as a replay raises it.
    """
    dataset = yardstick.dataset
    with TemporaryDirectory(prefix="streamer-") as scratch:
        verdicts = Path(scratch) / "verdicts.jsonl"
        signer, seconds = _judge(dataset, method, seed, verdicts, progress)
        scored = reference.score_pages(dataset.pages, verdicts, yardstick.threshold, dataset.kinds)
    labels, labelled = scored.labels, dataset.labelled
    return Trial(
        dataset.name,
        method.name,
        ratios(scored.outcomes),
        ratios(pair_outcomes(labels, yardstick.pairs)),
        adjusted_rand_index(labels, yardstick.labels),
        (count_shared_pairs(labels, labelled), len(labelled)) if labelled else None,
        {kind: ratios(one) for kind, one in sorted(scored.kinds.items())},
        len(dataset.pages) / seconds,
        signer.bytes / max(1, signer.pages),
    )


def secret_of(seed: int) -> bytes:
    """Return the secret of a seed; not for indexes that others write pages into."""
    return hashlib.blake2b(f"evaluation {seed}".encode(), digest_size=SECRET_BYTES).digest()


def ratios(found: ConfusionCounts) -> Ratios:
    """Return the ratios of outcomes."""
    counts = found.duplicates, found.false_positive, found.false_negative
    return Ratios(found.precision, found.recall, found.f1, *counts)


def _judge(
    dataset: Dataset, method: Selected, seed: int, verdicts: Path, progress: Callable[[int], None]
) -> tuple[_Measuring, float]:
    """Write the verdicts; return the signer with its counts, and seconds of CPU time."""
    key_file = verdicts.with_name("key")
    key_file.write_text(secret_of(seed).hex())
    key_file.chmod(0o600)
    _, signature, rules = method
    folder = IndexFolder.open(verdicts.with_name("index"), signature, key_file)
    judge = replay_judge(folder, rules)
    output = OutputFile.open(str(verdicts), None, index=None)
    try:
        signer = _Measuring(make_signer(signature, folder.secret))
        warm_kernels(signature)  # else the first method's time has the compiling in it
        signing = Signing(dataset.reader.parser, OneAThread[PageSigner](lambda: signer))
        engine = Engine(judge, Catalogue(), signing, folder.fingerprint)
        job = Replay(engine, 1, keep_going=True)
        started = time.process_time()
        job.run(
            FileInput(dataset.sources), output, None, lambda _amount, records: progress(records)
        )
        return signer, time.process_time() - started
    finally:
        output.close()
        judge.close()
