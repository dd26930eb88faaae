"""A replay of the records that a CDX file names judges as one of archives with only these."""

import gzip
from datetime import timedelta
from pathlib import Path

import pytest

from streamer.pages import remote
from tests.helpers.cdx import archive
from tests.helpers.object_store import ObjectStore
from tests.helpers.pipes import url_of, warc_record
from tests.helpers.place import Place, lines
from tests.helpers.web_server import WebServer

PAGES = 240
CRAWL = archive("crawl-data/a.warc.gz", [*map(warc_record, range(PAGES))])
pytest.importorskip("obstore")
LINES = [CRAWL.line(number, url_of(number)) for number in range(PAGES)]


@pytest.fixture(autouse=True)
def _served(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    (place.folder / CRAWL.name).parent.mkdir()
    place.write(CRAWL.name, CRAWL.data)
    monkeypatch.setattr("streamer.object_store._PATIENCE", timedelta(seconds=0.05))
    monkeypatch.setattr(remote, "TRIES", 2)


def offsets(place: Place) -> list[int]:
    return [each["page"]["offset"] for each in lines(place.verdicts)]


def test_verdicts_are_those_of_the_archive_though_the_connection_is_cut_ten_times(
    place: Place, web: WebServer
) -> None:
    whole = place.judged("whole", place.folder / CRAWL.name)
    assert whole.count(b'"duplicate"') == PAGES // 3
    path = place.write("index.cdxj", *LINES)
    here = place.judged("here", path)
    assert here.replace(b"index.cdxj", CRAWL.name.encode()) == whole
    web.put(f"/{CRAWL.name}", CRAWL.data)
    url = web.put("/index.cdxj.gz", gzip.compress(b"".join(LINES)))
    web.cuts, web.cut_bytes = 10, len(CRAWL.data) // 12
    there = place.judged("there", url)
    assert web.cuts == 0
    assert there.replace(url.encode(), str(path).encode()) == here
    assert place.judged("base", path, "--cdx-base", web.url) == here


def test_archives_in_an_object_store_are_read(place: Place, store: ObjectStore) -> None:
    (store.files / "crawl-data").mkdir()
    (store.files / CRAWL.name).write_bytes(CRAWL.data)
    (store.files / "index.cdxj").write_bytes(b"".join(LINES))
    bucket = store.url.rpartition("/")[0]
    there = place.judged("there", f"{bucket}/index.cdxj")
    here = place.judged("here", place.write("index.cdxj", *LINES))
    assert there.replace(f"{bucket}/".encode(), f"{place.folder}/".encode()) == here


def test_a_list_that_grows_goes_on_at_its_line(place: Place, web: WebServer) -> None:
    web.put(f"/{CRAWL.name}", CRAWL.data)
    url = web.put("/index.cdxj", b"".join(LINES[:100]))
    assert place.replay(url) == 0
    web.put("/index.cdxj", b"".join(LINES), "two")
    web.asked.clear()
    assert place.replay(url) == 0
    assert offsets(place) == [*range(PAGES)]
    first = min(
        int(each.partition("=")[2].partition("-")[0]) for each in web.asked if "a.w" in each
    )
    assert first == CRAWL.places[100][0]
    assert place.replay(url) == 0
    assert offsets(place) == [*range(PAGES)]


def test_a_store_that_is_away_ends_the_run_and_the_same_command_goes_on(
    place: Place, web: WebServer, capsys: pytest.CaptureFixture[str]
) -> None:
    other = archive("crawl-data/b.warc.gz", [*map(warc_record, range(PAGES))])
    web.put(f"/{CRAWL.name}", CRAWL.data)
    web.put(f"/{other.name}", other.data)
    path = place.write("index.cdxj", *LINES[:50], other.line(1, url_of(1)), *LINES[51:])
    base = ("--cdx-base", web.url)
    web.status = 500
    assert place.replay(path, *base) == 1
    assert "cannot be read" in capsys.readouterr().err
    web.status, web.statuses = 200, {f"/{other.name}": 500}
    assert place.replay(path, *base) == 0
    assert offsets(place) == [each for each in range(PAGES) if each != 50]
    [letter] = lines(Path(f"{place.verdicts}.dead.jsonl"))
    assert (letter["code"], letter["page"]["offset"]) == ("archive_unreadable", 50)
    assert not letter["truncated"]
    capsys.readouterr()
    assert place.replay(path, *base) == 0
    reported = " ".join(capsys.readouterr().out.split())
    assert "1 of them dead letters; to judge lines of a CDX file again, write them with" in reported
    assert "give their file as PAGES" not in reported
    again = place.folder / "again.cdxj"
    letters = f"{place.verdicts}.dead.jsonl"
    assert place.streamer("dead-letters", "show", letters, "--out", again) == 0
    assert again.read_bytes() == other.line(1, url_of(1))
    web.statuses = {}
    assert place.replay(again, *base) == 0
    assert len(offsets(place)) == PAGES


def test_no_list_goes_on_by_a_wrong_base(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    base = place.folder
    (place.folder / "lists").mkdir()
    path = place.write("lists/index.cdxj", *LINES[:100])
    assert place.replay(path, "--cdx-base", base) == 0
    place.write("lists/index.cdxj", *LINES)
    assert place.replay(path) == 2
    reported = " ".join(capsys.readouterr().err.split())
    assert "--cdx-base is probably not where its archives are" in reported
    assert place.replay(path, "--cdx-base", base) == 0
    assert offsets(place) == [*range(PAGES)]
    broken = [CRAWL.line(n, url_of(n), filename="none.warc.gz") for n in range(20)]
    place.write("lists/index.cdxj", *LINES, LINES[0], *broken)
    assert place.replay(path, "--cdx-base", base) == 0
    assert offsets(place) == [*range(PAGES + 1)]


def test_kept_records_are_those_of_the_archive_and_the_index_can_be_verified(place: Place) -> None:
    path = place.write("index.cdx", *(CRAWL.columns(n, url_of(n)) for n in range(PAGES)))
    kept = place.folder / "kept.warc"
    assert place.replay(path, "--kept", kept) == 0
    is_kept = [each["verdict"] == "unique" for each in lines(place.verdicts)]
    wanted = [warc_record(number) for number in range(PAGES) if is_kept[number]]
    assert kept.read_bytes() == b"".join(wanted)
    own = ("--index", place.index, "--verdicts", place.verdicts)
    assert place.streamer("verify", path, *own) == 0
    out = place.folder / "selected.warc"
    assert place.streamer("select", place.verdicts, path, "--out", out) == 0
    assert out.read_bytes() == kept.read_bytes()
