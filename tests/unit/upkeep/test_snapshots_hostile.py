"""Snapshots and folders of others: nothing is written outside an index, nothing foreign removed."""

import os
import resource
import shutil
from pathlib import Path

import pytest

from streamer.errors import StoreDamaged, StoreUnavailable
from streamer.run.index_folder import own_key
from streamer.upkeep.snapshot_places import MARKER
from streamer.upkeep.snapshots import SnapshotFolder, take_snapshot
from tests.helpers.commands import ended
from tests.helpers.growing_index import everything, forge, grow, grow_and_take, holds
from tests.helpers.kills import code_of

NAMES = [
    "../home/.bashrc", "{tmp}/home/.bashrc", "../other/store/CURRENT", "store/../../home/.bashrc",
    "store/sub/CURRENT", "store/..", "store/", "store", ".", "", "newest-flush", "notes.txt",
    "secret.key/", "secret.key\n", "store/CURRENT\x00", "store/.bashrc", "store\\CURRENT",
]  # fmt: skip
DIGESTS = ["../../home/.bashrc", "", "A" * 32, "a" * 31]


@pytest.mark.parametrize(
    "change",
    [*({"name": name} for name in NAMES), *({"digest": digest} for digest in DIGESTS), {}], ids=str,
)  # fmt: skip
def test_a_snapshot_that_names_other_files_than_an_indexs_is_refused_before_anything_is_written(
    tmp_path: Path, index: Path, snapshots: SnapshotFolder, change: dict[str, str]
) -> None:
    grow_and_take(index, snapshots, range(5))
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / ".bashrc").write_text("alias ls=ls")
    shutil.copytree(index, tmp_path / "other")

    def forged(files: list[dict[str, str]]) -> None:
        changed = {key: each.replace("{tmp}", str(tmp_path)) for key, each in change.items()}
        files[-1] = {**(files[-1] if change else files[0]), **changed}  # or names a file twice

    [path] = Path(snapshots.name).glob("*.json")
    forge(path, forged)
    before = everything(tmp_path)
    for refused in (lambda: snapshots.restore(tmp_path / "again"), lambda: snapshots.check(1)):
        with pytest.raises(StoreDamaged, match="is not one of an index"):
            refused()
    assert everything(tmp_path) == before


def test_a_snapshot_removes_no_file_of_others(tmp_path: Path, index: Path) -> None:
    grow(index, range(5))
    photos = tmp_path / "snapshots" / "files"
    photos.mkdir(parents=True)
    foreign = {
        "photo.jpg": b"a photo",
        "notes.new": b"notes",
        "A" * 32: b"large letters",
        "a" * 40: b"an object of git",
    }
    for name, data in foreign.items():
        (photos / name).write_bytes(data)
    (photos / "album").mkdir()
    (photos / ("b" * 32)).symlink_to(tmp_path / "index")
    (photos / ("c" * 32)).mkdir()
    (photos / ("d" * 32)).write_bytes(b"what a killed snapshot has left")
    (photos / ("e" * 32 + ".new")).write_bytes(b"or began")
    for step in range(1, 4):
        code, said = ended("snapshot", index, tmp_path / "snapshots", "--keep", 1)
        assert code == 0, said
        grow(index, range(5 * step, 5 * step + 5))
    assert {name: (photos / name).read_bytes() for name in foreign} == foreign
    assert (photos / "album").is_dir()
    assert (photos / ("c" * 32)).is_dir()
    assert (photos / ("b" * 32)).is_symlink()
    assert not (photos / ("d" * 32)).exists()
    assert not (photos / ("e" * 32 + ".new")).exists()


def test_a_snapshot_does_not_go_through_a_link_to_files_of_others(
    tmp_path: Path, index: Path, snapshots: SnapshotFolder
) -> None:
    grow(index, range(5))
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / ("a" * 32)).write_bytes(b"a photo with its digest for a name")
    (tmp_path / "snapshots").mkdir()
    (tmp_path / "snapshots" / "files").symlink_to(tmp_path / "photos")
    with pytest.raises(StoreUnavailable, match=r"files is a link, .* Name another folder"):
        take_snapshot(index, snapshots, 1)
    assert [path.name for path in (tmp_path / "photos").iterdir()] == ["a" * 32]


# ---- INDEX.restoring ----------------------------------------------------------------------------


# What is in the way, by name: a text, or nothing for a link to somebody's folder.
IN_THE_WAY: dict[str, dict[str, str]] = {
    "a file": {"": "mine"},
    "a folder of somebody": {"thesis.txt": "mine"},
    "a link": {"": ""},
    "work with more in it": {MARKER: "restore again", "thesis.txt": "mine"},
    "work with a link for an index": {MARKER: "restore again", "index": ""},
    "an index of that name": {},
}


@pytest.mark.parametrize("what", IN_THE_WAY)
def test_what_was_there_before_a_restore_stays_and_the_restore_is_refused(
    tmp_path: Path, index: Path, snapshots: SnapshotFolder, what: str
) -> None:
    grow_and_take(index, snapshots, range(5))
    place, elsewhere = tmp_path / "again.restoring", tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "thesis.txt").write_text("mine")
    for name, text in IN_THE_WAY[what].items():
        path = place / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text) if text else path.symlink_to(elsewhere)
    if not IN_THE_WAY[what]:
        grow(place, range(3))
    before = everything(tmp_path)
    with pytest.raises(StoreUnavailable, match=r"again\.restoring is in the way: .*Move it"):
        snapshots.restore(tmp_path / "again")
    assert everything(tmp_path) == before


KILLED = """
import sys
from pathlib import Path
from streamer.upkeep import snapshots as module
from streamer.upkeep.snapshot_places import Folder, WorkFolder
from tests.helpers.kills import die_before

die_before(
    int(sys.argv[3]), (WorkFolder, "begin"), (Folder, "fetch"), (Path, "rename"),
    (module, "sync_folder"), (WorkFolder, "discard"),
)
module.SnapshotFolder(sys.argv[1]).restore(Path(sys.argv[2]))
"""


def test_a_restore_that_was_killed_is_done_by_the_same_command(
    tmp_path: Path, index: Path, snapshots: SnapshotFolder
) -> None:
    grow(index, range(5))
    own_key(index).write_text("a secret")
    take_snapshot(index, snapshots, 0)
    again, codes = tmp_path / "again", [-9]
    while codes[-1]:
        codes.append(code_of(KILLED, snapshots.name, again, len(codes)))
        assert codes[-1] in {0, -9}
        if again.exists():
            holds(again, 5)
            shutil.rmtree(again)
    assert len(codes) > 8
    assert not os.path.lexists(tmp_path / "again.restoring")
    snapshots.restore(again)
    holds(again, 5)


@pytest.mark.parametrize("parts", [("",), ("shard-0", "shard-1")])
def test_a_disk_that_refuses_a_restore_is_as_it_was(tmp_path: Path, parts: tuple[str, ...]) -> None:
    """The last part alone does not fit: those before it are not left there either."""
    for part in parts:
        grow(tmp_path / "index" / part, range(600 if part == parts[-1] else 5))
    assert ended("snapshot", tmp_path / "index", tmp_path / "snapshots")[0] == 0
    before = everything(tmp_path)
    target = tmp_path / "disk" / "again"
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    try:
        with pytest.raises(StoreUnavailable) as caught:
            SnapshotFolder(tmp_path / "snapshots").restore(target)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    said = str(caught.value)
    assert said.startswith(f"Cannot restore to {target}: File too large. Nothing of it")
    assert str(tmp_path / "snapshots") not in said
    assert everything(tmp_path) == before


def test_a_folder_where_a_checkpoint_goes_stays(index: Path, snapshots: SnapshotFolder) -> None:
    grow(index, range(5))
    (index / "checkpoint").mkdir()
    (index / "checkpoint" / "thesis.txt").write_text("mine")
    with pytest.raises(StoreUnavailable, match="checkpoint is in the way"):
        take_snapshot(index, snapshots, 0)
    grow(index, range(5, 10))
    assert (index / "checkpoint" / "thesis.txt").read_text() == "mine"
