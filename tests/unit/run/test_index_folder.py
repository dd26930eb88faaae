"""Whether an index's folder fits the settings of a run, and what is said if it does not."""

import stat
from pathlib import Path
from typing import Any

import pytest

from streamer.config import load_settings
from streamer.errors import SettingsError, StoreMismatch, StoreUnavailable
from streamer.index.messages import IndexSettings
from streamer.run import index_folder
from streamer.run.judge import replay_judge
from streamer.sketch.settings import SignatureSettings, read_secret
from tests.helpers.signed_pages import BANDS

DEFAULTS = SignatureSettings(bands=BANDS)
SECRET = bytes(range(32))


def make_index(
    folder: Path, key_file: Path | None = None, signature: SignatureSettings = DEFAULTS
) -> None:
    index = index_folder.IndexFolder.open(folder, signature, key_file)
    replay_judge(index, IndexSettings()).flush(b"owner")
    index.store.close()


def test_a_new_index_makes_a_secret_of_its_own_and_keeps_it(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "index"
    make_index(folder)
    path = folder / "secret.key"
    secret = read_secret(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    again = index_folder.IndexFolder.open(folder, DEFAULTS)
    assert (again.secret, index_folder.obtain_existing_secret(folder, None)) == (secret, secret)
    assert again.store.meta is not None
    again.store.close()


def test_with_a_key_file_no_secret_is_in_the_index(tmp_path: Path, key_file: Path) -> None:
    make_index(tmp_path / "index", key_file)
    names = {path.name for path in (tmp_path / "index").iterdir() if path.is_file()}
    assert names == {"newest-flush"}
    assert index_folder.obtain_secret(tmp_path / "index", key_file) == SECRET


def test_an_index_made_with_a_key_file_asks_for_it(tmp_path: Path, key_file: Path) -> None:
    make_index(tmp_path / "index", key_file)
    for ask in (index_folder.obtain_secret, index_folder.obtain_existing_secret):
        with pytest.raises(SettingsError, match=r"made with a key file\. Give it with --key-file"):
            ask(tmp_path / "index", None)
    assert not (tmp_path / "index" / "secret.key").exists()


def test_a_workers_folder_takes_no_index_next_to_its_shards(tmp_path: Path, key_file: Path) -> None:
    make_index(tmp_path / "shard-0", key_file)
    for key in (key_file, None):
        with pytest.raises(StoreMismatch, match=r"shard-0 of a worker\. Name another folder"):
            index_folder.IndexFolder.open(tmp_path, DEFAULTS, key)
    assert {path.name for path in tmp_path.iterdir()} == {key_file.name, "shard-0"}


def test_a_bad_key_file_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="openssl rand"):
        index_folder.IndexFolder.open(tmp_path / "index", DEFAULTS, tmp_path / "missing.key")
    assert not (tmp_path / "index").exists()


def test_a_folder_that_cannot_be_made_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreUnavailable, match=r"Cannot write the index .* Name a folder that"):
        index_folder.obtain_secret(tmp_path / "file" / "index", None)
    with pytest.raises(SettingsError, match="is not UTF-8"):
        index_folder.IndexFolder.open(tmp_path / "no\udcffutf8", SignatureSettings())
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize(
    ("there", "here", "named"),
    [
        ({}, {"rows": 7, "bands": 12},
         ["--rows is 6 there and 7 here", "--bands is 14 there and 12 here"]),
        ({}, {"shingle_width": 4}, ["--shingle-width is 5 there and 4 here"]),
        ({"method": "banding"}, {}, ["--method is banding there and minhash here"]),
        ({}, {"accept": "exact_content"},
         ["--accept is none there and exact_content here", "accept.hash is not set there"]),
        ({"method": "bottom_k"}, {"method": "bottom_k", "method_option": ["k=32"]},
         ["--method-option k is 64 there and 32 here"]),
        ({"canonical": ["stem=english"]}, {"canonical": ["stem=russian"]},
         ["--canonical stem is english there and russian here"]),
        ({}, {"canonical": ["stem=english"]},
         ["--canonical stem is not set there and english here"]),
    ],
)  # fmt: skip
def test_an_index_of_other_settings_is_refused_by_their_names(
    tmp_path: Path, there: dict[str, Any], here: dict[str, Any], named: list[str]
) -> None:
    make_index(tmp_path / "index", signature=load_settings(**there).signature)
    for _ in range(2):  # a refusal leaves no lock behind
        with pytest.raises(
            StoreMismatch, match="Use the index's settings, or another --index"
        ) as caught:
            index_folder.IndexFolder.open(tmp_path / "index", load_settings(**here).signature)
        assert all(part in str(caught.value) for part in named)
        assert str(caught.value).count(" there and ") == len(named)


def test_another_secret_is_refused_and_not_told(tmp_path: Path, key_file: Path) -> None:
    make_index(tmp_path / "index")
    with pytest.raises(
        StoreMismatch, match=r"--key-file is [0-9a-f]{16} there and [0-9a-f]{16} here"
    ) as caught:
        index_folder.IndexFolder.open(tmp_path / "index", DEFAULTS, key_file)
    assert SECRET.hex()[:16] not in str(caught.value)


def test_another_version_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_index(tmp_path / "index")
    monkeypatch.setattr("streamer.sketch.settings.UNICODE", "1.1")
    with pytest.raises(StoreMismatch, match="it was made by another version"):
        index_folder.IndexFolder.open(tmp_path / "index", DEFAULTS)


def test_an_empty_index_has_nothing_to_read(tmp_path: Path) -> None:
    index_folder.IndexFolder.open(tmp_path / "index", DEFAULTS).store.close()
    with pytest.raises(StoreUnavailable, match="is empty: nothing has been flushed"):
        index_folder.read_meta(tmp_path / "index")
