"""A store of which something is lost: refused with the remedy, and left as it is."""

import contextlib
import errno
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from random import Random

import msgspec
import numpy as np
import pytest

from streamer import errors
from streamer.errors import SettingsError, StoreDamaged, StoreUnavailable, explain_failures
from streamer.index.codec import KEYS, ROWS, STATE_KEY, entry_key
from streamer.run.index_folder import IndexFolder
from streamer.sketch.settings import SignatureSettings
from streamer.stored import database as database_module
from streamer.stored.database import FAMILIES, MERGED_BYTES, Database, files_to_merge
from streamer.stored.deep_check import check_index
from streamer.stored.lookup import StoredLookup
from streamer.stored.row_blocks import key_entries
from streamer.stored.store import Store
from streamer.stored.witness import Witness, read_witness
from tests.helpers.commands import ended
from tests.helpers.damage import Damage, digests, sorted_files
from tests.helpers.kills import answers_until_killed, piped, ran
from tests.helpers.signed_pages import BANDS, family_pages, opened
from tests.helpers.stored_rows import assert_holds, flush, flushed

ROOT = Path(__file__).parents[3]


@pytest.fixture
def quick_folder(tmp_path: Path) -> Iterator[Path]:
    """Return a folder in memory, if there is such a disk: nothing waits for it there."""
    memory = Path("/dev/shm")  # noqa: S108 - a folder of its own within
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else tmp_path) as made:
        yield Path(made, "index", "store")


def three_flushes(folder: Path) -> None:
    with contextlib.closing(Store.open(folder)) as store:
        for row in range(3):
            flush(store, [row])


def newest(folder: Path, pattern: str) -> Path:
    return max(folder.glob(pattern), key=lambda path: path.name)


@pytest.mark.parametrize("pattern", ["MANIFEST-*", "*.log"])
def test_what_claims_to_be_of_a_recycled_log_is_refused_at_once(folder: Path, pattern: str) -> None:
    """RocksDB goes round for ever there, so it is tried in a process that can be ended."""
    program = (
        "import sys; from pathlib import Path; from streamer.stored.store import Store\n"
        "Store.open(Path(sys.argv[1]), writable=False)"
    )
    with contextlib.closing(Store.open(folder)) as store:
        for row in range(3):
            flush(store, [row], bytes(100_000))
        path = newest(folder, pattern)
        data = path.read_bytes()
        second = 7 + int.from_bytes(data[4:6], "little")
        assert data[second + 6] in {1, 3}  # whole, or a middle part
        for recycled in (5, 6, 7, 8, 11):
            path.write_bytes(data[: second + 6] + bytes([recycled]) + data[second + 7 :])
            assert f"StoreDamaged: The index file {path} is damaged" in ran(program, folder).stderr
        path.write_bytes(data)


def test_a_log_that_lost_its_end_after_a_kill_is_refused(folder: Path) -> None:
    store = Store.open(folder)
    for row in range(3):
        flush(store, [row])
    path = newest(folder, "*.log")
    data = path.read_bytes()
    with contextlib.closing(store):
        for damage in (data[:-1], data[:40], b"", bytes([data[0] ^ 1]) + data[1:]):
            path.write_bytes(damage)
            with pytest.raises(StoreDamaged, match=r"it has flush [02], and 3 was written to it"):
                Store.open(folder, writable=False)
        path.write_bytes(data)
        with contextlib.closing(Store.open(folder, writable=False)) as reader:
            assert_holds(reader, [0, 1, 2])


@pytest.mark.parametrize(("family", "block"), [(KEYS, 0), (KEYS, 2), (ROWS, 0), (ROWS, 128)])
def test_a_database_that_lacks_a_block_is_refused(folder: Path, family: bytes, block: int) -> None:
    three_flushes(folder)
    with contextlib.closing(Database.write_to(folder)) as database:
        database._families[family].delete(entry_key(family, block))  # noqa: SLF001 - nobody else does
    before = digests(folder.parent)
    with (
        contextlib.closing(Store.open(folder)) as store,
        pytest.raises(StoreDamaged, match=f"block {block} of its {FAMILIES[family]} is missing"),
    ):
        StoredLookup(store).rows(np.arange(3))
    assert digests(folder.parent) == before
    assert sum(len(finding.damage) for finding in check_index(folder.parent)) == 1


def test_a_block_of_keys_with_fewer_rows_than_the_state_counts_is_refused(folder: Path) -> None:
    three_flushes(folder)
    with contextlib.closing(Store.open(folder, writable=False)) as store:
        state = msgspec.msgpack.encode(store.meta)
    for rows, message in (([], r"block 2 of its keys"), ([2, 3], "it has 4 of 3 rows")):
        [(key, block), *_] = [
            *key_entries(flushed(rows), 1024),
            (entry_key(KEYS, 2), b"16 bytes, no row"),
        ]
        with contextlib.closing(Database.write_to(folder)) as database:
            database.write([[(key, block)]], (STATE_KEY, state))
        with (
            contextlib.closing(Store.open(folder)) as store,
            pytest.raises(StoreDamaged, match=message),
        ):
            StoredLookup(store)


def test_a_file_that_is_gone_is_told_by_its_name(folder: Path) -> None:
    three_flushes(folder)
    sorted_ones = list(folder.glob("*.sst"))
    assert len(sorted_ones) == 3
    for path in (folder.parent / "newest-flush", folder / "CURRENT", *sorted_ones):
        data = path.read_bytes()
        path.unlink()
        with pytest.raises(StoreDamaged, match=path.name):
            Store.open(folder)
        path.write_bytes(data)


def test_the_witness_may_be_one_flush_behind_a_kill_and_not_two(folder: Path) -> None:
    three_flushes(folder)
    for behind, is_sound in ((2, True), (3, True), (1, False), (4, False)):
        with contextlib.closing(Witness(folder.parent)) as witness:
            witness.begin()
            witness.write(behind)
        with nullcontext() if is_sound else pytest.raises(StoreDamaged, match="Put back a copy"):
            Store.open(folder).close()


def test_the_first_flush_after_a_kill_brings_the_witness_up_to_the_database(folder: Path) -> None:
    three_flushes(folder)
    with contextlib.closing(Witness(folder.parent)) as witness:
        witness.begin()
        witness.write(2)
    with contextlib.closing(Store.open(folder)) as store:
        assert read_witness(folder.parent) == 2, "nothing is written before a flush"
        flush(store, [3])
    assert read_witness(folder.parent) == 4
    assert not any(finding.damage for finding in check_index(folder.parent))


@pytest.mark.parametrize(
    ("said", "error", "words"),
    [
        ("Corruption: block checksum mismatch: stored = 1, computed = 2", StoreDamaged, "block"),
        ("IO error: No such file or directory: While opening a file", StoreDamaged, "No such file"),
        ("IO error: While lock file: x/LOCK: Resource temporarily", StoreUnavailable, "in use by"),
        ("IO error: lock hold by current process: x/LOCK", StoreUnavailable, "in use by another"),
        ("IO error: No space left on device: While appending", StoreUnavailable, "No space is"),
        ("IO error: While open a file: x.sst: Permission denied", StoreUnavailable, "Permission"),
        ("IO error: While pread offset 0 len 9: Stale file handle", StoreUnavailable, "Stale"),
        ("Operation timed out: ", StoreUnavailable, "timed out"),
        ("something that no version has said before", StoreUnavailable, "no version"),
        ("Not implemented: Unsupported compression method or corrupted", StoreDamaged, "compr"),
    ],
)
def test_what_rocksdb_says_becomes_an_error(said: str, error: type[Exception], words: str) -> None:
    made = errors.database_error(Path("index/store"), said)
    assert isinstance(made, error)
    assert words in str(made)
    assert ("remove its folder" in str(made)) == (error is StoreDamaged)


@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.EAGAIN])
def test_a_disk_that_does_not_answer_is_no_damage(number: int) -> None:
    with pytest.raises(StoreUnavailable) as caught, explain_failures(Path("index/store")):
        raise OSError(number, os.strerror(number))
    assert caught.value.exit_code == 1
    assert "remove its folder" not in str(caught.value)


def make_index(folder: Path) -> None:
    judge = opened(folder)
    judge.judge(0, 0, 60, family_pages(Random(1), 60))
    judge.flush(b"")
    judge.close()


def test_a_secret_that_is_gone_or_changed_is_never_made_anew(tmp_path: Path) -> None:
    make_index(tmp_path)
    path, settings = tmp_path / "secret.key", SignatureSettings(bands=BANDS)
    data = path.read_bytes()
    other = b"%x" % (int(data[:1], 16) ^ 1) + data[1:]
    for damage, error in ((b"not a key", SettingsError), (other, errors.StoreMismatch)):
        path.write_bytes(damage)
        with pytest.raises(error, match=r"put .*secret\.key back from a copy"):
            IndexFolder.open(tmp_path, settings)
        assert ended("check", "--deep", "--index", tmp_path)[0] == 3
        assert path.read_bytes() == damage
    path.unlink()
    code, said = ended("check", "--deep", "--index", tmp_path)
    assert (code, "all else is sound" in said, "remove" in said) == (3, True, False), said
    for name in ("store/CURRENT", "newest-flush", None):
        with pytest.raises(SettingsError, match=r"put .*secret\.key back from a copy"):
            IndexFolder.open(tmp_path, settings)
        assert not path.exists()
        if name:
            (tmp_path / name).unlink()


@pytest.mark.parametrize(("family", "blocks"), [(ROWS, 2), (KEYS, 1)])
def test_a_deep_check_names_each_damaged_block(tmp_path: Path, family: bytes, blocks: int) -> None:
    make_index(tmp_path)
    assert [ended("check", "--deep", *more)[0] for more in (("--index", tmp_path), ())] == [0, 2]
    [path] = sorted_files(tmp_path / "store", family)
    name = str(path.relative_to(tmp_path))
    for at in (100, 4 * path.stat().st_size)[:blocks]:
        Damage("flip", name, at).do(tmp_path)
    part = FAMILIES[family]
    [damage] = [finding.damage for finding in check_index(tmp_path) if finding.part == part]
    assert len(damage) == blocks, damage
    assert all(path.name in text for text in damage)
    code, said = ended("check", "--deep", "--index", tmp_path)
    assert (code, "checksum mismatch" in said) == (3, True)


def test_a_deep_check_goes_on_after_a_damaged_shard(tmp_path: Path) -> None:
    for part in ("shard-0", "shard-1"):
        make_index(tmp_path / part)
        Damage("flip", f"{part}/newest-flush", 4).do(tmp_path)
    code, said = ended("check", "--deep", "--index", tmp_path)
    assert (code, said.count(" is damaged (in newest-flush)")) == (3, 2), said


def test_a_deep_check_tells_rows_and_keys_that_do_not_fit(folder: Path) -> None:
    three_flushes(folder)
    with contextlib.closing(Store.open(folder, writable=False)) as store:
        state = msgspec.msgpack.encode(store.meta)
    with contextlib.closing(Database.write_to(folder)) as database:
        database.write([list(key_entries(flushed([7]), 512))], (STATE_KEY, state))
    found = {finding.part: finding.damage for finding in check_index(folder.parent)}
    assert found["rows"] == ["those of block 1 have other keys than that says"]
    assert found["keys"] == []


READ_ALL = """
import sys
from pathlib import Path
from typer.testing import CliRunner
from streamer.cli.main import app
index, page = sys.argv[1:]
commands = ["inspect I", "check --index I", "check --deep --index I", "explain U --index I"]
for command in [*commands, "explain P --index I"]:
    names = {"I": index, "P": page, "U": "http://a.example/7"}
    arguments = [names.get(word, word) for word in command.split()]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, (command, done.output, done.exception)
for path in (Path(index, "new"), Path(index, "newest-flush")):
    try:
        path.open("ab")
    except PermissionError:
        print("cannot write", path.name)
Path(index, "store").chmod(0)
for command in ("inspect I", "check --deep --index I", "replay P --verdicts V --index I"):
    names = {"I": index, "P": page + ".jsonl", "V": page + ".verdicts.jsonl"}
    done = CliRunner().invoke(app, [names.get(word, word) for word in command.split()])
    print(command[:6], type(done.exception).__name__, "fix the permissions" in str(done.exception))
"""
REFUSED = "StoreUnavailable True\n"


def test_an_index_that_cannot_be_written_can_be_read_in_every_way(tmp_path: Path) -> None:
    """Root writes where it likes, by a capability; the test is done without that."""
    index, page, pages = tmp_path / "index", tmp_path / "page", tmp_path / "page.jsonl"
    page.write_text("the quick brown fox jumps over the lazy dog and so on and on")
    pages.write_text(json.dumps({"url": "http://a.example/7", "body": page.read_text() * 3}) + "\n")
    verdicts = tmp_path / "verdicts.jsonl"
    assert ended("replay", pages, "--index", index, "--verdicts", verdicts)[0] == 0
    for path in [index, *index.rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    as_others = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-all"]
    done = subprocess.run(
        [*(as_others if os.geteuid() == 0 else []), sys.executable, "-c", READ_ALL, index, page],
        cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False, timeout=300,
    )  # fmt: skip
    for path in [index, *index.rglob("*")]:
        path.chmod(0o755)
    assert done.stdout == "cannot write new\ncannot write newest-flush\n" + "".join(
        f"{command} {REFUSED}" for command in ("inspec", "check ", "replay")
    )
    assert not tmp_path.joinpath("page.verdicts.jsonl").exists()


FLUSHING = """
import sys, time
from pathlib import Path
from tests.helpers.stored_rows import flush
from streamer.stored.store import Store
from streamer.stored import database
database.LOGGED_BYTES_MAX = int(sys.argv[2])
store = Store.open(Path(sys.argv[1]))
first = store.meta.seq if store.meta else 0
for row in range(first, 10_000):
    flush(store, [row], b"%d" % row)
    print(row, flush=True)
    time.sleep(float(sys.argv[3]) if sys.argv[3:] else 0)
"""


@pytest.mark.parametrize("logged", ["0", "1000000"], ids=["past the log", "by the log"])
def test_a_kill_at_any_moment_loses_no_flush_that_was_told(folder: Path, logged: str) -> None:
    for flushes in (1, 5, 30):
        reported = answers_until_killed(FLUSHING, folder, logged, lines=flushes)[-1]
        with contextlib.closing(Store.open(folder)) as store:
            assert store.meta is not None
            last = int(store.meta.owner)
            assert last >= reported
            assert_holds(store, range(last + 1))


@pytest.mark.parametrize("logged", ["0", "1000000"], ids=["past the log", "by the log"])
def test_a_reader_finds_all_that_its_state_counts(folder: Path, logged: str) -> None:
    """The database is opened file after file: what is written between two is in one of them."""
    three_flushes(folder)
    seen = []
    with piped(FLUSHING, folder, logged, 0.02) as writer:
        writer.stdout.readline()
        for _ in range(40):
            with contextlib.closing(Store.open(folder, writable=False)) as store:
                assert store.meta is not None
                newest = np.arange(store.meta.seq - 1, store.meta.seq)
                lookup = StoredLookup(store)
                assert lookup.rows(newest).refs == (newest + 7).tolist()
                lookup.close()
                seen.append(store.meta.seq)
    assert seen == sorted(seen)
    assert seen[-1] > seen[0]


def test_metadata_grows_with_the_flushes_and_not_with_their_square(quick_folder: Path) -> None:
    """A worker of a slow source flushes some rows at a time for years."""
    folder = quick_folder
    sizes: dict[int, int] = {}
    with contextlib.closing(Store.open(folder)) as store:
        for number in range(1, 5001):
            store.flush({}, flushed([2 * number], b"state"), b"")
            if number in {2500, 5000}:
                sizes[number] = sum(path.stat().st_size for path in folder.glob("*"))
            files = len(list(folder.glob("*")))
    assert sizes[5000] <= 2.2 * sizes[2500], sizes
    assert sizes[5000] <= 5000 * 1400, sizes
    assert files < 30, "and so do the files"
    began = time.perf_counter()
    with contextlib.closing(Store.open(folder)) as store:
        StoredLookup(store)
    assert time.perf_counter() - began < 20, "a second, on an idle machine"
    filed = sum(path.stat().st_size for path in folder.glob("*.sst"))
    assert filed <= 5000 * 600, "a row, its keys, and what the database adds"


def test_files_of_flushes_are_merged(quick_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database_module, "LOGGED_BYTES_MAX", 0)
    folder, most = quick_folder, 0
    with contextlib.closing(Store.open(folder)) as store:
        for row in range(400):
            flush(store, [row])
            most = max(most, len(list(folder.glob("*.sst"))))
            if row % 50 == 0:
                assert store._database is not None  # noqa: SLF001 - its thread is waited for
                assert store._database._merging is not None  # noqa: SLF001 - as above
                store._database._merging.result()  # noqa: SLF001 - as above
        assert_holds(store, range(400))
    assert most < 250, "that a thread has not come to yet"
    for _ in range(3):  # a start merges what is left
        with contextlib.closing(Store.open(folder)) as store:
            flush(store, [int(store.meta.seq) if store.meta else 0])
    assert len(list(folder.glob("*.sst"))) < 70
    with contextlib.closing(Store.open(folder, writable=False)) as store:
        assert_holds(store, range(403))


@pytest.mark.parametrize(("low", "high"), [(2_000, 2_000), (1_000, 50_000), (13 << 20, 14 << 20)])
def test_merged_files_stay_few_and_are_not_written_often(low: int, high: int) -> None:
    random, files, written, rewritten, most = Random(1), [], 0, 0, 0
    for _ in range(20_000):
        files.append(random.randint(low, high))
        written += files[-1]
        if count := files_to_merge(files):
            merged = sum(files[-count:])
            rewritten += merged
            files[-count:] = [merged]
        most = max(most, sum(size < MERGED_BYTES for size in files))
    assert most < 32
    assert rewritten <= 12 * written
    if low > 1 << 20:
        assert rewritten <= written
