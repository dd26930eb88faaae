"""The secret and what comes of it."""

import os
import stat
from pathlib import Path

import numpy as np
import pytest

from streamer.errors import SettingsError
from streamer.sketch import settings
from streamer.sketch.settings import SECRET_BYTES, create_secret, derive_seeds, read_secret

SECRET = bytes(range(SECRET_BYTES))


def words_of(keys: settings.HashSeeds) -> dict[str, list[int]]:
    """Return the 32-bit words of each parameter."""
    base = int(keys.shingle_powers[-2])
    return {
        "id": np.frombuffer(bytes.fromhex(keys.id), np.uint32).tolist(),
        "seeds": [keys.token_seed, keys.content_seed, keys.band_seed],
        "shingle": [base & 0xFFFFFFFE, base >> 32],
        "sketch": [keys.sketch_mask & 0xFFFFFFFF, keys.sketch_mask >> 32],
        "content": [keys.content_step & 0xFFFFFFFE, keys.content_step >> 32],
        "rounds": keys.round_masks.view(np.uint32).tolist(),
    }


def test_no_two_parameters_share_a_word() -> None:
    words = [word | 1 for part in words_of(derive_seeds(SECRET, 5, 84)).values() for word in part]
    assert len(set(words)) == len(words) == 2 + 3 + 2 + 2 + 2 + 4 * 84


@pytest.mark.parametrize("bit", [0, 100, 255])
def test_one_bit_of_the_secret_changes_every_word(bit: int) -> None:
    changed = (int.from_bytes(SECRET, "big") ^ 1 << bit).to_bytes(SECRET_BYTES, "big")
    one, other = (words_of(derive_seeds(secret, 5, 84)) for secret in (SECRET, changed))
    equal = [
        (name, a)
        for name, part in one.items()
        for a, b in zip(part, other[name], strict=True)
        if a == b
    ]
    assert equal == []


def test_a_parameter_does_not_depend_on_the_size_of_the_others() -> None:
    one, other = words_of(derive_seeds(SECRET, 5, 12)), words_of(derive_seeds(SECRET, 9, 84))
    assert all(other[name][: len(part)] == part for name, part in one.items())


def test_the_powers_are_those_of_an_odd_number_the_last_one_the_zeroth() -> None:
    assert derive_seeds(SECRET, 6, 1).content_step % 2 == 1, "so is what multiplies a token's place"
    powers = derive_seeds(SECRET, 6, 1).shingle_powers.tolist()
    base = powers[-2]
    assert base % 2 == 1
    assert powers == [pow(base, exponent, 1 << 64) for exponent in (5, 4, 3, 2, 1, 0)]


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


def test_of_a_secret_that_cannot_be_written_nothing_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
