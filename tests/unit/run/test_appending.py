from __future__ import annotations

import resource
from pathlib import Path

import pytest

from streamer.run.appending import appending


def test_a_write_that_fails_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"whole\ncut sh")
    with appending(path) as file:
        file.cut(len(b"whole\n"))
        file.write(b"second\n")
        assert file.content() == b"whole\nsecond\n"
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20, hard))  # as a disk that is full
    try:
        with pytest.raises(OSError, match="File too large"), appending(path) as file:
            file.write(b"0123456789\n")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert path.read_bytes() == b"whole\nsecond\n"
