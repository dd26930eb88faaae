"""Places in archives: near ones in one request, and what fails told of one archive or of all."""

import os
import random
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest

from streamer.errors import InputError, InvalidPage
from streamer.pages import archives, remote
from streamer.pages.archives import GAP_BYTES_MAX, ArchiveRange, ArchiveReader, requests_for
from tests.helpers.web_server import WebServer, web_server

DATA = random.Random(1).randbytes(700_000)
K = 1 << 10


@pytest.fixture
def web(web: WebServer, monkeypatch: pytest.MonkeyPatch) -> WebServer:
    monkeypatch.setattr("streamer.object_store._PATIENCE", timedelta(seconds=0.05))
    monkeypatch.setattr(remote, "TRIES", 2)
    return web


def ranges(places: Sequence[ArchiveRange]) -> list[tuple[str, int, int, list[int]]]:
    return [(each.archive, each.start, each.end, each.numbers) for each in requests_for(places)]


def read(places: Sequence[ArchiveRange], root: str = "") -> list[bytes | str]:
    """Return the bytes of places, or why there are none."""
    found: list[bytes | str] = []
    with ArchiveReader(root) as opened:
        for result in opened.ask(places):
            try:
                found.append(result().data)
            except InvalidPage as fault:
                found.append(f"{fault.code}: {fault.detail}")
    return found


def test_near_places_are_one_request() -> None:
    in_a, end = partial(ArchiveRange, "a"), 10 * K
    near, far = end + GAP_BYTES_MAX, end + GAP_BYTES_MAX + 1
    assert ranges([]) == []
    assert ranges([in_a(near, near + 5), in_a(0, end)]) == [("a", 0, near + 5, [1, 0])]
    apart = [("a", 0, end, [1]), ("a", far, far + 5, [0])]
    assert ranges([in_a(far, far + 5), in_a(0, end)]) == apart
    assert ranges([in_a(0, 5), ArchiveRange("b", 5, 9)]) == [("a", 0, 5, [0]), ("b", 5, 9, [1])]
    assert ranges([in_a(0, 9), in_a(2, 3), in_a(0, 9)]) == [("a", 0, 9, [0, 2, 1])]


def test_a_request_is_bounded_unless_a_place_is_larger() -> None:
    size = archives.RANGE_BYTES_MAX
    places = [ArchiveRange("a", n * size // 4, (n + 1) * size // 4) for n in range(9)]
    assert [len(numbers) for *_, numbers in ranges(places)] == [4, 4, 1]
    assert ranges([ArchiveRange("a", 0, 3 * size)]) == [("a", 0, 3 * size, [0])]


def test_bytes_are_those_of_the_file_whatever_is_asked_for(web: WebServer, tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(DATA)
    url, draw = web.put("/a", DATA), random.Random(2)
    starts = [draw.randrange(len(DATA)) for _ in range(200)]
    places = [(start, start + draw.randrange(1, 20_000)) for start in starts]
    web.cuts, web.cut_bytes = 10, 20_000
    wanted = [DATA[start:end] for start, end in places]
    assert read([ArchiveRange(url, *each) for each in places]) == wanted
    assert read([ArchiveRange(str(path), *each) for each in places]) == wanted
    assert web.cuts == 0
    assert not [each for each in web.asked if each.startswith("HEAD")]


def test_places_behind_the_end_have_no_bytes(web: WebServer, tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(DATA)
    for name in (web.put("/a", DATA), str(path)):
        ends = ((900_000, 900_005), (0, 5), (699_999, 700_009))
        places = [ArchiveRange(name, *each) for each in ends]
        assert read(places) == ["archive_unreadable: it has 700,000 bytes", DATA[:5], DATA[-1:]]
        assert read(places[:1]) == ["archive_unreadable: it has 700,000 bytes"]


def test_what_is_wrong_with_an_archive_is_its_records_fault(web: WebServer, tmp_path: Path) -> None:
    good = ArchiveRange(web.put("/good", DATA), 0, 5)
    broken, forbidden = (ArchiveRange(web.put(f"/{name}", DATA), 0, 5) for name in ("500", "403"))
    web.statuses = {"/500": 500, "/403": 403}
    assert (
        read([good, ArchiveRange(f"{web.url}/none", 0, 5)])[1] == "archive_unreadable: is not there"
    )
    with ArchiveReader("") as opened:
        assert opened.ask([good])[0]().data == DATA[:5]
        for place in (broken, forbidden):
            with pytest.raises(InvalidPage, match="archive_unreadable"):
                opened.ask([place])[0]()
    web.broken = {"/good": 100_000}
    found = read([good, ArchiveRange(good.archive, 200_000, 200_005)])
    assert found[0] == DATA[:5]
    assert "the connection ends at byte 200,000 again" in str(found[1])
    os.mkfifo(tmp_path / "pipe")
    for name, why in (("pipe", "is no file"), ("none", "No such file"), ("", "is no file")):
        assert why in str(read([ArchiveRange(str(tmp_path / name), 0, 5)], str(tmp_path))[0])
    assert "null byte" in str(read([ArchiveRange("a\0b", 0, 5)])[0])
    assert "0 bytes" in str(read([ArchiveRange("/proc/self/mem", 0, 5)])[0])


def test_a_store_that_is_away_ends_the_run(web: WebServer, tmp_path: Path) -> None:
    place = ArchiveRange(web.put("/a", DATA), 0, 5)
    for status in (500, 403):
        web.status = status
        with pytest.raises(InputError, match=f"{place.archive}: "):
            read([place])
    web.status = 200
    with ArchiveReader("") as opened:
        opened.ask([place])[0]()
        web.status = 500
        with pytest.raises(InputError, match="cannot be read"):
            opened.ask([ArchiveRange(web.put("/b", DATA), 0, 5)])[0]()
    web.status, web.ranges = 200, False
    with pytest.raises(InputError, match=r"gives whole files only"):
        read([place])
    with pytest.raises(InputError, match="the folder of the archives is not there"):
        read([ArchiveRange(str(tmp_path / "none" / "a"), 0, 5)], str(tmp_path / "none"))


@pytest.fixture
def six_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a request that fails sent again five times, soon."""
    soon = timedelta(milliseconds=1)
    waits = {"init_backoff": soon, "base": 2, "max_backoff": 2 * soon}
    monkeypatch.setattr("streamer.object_store._WAITS", waits)
    monkeypatch.setattr("streamer.object_store._RETRIES_MAX", 5)
    monkeypatch.setattr("streamer.object_store._PATIENCE", timedelta(minutes=1))


@pytest.mark.usefixtures("web", "six_tries")
def test_a_dead_host_is_asked_once_where_others_answer(web: WebServer) -> None:
    good = ArchiveRange(web.put("/a", DATA), 0, 5)
    with web_server() as dead, ArchiveReader("") as opened:
        dead.status = 500
        places = [ArchiveRange(dead.put(f"/{n}", DATA), n, n + 5) for n in range(50)]
        opened.ask([good])[0]()
        for number, place in enumerate(places):
            reported = "cannot be read .*500" if not number else rf"{dead.url} could not be reached"
            with pytest.raises(InvalidPage, match=f"archive_unreadable: {reported}"):
                opened.ask([place])[0]()
        assert len(dead.asked) == 6 + 1
        assert opened.ask([good])[0]().data == DATA[:5]


@pytest.mark.usefixtures("web", "six_tries")
def test_a_few_archives_of_a_host_are_waited_for(web: WebServer) -> None:
    good = ArchiveRange(web.put("/good", DATA), 0, 5)
    bad = [ArchiveRange(web.put(f"/{n}", DATA), 0, 5) for n in range(10)]
    web.statuses = {f"/{n}": 500 for n in range(10)}
    with ArchiveReader("") as opened:
        opened.ask([good])[0]()
        for place in bad:
            with pytest.raises(InvalidPage, match="archive_unreadable"):
                opened.ask([place])[0]()
    assert [web.asked.count(f"GET /{n} bytes=0-4") for n in range(10)] == 3 * [2 * 6] + 7 * [2]


@pytest.mark.usefixtures("web", "six_tries")
def test_the_places_of_a_request_that_failed_do_not_wait_again(web: WebServer) -> None:
    good = ArchiveRange(web.put("/a", DATA), 0, 5)
    url = web.put("/b", DATA)
    web.statuses = {"/b": 500}
    with ArchiveReader("") as opened:
        opened.ask([good])[0]()
        for result in opened.ask([ArchiveRange(url, n, n + 5) for n in (0, 10, 20)]):
            with pytest.raises(InvalidPage, match="archive_unreadable"):
                result()
    assert web.asked.count("GET /b bytes=0-24") == 2 * 6
    for asked in ("bytes=0-4", "bytes=10-14", "bytes=20-24"):
        assert web.asked.count(f"GET /b {asked}") == 2


def test_archives_with_other_queries_are_others(web: WebServer) -> None:
    url = web.put("/a", DATA)
    with ArchiveReader("") as opened:
        places = [ArchiveRange(each, 0, 5) for each in (f"{url}?id=1", f"{url}?id=SECRET", url)]
        found = [result().version for result in opened.ask(places)]
    assert {each.name for each in found} == {url}
    assert len({each.key for each in found}) == 3
    assert found[2].key == url
    assert "SECRET" not in repr(found)


def test_a_disk_that_goes_away_ends_the_run(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    (disk / "a").write_bytes(DATA)
    (disk / "b").write_bytes(DATA)
    first, second, absent = (ArchiveRange(str(disk / name), 0, 5) for name in ("a", "b", "none"))
    with ArchiveReader(str(tmp_path)) as opened:
        opened.ask([first])[0]()
        with pytest.raises(InvalidPage, match="archive_unreadable"):
            opened.ask([absent])[0]()
        disk.rename(tmp_path / "away")
        with pytest.raises(InputError, match=r"b: No such file.*a was read before and is gone"):
            opened.ask([second])[0]()


def test_only_allowed_connections_are_open(web: WebServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "CONNECTIONS", 3)
    web.delay = 0.02
    assert read([ArchiveRange(web.put(f"/{n}", DATA), 0, 5) for n in range(12)]) == 12 * [DATA[:5]]
    assert web.most == 3
