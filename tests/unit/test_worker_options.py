"""What a worker sees of its settings before it asks any broker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from streamer.config import Role, load_settings
from streamer.errors import SettingsError, StoreMismatch
from streamer.kafka.connection import Connection
from streamer.kafka.topics import Names
from streamer.kafka.worker import WorkerOptions
from streamer.pages.parse import PageParser
from streamer.run.index_folder import IndexFolder
from streamer.run.judge import replay_judge

SECRET = bytes(range(32))
SHARDS = 2


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    path = tmp_path / "key"
    path.write_text(SECRET.hex())
    return path


def options(key_file: Path, role: Role = Role.ALL, **given: Any) -> WorkerOptions:
    settings = load_settings(**{"shards": SHARDS, "role": role, **given})
    names, folder = Names("index", "pages"), key_file.parent / "index"
    return WorkerOptions(settings, Connection("localhost:1"), names, folder, key_file, PageParser())


def make_shard(wanted: WorkerOptions, number: int) -> None:
    """Leave an index with a flush where the worker has that shard."""
    folder = wanted.shard_folder(number)
    index = IndexFolder.open(folder, wanted.settings.signature, SHARDS, wanted.key_file)
    judge = replay_judge(index, wanted.settings.index)
    judge.flush(b"owner")
    judge.close()


def test_folders_that_fit_and_those_that_are_not_there_yet_are_right(key_file: Path) -> None:
    wanted = options(key_file, method="simhash")
    wanted.check()
    make_shard(wanted, 0)
    wanted.check()
    assert not wanted.shard_folder(1).exists()


@pytest.mark.parametrize(
    ("here", "said"),
    [
        ({}, "--method is simhash there and minhash here"),
        (
            {"method": "simhash", "accept": "minhash"},
            "--accept is none there and minhash here",
        ),
        (
            {"method": "simhash", "method_option": ["width=2"]},
            "--method-option width is 1 there and 2 here",
        ),
    ],
)
def test_a_folder_of_another_method_is_refused_by_what_differs(
    key_file: Path, here: dict[str, Any], said: str
) -> None:
    make_shard(options(key_file, method="simhash"), 1)
    other = options(key_file, **here)
    with pytest.raises(StoreMismatch, match=said):
        other.check()
    options(key_file, Role.SIGN, **here).check()  # signs pages only: the folder is not its own


def test_a_key_that_cannot_be_read_is_named(key_file: Path) -> None:
    key_file.write_text("no key")
    with pytest.raises(SettingsError, match="64 hexadecimal digits"):
        options(key_file).check()


@pytest.mark.parametrize(
    ("own_shards", "said"), [("0,x", "Give numbers with commas"), ("0,2", "no shard 2")]
)
def test_shards_that_are_none_are_refused(key_file: Path, own_shards: str, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        options(key_file, own_shards=own_shards).check()
    assert options(key_file, own_shards=" 1, 1").shards == (1,)
