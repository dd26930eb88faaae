from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

from streamer import Deduplicator
from streamer.cli.main import app
from streamer.console.answers import ConsoleData, NoQuery
from streamer.console.audit import AuditQuery, audit
from streamer.console.index import IndexOptions, IndexReader
from streamer.console.overview import overview
from streamer.upkeep.audit_trail import NAME
from tests.unit.console.test_server import ask
from tests.unit.run.test_page_check import KEPT

HOST = "h3.example"


def run(*arguments: object) -> None:
    app([*map(str, arguments)], standalone_mode=False)


def test_without_an_index_the_view_says_so(data: ConsoleData) -> None:
    assert not audit(data, AuditQuery()).has_index
    assert "Start the console with the folder of an index" in ask(data, "/audit").text


def test_commands_that_change_an_index_are_shown(tmp_path: Path, data: ConsoleData) -> None:
    index, snapshots, again = (tmp_path / name for name in ("index", "snapshots", "again"))
    with Deduplicator(index) as dedup:
        list(dedup.add(KEPT))
    with_index = replace(data, index=IndexReader(IndexOptions(index)))
    assert "No command has changed this index" in ask(with_index, "/audit").text
    run("snapshot", index, snapshots)
    run("forget", index, "--host", HOST, "--dry-run")
    run("forget", index, "--host", HOST)
    run("forget", index, "--host", HOST)  # there is nothing left
    run("reshard", index, "--to", 2)
    commands = [deed.command for deed in audit(with_index, AuditQuery()).deeds]
    assert commands == ["reshard", "forget", "snapshot"]
    forgotten = audit(with_index, AuditQuery()).deeds[1]
    assert forgotten.figures == {"pages": 9, "host_names": 1}
    assert HOST not in (index / NAME).read_text()
    run("restore", snapshots, again)
    restored = replace(data, index=IndexReader(IndexOptions(again)))
    assert [deed.command for deed in audit(restored, AuditQuery()).deeds] == ["restore"]
    assert "<td>forget</td>" in ask(with_index, "/audit").text
    assert overview(with_index, NoQuery()).last_snapshot.startswith("20")
    shutil.rmtree(index.with_name("index.before"))
    run("reshard", index, "--to", 1)  # a trail is no reason to refuse
