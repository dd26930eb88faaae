"""Other indexes that pages are compared with: which page is a duplicate of one of theirs."""

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamer.errors import SettingsError, StoreMismatch, StoreUnavailable
from streamer.index.messages import IndexSettings, Pages, Verdicts
from streamer.index.rule import CONTENT, SIGNATURE, TOO_SHORT
from streamer.run.catalogue import Catalogue, SourceEntry, pack_catalogue
from streamer.run.index_folder import IndexFolder
from streamer.run.judge import Judge, JudgeOptions, replay_judge
from streamer.run.reference_indexes import ReferenceIndexes, parse_also
from streamer.run.stages import verdicts
from streamer.sketch.resemblance import similarity
from streamer.sketch.settings import SignatureSettings
from tests.helpers.serial_index import Judged, judged, own_keys, serial_verdicts
from tests.helpers.signed_pages import BANDS, family_pages, made_pages, sketch_with, unlike
from tests.oracles.hash_sets import decided

SIGNATURE_SETTINGS = SignatureSettings(bands=BANDS)
OWNER = pack_catalogue(Catalogue(entries=[SourceEntry("clean.jsonl", "", None)]))
KEY = "11" * 32


def open_index(folder: Path, rules: IndexSettings) -> IndexFolder:
    signature = SIGNATURE_SETTINGS.model_copy(update={"exact": rules.exact})
    return IndexFolder.open(folder, signature, key_file(folder.parent))


def key_file(folder: Path) -> Path:
    path = folder / "key"
    path.write_text(KEY)
    return path


def make_index(folder: Path, pages: Pages, rules: IndexSettings) -> list[int]:
    """Make an index of the pages in `folder`; return the places of those that it keeps."""
    judge = replay_judge(open_index(folder, rules), rules)
    half = len(pages) // 2  # of two flushes, so that it has blocks of both
    said: list[Judged] = []
    for start, end in ((0, half), (half, len(pages))):
        for block in judge.judge(0, start, end, pages.take(range(start, end))):
            said += judged(block)
        judge.flush(OWNER)
    judge.close()
    kept = {each.ref for each in said if each.similarity < 0}
    return [place for place in range(len(pages)) if pages.refs[place] in kept]


@contextlib.contextmanager
def a_judge(folder: Path, rules: IndexSettings, *given: str) -> Iterator[Judge]:
    """Provide the judge of the index in `folder`, which compares with others."""
    index = open_index(folder, rules)
    with contextlib.closing(
        ReferenceIndexes(given, index.fingerprint, index.identity)
    ) as references:
        options = JudgeOptions(references=references)
        judge = replay_judge(index, references.name_in(rules), options)
        try:
            yield judge
        finally:
            judge.close()


def judge_all(judge: Judge, pages: Pages, random: Random) -> list[Verdicts]:
    """Give all pages in records of random length, half of them looked up ahead; flush at times."""
    found: list[Verdicts] = []
    at = 0
    while at < len(pages):
        end = min(len(pages), at + random.randrange(1, 9))
        part = pages.take(range(at, end))
        ahead = judge.shard.look_up(part) if random.random() < 0.5 else None
        found += judge.judge(0, at, end, part, ahead)
        if random.random() < 0.3:
            judge.flush(OWNER)
        at = end
    return found


class Elsewhere:
    """What an index of kept pages says of others, by comparing with all that share a key."""

    def __init__(self, clean: Pages, kept: list[int], pages: Pages, rules: IndexSettings) -> None:
        self.clean, self.kept, self.pages, self.rules = clean, kept, pages, rules
        self.theirs = {place: own_keys(clean, place, IndexSettings()) for place in kept}

    def __call__(self, place: int) -> Judged | None:
        pages, clean = self.pages, self.clean
        keys = own_keys(pages, place, self.rules)
        sharing = [each for each in self.kept if {*keys} & {*self.theirs[each]}]
        scores = [(*self._likeness(place, each), -each) for each in sharing]
        if not scores:
            return None
        score, exact, best = max(scores, key=lambda s: (s[0], s[2]))
        short = pages.distinct[place] < self.rules.shingles_min
        same = keys[-1] in self.theirs[-best]
        basis = TOO_SHORT if short else CONTENT if same else SIGNATURE
        ref = int(clean.refs[-best])
        return Judged(int(pages.refs[place]), score, basis, ref, clean.urls[-best], exact)

    def _likeness(self, place: int, theirs: int) -> tuple[int, bool]:
        """Return how similar a page is to one of theirs, and whether that is exact."""
        pages, clean = self.pages, self.clean
        sketches = pages.sketches[place], clean.sketches[theirs]
        score = int(similarity(*sketches))
        if not self.rules.exact:
            return score, False
        assert pages.shingles is not None
        assert clean.shingles is not None
        sets = pages.shingles[place], clean.shingles[theirs]
        return decided(score, sketches, sets, self.rules.similarity_min)


def both_of(seed: int, count: int) -> tuple[Pages, Pages]:
    """Return pages of a clean index, and pages of which many are like these.

    Some are as like a page of their own index as one of the clean index, or all but.
    """
    pages, random = family_pages(Random(seed), 2 * count), Random(seed)
    clean, other = pages.take(range(0, 2 * count, 2)), pages.take(range(1, 2 * count, 2))
    for each in (clean, other):
        each.refs[:] = np.arange(count)
    clean.urls[:] = [b"http://clean.example/%d" % i for i in range(count)]
    for i in range(1, count, 3):
        first = random.randrange(8) * 100
        clean.sketches[i] = other.sketches[i - 1] = sketch_with(200, first)
        other.sketches[i] = sketch_with(random.choice([0, 64, 200]), first)
        other.keys[i, :2] = other.keys[i - 1, 0], clean.keys[i, 1]
    return clean, other


@settings(max_examples=24, deadline=None)
@given(
    st.integers(0, 2**32),
    st.integers(2, 40),
    st.builds(
        IndexSettings,
        bucket_max=st.sampled_from([1, 64]),
        candidates_max=st.sampled_from([1, 128]),
        threshold=st.sampled_from([0.5, 0.8007]),  # as 136 symbols of another sketch have
        expire_after_ms=st.sampled_from([0, 4_000]),
        keep_pages=st.sampled_from([0, 3]),
        exact=st.booleans(),
        near_misses=st.sampled_from([0, 0.2]),
    ),
)
def test_verdicts_are_those_of_a_serial_index(seed: int, count: int, rules: IndexSettings) -> None:
    clean, pages = both_of(seed, count)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        kept = make_index(folder / "clean", clean, IndexSettings(exact=rules.exact))
        expected = serial_verdicts(pages, rules, elsewhere=Elsewhere(clean, kept, pages, rules))
        with a_judge(folder / "own", rules, f"clean={folder / 'clean'}") as judge:
            found = judge_all(judge, pages, Random(seed))
    assert [each for block in found for each in judged(block)] == expected
    names = [
        o and o.corpus.name for block in found for o in block.references or [None] * len(block)
    ]
    urls = [v.url for block in found for v in judged(block)]
    assert [name == "clean" for name in names] == [url.startswith(b"http://clean") for url in urls]


# ---- one page -----------------------------------------------------------------------------------


def one(sketch: list[int], *, ref: int = 0, content: int = 99) -> Pages:
    return made_pages([[5] * BANDS + [content]], [sketch], first_ref=ref)


def reported(blocks: list[Verdicts]) -> list[tuple[str | None, str | None, str | None]]:
    """Return of each verdict the index, the source and the basis that it names."""
    unknown = SourceEntry("own.jsonl", "", None)
    locate = Catalogue(entries=[unknown]).locator()
    found: list[tuple[str | None, str | None, str | None]] = []
    for verdict in (each for block in blocks for each in verdicts(block, locate, "f")):
        other = verdict.representative
        if other is None:
            found.append((None, None, None))
        else:
            index = other.index if isinstance(other.index, str) else None
            found.append((index, other.page.topic, str(verdict.basis)))
    return found


def test_of_several_indexes_the_most_similar_page_is_the_representative(tmp_path: Path) -> None:
    make_index(tmp_path / "a", one(sketch_with(10)), IndexSettings())
    make_index(tmp_path / "b", one(sketch_with(0)), IndexSettings())
    own = [one(sketch_with(400), ref=0), one(sketch_with(0), ref=1), one(sketch_with(10), ref=2)]
    given = [f"a={tmp_path / 'a'}", f"b={tmp_path / 'b'}"]
    with a_judge(tmp_path / "own", IndexSettings(), *given) as judge:
        found = [reported(judge.judge(0, i, i + 1, page))[0] for i, page in enumerate(own)]
    assert found == [
        (None, None, None),
        ("b", "clean.jsonl", "content"),
        ("a", "clean.jsonl", "content"),
    ]


def test_what_has_expired_in_another_index_answers_nothing(tmp_path: Path) -> None:
    sketches = [sketch_with(0), sketch_with(400), unlike(1), unlike(2)]
    pages = made_pages([[key] * (BANDS + 1) for key in (5, 6, 7, 8)], sketches)
    pages.times[:] = [1_000_000, 2_000_000, 2_000_000, 2_000_000]
    make_index(tmp_path / "clean", pages, IndexSettings(expire_after_ms=1000))
    with a_judge(tmp_path / "own", IndexSettings(), str(tmp_path / "clean")) as judge:
        assert reported(judge.judge(0, 0, 1, one(sketch_with(0)))) == [(None, None, None)]
        later = made_pages([[6] * (BANDS + 1)], [sketch_with(400)], first_ref=1)
        assert reported(judge.judge(0, 1, 2, later))[0][0] == "clean"


def test_what_was_found_ahead_counts_for_its_pages_and_settings_only(tmp_path: Path) -> None:
    make_index(tmp_path / "clean", one(sketch_with(0)), IndexSettings())
    with a_judge(tmp_path / "own", IndexSettings(), str(tmp_path / "clean")) as judge:
        near, far = one(sketch_with(0)), one(sketch_with(400), ref=1)
        of_near, of_far = judge.shard.look_up(near), judge.shard.look_up(far)
        assert reported(judge.judge(0, 0, 1, near, of_far))[0][0] == "clean"
        settings = judge.shard.settings
        assert settings is not None
        judge.configure(settings.model_copy(update={"also": ()}))
        assert reported(judge.judge(0, 1, 2, far, of_near)) == [(None, None, None)]
        alike = one(sketch_with(200, 600), ref=2)  # .71 like what is there
        judge.configure(settings)
        of_alike = judge.shard.look_up(alike)
        judge.configure(settings.model_copy(update={"threshold": 0.6}))
        assert reported(judge.judge(0, 2, 3, alike, of_alike))[0][0] == "clean"


# ---- which index --------------------------------------------------------------------------------


def test_a_log_that_names_another_state_of_an_index_is_refused(tmp_path: Path) -> None:
    clean = tmp_path / "clean"
    make_index(clean, one(sketch_with(0)), IndexSettings())
    with a_judge(tmp_path / "own", IndexSettings(), f"clean={clean}") as judge:
        [before] = judge.shard.settings.also if judge.shard.settings else ()
        in_force = judge.shard.settings
        judge.flush(OWNER)
    index = IndexFolder.open(clean, SIGNATURE_SETTINGS, tmp_path / "key")
    changed = replay_judge(index, IndexSettings())
    changed.judge(0, 2, 3, one(sketch_with(400), ref=2))
    changed.flush(OWNER)
    changed.close()
    with a_judge(tmp_path / "own", IndexSettings(), f"clean={clean}") as judge:
        assert judge.shard.settings is not None
        assert judge.shard.settings.also != (before,)
        assert in_force is not None
        judge.configure(in_force)  # as a log does that was written before
        with pytest.raises(StoreMismatch, match=f"clean, as it was with the state {before.digest}"):
            judge.judge(0, 0, 1, one(sketch_with(0)))
    with a_judge(tmp_path / "new", IndexSettings()) as judge:
        judge.configure(in_force)
        with pytest.raises(StoreMismatch, match="Give --also clean=FOLDER"):
            judge.judge(0, 0, 1, one(sketch_with(0)))


def test_of_several_under_one_name_the_last_is_in_force_and_none_ends_it(tmp_path: Path) -> None:
    rules = IndexSettings()
    make_index(tmp_path / "a", one(sketch_with(0)), rules)
    make_index(tmp_path / "b", one(sketch_with(400)), rules)
    a, b = (f"clean={tmp_path / name}" for name in "ab")
    with a_judge(tmp_path / "own", rules, a) as judge:
        before = judge.shard.settings
        judge.flush(OWNER)
    with a_judge(tmp_path / "own", rules, a, b) as judge:
        assert judge.shard.settings != before
        assert reported(judge.judge(0, 0, 1, one(sketch_with(400))))[0][0] == "clean"
        assert before is not None
        judge.configure(before)
        assert reported(judge.judge(0, 1, 2, one(sketch_with(0), ref=1)))[0][0] == "clean"
    with a_judge(tmp_path / "new", rules, a, "clean=") as judge:
        assert judge.shard.settings is not None
        assert judge.shard.settings.also == ()


def test_each_index_of_a_partition_is_compared_with_under_its_own_name(tmp_path: Path) -> None:
    folder, rules = tmp_path / "workers", IndexSettings()
    folder.mkdir()
    key_file(folder)
    for number in range(2):
        make_index(folder / f"shard-{number}", one(sketch_with(400 * number)), rules)
    make_index(tmp_path / "shard", one(sketch_with(900)), rules)
    with a_judge(tmp_path / "own", rules, f"clean={tmp_path}/shard", f"clean={folder}") as judge:
        found = [
            reported(judge.judge(0, i, i + 1, one(sketch_with(400 * i), ref=i))) for i in (0, 1)
        ]
        assert [each[0][0] for each in found] == ["clean.shard-0", "clean.shard-1"]
        assert judge.shard.settings is not None
        assert len(judge.shard.settings.also) == 2, "none of the one before under this name"
    (folder / "shard-1").rename(tmp_path / "away")
    with a_judge(tmp_path / "other", rules, f"clean={folder}") as judge:
        assert reported(judge.judge(0, 0, 1, one(sketch_with(0))))[0][0] == "clean"


def test_an_index_of_other_settings_or_another_key_is_refused(tmp_path: Path) -> None:
    make_index(tmp_path / "clean", one(sketch_with(0)), IndexSettings())
    other = SignatureSettings(bands=BANDS, shingle_width=4)
    with contextlib.closing(IndexFolder.open(tmp_path / "own", other).store):
        index = IndexFolder.open(tmp_path / "third", other)
        index.store.close()
        with pytest.raises(StoreMismatch, match="shingle-width is 5 there and 4 here"):
            ReferenceIndexes([f"{tmp_path / 'clean'}"], index.fingerprint, index.identity)
    keyed = IndexFolder.open(tmp_path / "keyed", SIGNATURE_SETTINGS)
    keyed.store.close()
    with pytest.raises(StoreMismatch, match=r"--key-file is .* there and .* here.*its --key-file"):
        ReferenceIndexes([f"{tmp_path / 'clean'}"], keyed.fingerprint, keyed.identity)


def test_what_is_no_index_is_refused_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="--also x=FOLDER names the folder of one"):
        ReferenceIndexes([f"x={tmp_path}"], "")
    for text in ("", "a b=/x", "=/x", "/"):
        with pytest.raises(SettingsError, match="Give NAME=FOLDER"):
            parse_also(text)
    assert parse_also("/data/clean.2026") == ("clean.2026", "/data/clean.2026")
    assert parse_also("c=/data/a=b") == ("c", "/data/a=b")
