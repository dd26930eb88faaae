"""`replay --revisits`: what a WARC collection needs of duplicates, whatever kill came."""

import gzip
import io
import json
import os
import subprocess
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from warcio.archiveiterator import ArchiveIterator

from tests.helpers.cdx import warc_record
from tests.helpers.kubernetes_tools import TOOLS
from tests.helpers.missing import leave_out
from tests.helpers.place import Place, lines, page
from tests.helpers.ports import free_port, listens
from tests.helpers.wait import wait_until
from tests.integration.test_page_outputs import text_of

PROFILE = "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest"


def body_of(number: int) -> bytes:
    """Return one of seven contents; of each, every third copy has another markup."""
    return b"<p>" + text_of(number % 7) + (b"</p>" if number % 3 == 2 else b"")


def headers_of(number: int) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nX-Number:   %d\r\n\r\n" % number


def record(number: int, *, digest: str = "") -> bytes:
    block = headers_of(number) + body_of(number)
    fields = {
        "WARC-Record-ID": f"<urn:uuid:{number:08x}-0000-4000-8000-000000000000>",
        "WARC-Date": f"2026-01-{1 + number // 24:02}T{number % 24:02}:00:00Z",
        "Content-Type": "application/http; msgtype=response",
        **({"WARC-Payload-Digest": digest} if digest else {}),
    }
    return warc_record("response", f"http://a.example/{number}", block, *fields.items())


def warc(place: Place, name: str, numbers: range) -> Path:
    """Write records in disorder, so that their dates do not ascend."""
    mixed = sorted(numbers, key=lambda number: number * 7919 % 101)
    return place.write(name, *(gzip.compress(record(number)) for number in mixed))


def records(path: Path) -> list[tuple[dict[str, str], bytes]]:
    """Return the headers and blocks of the records of a file, by warcio's reader."""
    return records_of(path.read_bytes())


def number_of(url: str) -> int:
    return int(url.rpartition("/")[2])


def check(place: Place, revisits: Path) -> dict[str, int]:
    """Hold each record against its verdict; return how many there are of which kind."""
    said = [each for each in lines(place.verdicts) if each["verdict"] == "duplicate"]
    found = records(revisits)
    assert [head["WARC-Target-URI"] for head, _ in found] == [each["url"] for each in said]
    assert len({head["WARC-Record-ID"] for head, _ in found}) == len(found)
    counts = {"revisit": 0, "metadata": 0}
    for verdict, (head, block) in zip(said, found, strict=True):
        own, other = number_of(verdict["url"]), number_of(verdict["representative"]["url"])
        theirs = dict(records_of(record(own))[0][0])
        assert head["WARC-Date"] == theirs["WARC-Date"]
        counts[head["WARC-Type"]] += 1
        if body_of(own) == body_of(other):
            assert head["WARC-Type"] == "revisit"
            assert head["WARC-Profile"] == PROFILE
            original = dict(records_of(record(other))[0][0])
            assert head["WARC-Refers-To-Target-URI"] == original["WARC-Target-URI"]
            assert head["WARC-Refers-To-Date"] == original["WARC-Date"]
            assert head["WARC-Payload-Digest"].startswith("sha1:")
            assert block == headers_of(own)
        else:
            assert head["WARC-Type"] == "metadata"
            assert head["WARC-Refers-To"] == theirs["WARC-Record-ID"]
            assert head["Content-Type"] == "application/warc-fields"  # else it is a capture
            assert json.loads(block.removeprefix(b"verdict: ")) == verdict
    return counts


def records_of(data: bytes) -> list[tuple[dict[str, str], bytes]]:
    return [
        (dict(each.rec_headers.headers), each.raw_stream.read())
        for each in ArchiveIterator(io.BytesIO(data), no_record_parse=True)
    ]


def test_equal_payloads_become_revisits_and_near_ones_metadata_over_runs(place: Place) -> None:
    revisits = place.folder / "revisits.warc.gz"
    kept = ("--kept", place.folder / "kept.warc.gz")
    arguments = ("--revisits", revisits, *kept, *place.key)
    assert place.replay(warc(place, "one.warc.gz", range(40)), *arguments) == 0
    assert place.replay(warc(place, "two.warc.gz", range(40, 60)), *arguments) == 0
    counts = check(place, revisits)
    assert counts["revisit"] > 20
    assert counts["metadata"] > 10


def test_the_digest_is_the_one_that_the_representative_is_known_by(place: Place) -> None:
    file = place.write(
        "pages.warc", record(0, digest="sha256:ABC"), record(7, digest="sha1:OTHER"), record(21)
    )
    revisits = place.folder / "revisits.warc"
    assert place.replay(file, "--revisits", revisits) == 0
    heads = [head for head, _ in records(revisits)]
    assert [head.get("WARC-Payload-Digest") for head in heads] == ["sha256:ABC"] * len(heads)
    assert [head["WARC-Type"] for head in heads] == ["revisit", "revisit"]


def test_revisits_are_of_warc_files_only(place: Place, capfd: pytest.CaptureFixture[str]) -> None:
    file = place.write("pages.jsonl", page(1))
    assert place.replay(file, "--revisits", place.folder / "revisits.warc.gz") == 2
    assert "holds JSON lines" in capfd.readouterr().err
    assert place.replay(file, "--revisits", place.folder / "revisits.jsonl") == 2
    assert "Name it as revisits.warc.gz" in " ".join(capfd.readouterr().err.split())


def test_pywb_shows_what_a_revisit_refers_to(place: Place) -> None:
    pywb = TOOLS / "pywb" / "bin"
    manager, server = str(pywb / "wb-manager"), str(pywb / "wayback")
    if not Path(manager).exists():
        leave_out("pywb", ".ci/tools pywb")
    file = warc(place, "pages.warc.gz", range(40))
    kept, revisits = place.folder / "kept.warc.gz", place.folder / "revisits.warc.gz"
    assert place.replay(file, "--kept", kept, "--revisits", revisits) == 0
    archive = place.folder / "archive"
    archive.mkdir()
    for command in (["init", "pages"], ["add", "pages", str(kept), str(revisits)]):
        subprocess.run([manager, *command], cwd=archive, check=True, capture_output=True)
    port = free_port()
    command = [server, "--port", str(port), "--bind", "127.0.0.1"]
    with subprocess.Popen(
        command, cwd=archive, env={**os.environ, "PYTHONPATH": ""},
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    ) as process:  # fmt: skip
        try:
            wait_until(lambda: listens(port))
            shown = 0
            for head, _ in records(revisits):
                if head["WARC-Type"] != "revisit":
                    continue
                url, stamp = (
                    head["WARC-Target-URI"],
                    head["WARC-Date"].translate({ord(each): None for each in "-:TZ"}),
                )
                own = f"http://127.0.0.1:{port}/pages/{stamp}id_/{url}"
                with urllib.request.urlopen(own, timeout=30) as answer:
                    assert answer.read() == body_of(number_of(url))
                shown += 1
            assert shown > 5
        finally:
            process.terminate()
