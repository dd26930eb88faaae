"""Any damage to any file of an index: it opens as it was, or is refused and stays as it is."""

import contextlib
import shutil
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamer.cli.inspect import describe
from streamer.errors import SettingsError, StoreDamaged, StoreMismatch, StreamerError
from streamer.index.messages import CONFIG, IndexSettings, Pages, Record
from streamer.kafka.owner import Owner
from streamer.kafka.wire import LogIdentity, ShardLog, pack_record
from streamer.run.index_folder import IndexFolder, identity_of, own_key, read_meta
from streamer.run.judge import LOG_FLUSHES, JudgeOptions, replay_judge
from streamer.stored.database_files import state_files
from streamer.stored.deep_check import check_index
from tests.helpers.damage import FLIP, Damage, digests, some_damage
from tests.helpers.kafka_doubles import take
from tests.helpers.serial_index import judged
from tests.helpers.signed_pages import SIGNATURE, family_pages, opened

KEPT, ASKED, FLUSHES = 160, 40, 4
SECRET = bytes(range(32))


class Index(NamedTuple):
    """An index on disk, as a kill right after a flush leaves it, and what it answers."""

    kind: str
    folder: Path
    answer: Any
    description: Any


def ask_judge(folder: Path, *, flush: bool = False) -> Any:
    """Return the verdicts of an index on pages that it has not seen; it stands as it stood."""
    rules, pages = IndexSettings(), family_pages(Random(5), KEPT + ASKED)
    index = IndexFolder.open(folder, SIGNATURE)
    try:
        judge = replay_judge(index, rules, JudgeOptions(head_pages=64))
        at, meta = judge.position(0), judge.store.meta
        asked = pages.take(range(at, at + ASKED))
        blocks = judge.judge(0, at, at + ASKED, asked)
        if flush:
            judge.flush(b"")
        judge.stop()
        return at, meta and meta.owner, [verdict for block in blocks for verdict in judged(block)]
    finally:
        index.store.close()


def make_by_judge(folder: Path, copy: Path) -> None:
    rules, pages = IndexSettings(), family_pages(Random(5), KEPT + ASKED)
    for run in range(FLUSHES):
        judge, part = opened(folder, rules, head_pages=64), KEPT // FLUSHES
        for start in range(run * part, (run + 1) * part, 10):
            judge.judge(0, start, start + 10, pages.take(range(start, start + 10)))
            if start % 20 == 10:
                judge.flush(b"")
        if run == FLUSHES - 1:
            shutil.copytree(folder, copy)
        judge.close()


@contextlib.contextmanager
def an_owner(folder: Path) -> Any:
    key = folder.parent / "worker.key"
    key.write_text(SECRET.hex())
    identity = LogIdentity(str(identity_of(SIGNATURE, SECRET)["fingerprint"]), "origin")
    owner = Owner(
        folder, ShardLog(0, "log", identity), SIGNATURE, key, JudgeOptions(LOG_FLUSHES, 30)
    )
    try:
        yield owner
    finally:
        owner.close()


def record_of(pages: Pages, start: int, end: int, owner: Owner) -> bytes:
    numbers = np.arange(start, end)
    return pack_record(Record("pages:0", start, end, numbers, pages.take(numbers)), owner.identity)


def make_by_owner(folder: Path, copy: Path) -> None:
    pages = family_pages(Random(5), KEPT + ASKED)
    with an_owner(folder) as owner:
        config = Record(CONFIG, 0, 1, np.array([0]), IndexSettings())
        take(owner, 0, pack_record(config, owner.identity))
        for offset in range(1, KEPT // 20 + 1):
            take(owner, offset, record_of(pages, 20 * offset - 20, 20 * offset, owner))
            owner.flush(owner.state())
        shutil.copytree(folder, copy)


def ask_owner(folder: Path, *, flush: bool = False) -> Any:
    pages = family_pages(Random(5), KEPT + ASKED)
    with an_owner(folder) as owner:
        at, state = owner.offset, owner.shard.state()
        outputs = take(owner, at, record_of(pages, KEPT, KEPT + ASKED, owner))
        if flush:
            owner.flush(owner.state())
        return at, state, [(output.start, judged(output.verdicts)) for output in outputs]


ASK: dict[str, Any] = {"of files": ask_judge, "a worker's": ask_owner}


def described(folder: Path) -> Any:
    """Return what `streamer inspect` shows."""
    store, meta = read_meta(folder)
    with contextlib.closing(store):
        return describe(store, meta) | {"bytes": 0}


def make_indexes(where: Path) -> list[Index]:
    made: list[Index] = []
    for kind, ask in ASK.items():
        folder = where / kind.replace(" ", "-") / "index"
        copy = folder.with_name("copy")
        folder.parent.mkdir(parents=True)
        (make_by_judge if kind == "of files" else make_by_owner)(folder, copy)
        made.append(Index(kind, copy, ask(copy), described(copy)))
    return made


@pytest.fixture(scope="module")
def indexes(tmp_path_factory: pytest.TempPathFactory) -> list[Index]:
    return make_indexes(tmp_path_factory.mktemp("made"))


@settings(max_examples=30)
@given(st.integers(0, 1), st.integers(0, 2**32))
def test_a_damaged_index_opens_as_it_was_or_is_refused_and_stays_as_it_is(
    indexes: list[Index], which: int, seed: int
) -> None:
    index = indexes[which]
    damage = some_damage(index.folder, Random(seed))
    is_refused(index, damage)


def test_each_file_is_flipped_at_its_ends_cut_by_a_byte_or_removed(indexes: list[Index]) -> None:
    """Those of the database that tell nothing of its state are removed only."""
    index = indexes[0]
    telling = {*state_files(index.folder / "store"), *index.folder.glob("*")}
    for path in sorted(path for path in index.folder.rglob("*") if path.is_file()):
        name, size = str(path.relative_to(index.folder)), path.stat().st_size
        damages = [Damage("remove", name)]
        if size and path in telling:
            damages += [Damage(FLIP, name, 3), Damage(FLIP, name, 8 * size - 1)]
            damages.append(Damage("cut", name, size - 1))
        for damage in damages:
            is_refused(index, damage)


def is_refused(index: Index, damage: Damage) -> bool:
    """Damage a copy of an index; use it in each way; return whether it was refused.

    Raises:
        AssertionError: it says something else, changes what it refuses, or refuses it wrongly.
    """
    folder = index.folder.parent / "damaged"
    shutil.copytree(index.folder, folder)
    try:
        damage.do(folder)
        before = digests(folder)
        ask = ASK[index.kind]
        answers = [_asked(ask, folder), _asked(described, folder)]
        was_sound = not any(finding.damage for finding in check_index(folder))
        assert digests(folder) == before, damage
        for answer, wanted in zip(answers, (index.answer, index.description), strict=True):
            if isinstance(answer, StreamerError):
                assert_refusal_is_right(answer, damage)
            else:
                assert answer == wanted, damage
        if not isinstance(answers[0], StreamerError):
            assert ask(folder, flush=True) == index.answer, damage
            now_sound = not any(finding.damage for finding in check_index(folder))
            assert now_sound or not was_sound, damage
        elif damage.name != own_key(Path()).name:
            assert not was_sound, damage
        return isinstance(answers[0], StreamerError)
    finally:
        shutil.rmtree(folder)


def _asked(ask: Any, folder: Path) -> Any:
    try:
        return ask(folder)
    except StreamerError as error:
        return error


def assert_refusal_is_right(error: StreamerError, damage: Damage) -> None:
    if damage.name == own_key(Path()).name:
        assert isinstance(error, (SettingsError, StoreMismatch)), damage
    else:
        assert isinstance(error, StoreDamaged), (damage, error)
        assert error.exit_code == 3
        assert "Put back a copy" in str(error)
