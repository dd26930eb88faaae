"""What is missing for a broker is told before a test, not by each of them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from streamer.testing import broker as module
from streamer.testing.broker import missing_for_broker

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Yield a folder of programs that are found first; no libraries have been fetched."""
    monkeypatch.setattr(module, "LIBRARIES", tmp_path / "broker" / "libs")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    module._missing_libraries.cache_clear()  # noqa: SLF001 - of the process
    yield tmp_path
    module._missing_libraries.cache_clear()  # noqa: SLF001


def put(folder: Path, name: str, line: str) -> None:
    """Write a program of one line."""
    (folder / name).write_text(f"#!/bin/sh\n{line}\n", encoding="utf-8")
    (folder / name).chmod(0o755)


def test_libraries_that_cannot_be_fetched_are_named(programs: Path) -> None:
    put(programs, "java", "exit 0")
    put(programs, "mvn", "echo '[ERROR] no such repository'; exit 1")
    missing = missing_for_broker()
    assert missing is not None
    assert missing[0] == "Apache Kafka"
    with pytest.raises(RuntimeError, match="no such repository"):
        module.broker("fetch", programs / "broker")


def test_libraries_are_fetched_once(programs: Path) -> None:
    put(programs, "java", "exit 0")
    put(programs, "mvn", f"echo fetched >> {programs}/calls")
    assert [missing_for_broker(), missing_for_broker()] == [None, None]
    assert (programs / "calls").read_text() == "fetched\n"
