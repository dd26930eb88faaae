"""The secret: how it is made and read."""

import os
import stat
from pathlib import Path

import pytest

from streamer.errors import SettingsError
from streamer.sketch.settings import SECRET_BYTES, create_secret, read_secret

SECRET = bytes(range(SECRET_BYTES))


def test_a_new_secret_is_read_back_and_only_its_owner_may_read_it(tmp_path: Path) -> None:
    path = tmp_path / "secret.key"
    before = os.umask(0)
    try:
        secret = create_secret(path)
    finally:
        os.umask(before)
    assert read_secret(path) == secret != create_secret(tmp_path / "other")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_secret_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "secret.key"
    path.write_text("precious")
    with pytest.raises(FileExistsError):
        create_secret(path)
    assert path.read_text() == "precious"


def test_of_a_failed_secret_nothing_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_file: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        create_secret(tmp_path / "secret.key")
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    "content",
    [
        b"", b"xyz", b"ab" * 31, b"ab" * 33, b"ab" * 31 + b"a", b"g" * 64, b"\xff" * 64, b"\0" * 32,
        "é".encode() * 64,
    ],
)  # fmt: skip
def test_a_bad_key_file_is_refused_with_how_to_make_one(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "bad.key"
    path.write_bytes(content)
    with pytest.raises(
        SettingsError, match=r"64 hexadecimal digits; `openssl rand -hex 32 > FILE`"
    ) as caught:
        read_secret(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("name", ["missing", "."])
def test_a_key_file_that_is_no_file_is_refused_with_the_remedy(tmp_path: Path, name: str) -> None:
    with pytest.raises(SettingsError, match="openssl rand -hex 32"):
        read_secret(tmp_path / name)


def test_a_key_file_may_end_with_white_space_and_hold_capitals(tmp_path: Path) -> None:
    path = tmp_path / "good.key"
    path.write_text(f"{SECRET.hex().upper()}\r\n")
    assert read_secret(path) == SECRET
