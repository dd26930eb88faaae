"""Remote files: the bytes of a file on a web server, whatever becomes of its connections."""

import gzip
import io
import random
import time
import zipfile
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from streamer.errors import InputError, SettingsError
from streamer.pages import remote
from streamer.pages.chunk import Ending
from streamer.pages.files import Source, open_sources
from streamer.pages.remote import RemoteFile, RemoteObject, is_remote, look_up, name_of
from tests.helpers.chunks import all_chunks
from tests.helpers.pipes import line, warc_record
from tests.helpers.web_server import WebServer
from tests.unit.pages.test_table_copy import write

DATA = random.Random(1).randbytes(700_000)
BLOCK = 100_000


@pytest.fixture
def web(web: WebServer, monkeypatch: pytest.MonkeyPatch) -> WebServer:
    monkeypatch.setattr(remote, "BLOCK_BYTES", BLOCK)
    monkeypatch.setattr("streamer.object_store._PATIENCE", timedelta(seconds=0.05))
    return web


def found(url: str) -> RemoteObject:
    [one] = look_up([url])[name_of(url)].objects
    return one


def opened(url: str) -> RemoteFile:
    return RemoteFile(found(url))


def only(url: str) -> Source:
    [source] = open_sources([url]).sources
    return source


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        *((f"{scheme}://place/a.jsonl?x", True) for scheme in ("s3", "gs", "az", "http", "https")),
        *((name, False) for name in ("a.jsonl", "s3:/place/a.jsonl", "ftp://place/a.jsonl", "s3")),
    ],
)
def test_a_url_is_told_from_a_path(name: str, is_one: bool) -> None:
    assert is_remote(name) is is_one


def test_a_file_is_read_in_blocks_from_anywhere(web: WebServer) -> None:
    with opened(web.put("/a.jsonl", DATA)) as file:
        assert file.read() == DATA
        assert file.read(1) == b""
        draw = random.Random(2)
        for _ in range(50):
            start, size = draw.randrange(len(DATA)), draw.randrange(2 * BLOCK)
            assert file.seek(start) == start
            assert file.read(size) == DATA[start : start + size]
            assert file.at(start, size) == DATA[start : start + size]
        assert file.seek(-5, io.SEEK_END) == len(DATA) - 5 == file.tell()
        assert file.read() == DATA[-5:]


def test_blocks_are_read_once_and_few_kept(web: WebServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "BLOCKS_KEPT", 3)
    with opened(web.put("/a.jsonl", DATA)) as file:
        web.asked.clear()
        most = 0
        while file.read(30_000):
            most = max(most, len(file._blocks))  # noqa: SLF001 - what is in memory
        assert len(web.asked) == 7
        assert most == 3


@pytest.mark.parametrize("tag", ["one", "W/weak", ""])
def test_a_connection_that_is_cut_is_taken_up_at_its_byte(web: WebServer, tag: str) -> None:
    url = web.put("/a.jsonl", DATA, tag)
    web.cuts, web.cut_bytes = 10, 20_000
    with opened(url) as file:
        assert file.read() == DATA
    assert web.cuts == 0


def test_a_silent_connection_is_given_up(web: WebServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "TRIES", 2)
    url = web.put("/a.jsonl", DATA, "")
    web.cuts, web.cut_bytes = 100, 0
    with opened(url) as file, pytest.raises(InputError, match=r"ends at byte 0 again and again"):
        file.read()


def test_a_failing_server_is_asked_again(web: WebServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamer.object_store._PATIENCE", timedelta(minutes=1))
    soon = timedelta(milliseconds=1)
    waits = {"init_backoff": soon, "base": 4, "max_backoff": 4 * soon}
    monkeypatch.setattr("streamer.object_store._WAITS", waits)
    url = web.put("/a.jsonl", DATA)
    web.failures = 50
    with opened(url) as file:
        web.failures = 50
        assert file.read() == DATA
    assert web.failures == 0
    monkeypatch.setattr("streamer.object_store._PATIENCE", timedelta(seconds=0.2))
    web.status = 503
    with pytest.raises(InputError, match="cannot be read"):
        found(url)


def test_a_file_that_changes_while_it_is_read_is_refused(web: WebServer) -> None:
    url = web.put("/a.jsonl", DATA)
    with opened(url) as file:
        assert file.read(10) == DATA[:10]
        web.put("/a.jsonl", DATA, "two")
        with pytest.raises(InputError, match=r"has changed while it was read"):
            file.read()
    with opened(url) as file:
        web.put("/a.jsonl", b"", "three")
        with pytest.raises(InputError, match=r"shorter than when it was looked up"):
            file.at(3 * BLOCK, 1)
    web.put("/a.jsonl", DATA, "")
    with opened(url) as file:
        web.modified = "Thu, 22 Oct 2015 07:28:00 GMT"
        with pytest.raises(InputError, match=r"has changed"):
            file.read()


def test_what_a_server_refuses_is_explained(web: WebServer) -> None:
    url = web.put("/a.jsonl", DATA)
    with pytest.raises(InputError, match=r"/b.jsonl: is not there"):
        look_up([f"{web.url}/b.jsonl"])
    with opened(url) as file:
        web.files.clear()
        with pytest.raises(InputError, match="is not there"):
            file.read()
    web.put("/a.jsonl", DATA)
    answers = {403: "no permission", 401: "no permission", 500: "cannot be read"}
    for web.status, reported in answers.items():
        with pytest.raises(InputError, match=reported):
            look_up([url])
    web.status, web.lengths = 200, False
    with pytest.raises(InputError, match=r"Content-Length.*curl URL \| streamer replay -"):
        look_up([url])
    web.lengths, web.modified = True, ""
    with pytest.raises(InputError, match="neither ETag nor Last-Modified"):
        look_up([web.put("/a.jsonl", DATA, "")])


@pytest.mark.parametrize("status", [204, 400, 401, 403, 404, 405, 500, 501, 503])
@pytest.mark.parametrize("ranges", [True, False])
def test_get_looks_up_what_head_does_not_tell(web: WebServer, status: int, *, ranges: bool) -> None:
    web.heads, web.ranges = status, ranges
    data, began = DATA[:BLOCK], time.monotonic()
    with opened(web.put("/a.jsonl", data)) as file:
        assert file.read() == data
    with opened(web.put("/b.jsonl", b"")) as file:
        assert file.read() == b""
    with pytest.raises(InputError, match=r"/c.jsonl: is not there"):
        look_up([f"{web.url}/c.jsonl"])
    assert time.monotonic() - began < 60, "HEAD is asked once"


def test_two_etags_are_named_with_the_remedy(web: WebServer) -> None:
    web.put("/a.jsonl", DATA, "one two")
    reported = r"ETags \((one before, two|two before, one) now.*if that does not help.*curl URL"
    with opened(f"{web.url}/a.jsonl") as file, pytest.raises(InputError, match=reported):
        file.read()


def test_few_small_files_are_read_ahead(web: WebServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "FILES_AHEAD", 4)
    monkeypatch.setattr(remote, "BYTES_AHEAD", 3 * BLOCK)
    small = [found(web.put(f"/{number}.jsonl", DATA[:number])) for number in range(1, 10)]
    wide = [found(web.put(f"/wide{number}.jsonl", DATA[:BLOCK])) for number in range(5)]
    large = found(web.put("/large.jsonl", DATA))
    web.asked.clear()
    with remote.ReadAhead([*small, large, *wide]) as ahead:
        for number, each in enumerate([*small, large, *wide]):
            ahead.come_to(each)
            begun = [one for one in [*small, large, *wide] if one.ahead]
            assert sum(one.size for one in begun) <= 3 * BLOCK
            assert len(begun) <= 5
            assert not [one for one in [*small, large, *wide][:number] if one.ahead]
            assert each.ahead or each is large
            with RemoteFile(each) as file:
                assert file.read() == DATA[: each.size]
    gets = [each.split()[1] for each in web.asked]
    assert sorted(gets) == sorted(
        [*(each.name[len(web.url) :] for each in [*small, *wide])] + 7 * ["/large.jsonl"]
    )


def test_a_file_that_could_not_be_read_before_its_turn_is_read_again(web: WebServer) -> None:
    first, second = (found(web.put(f"/{name}.jsonl", DATA[:5])) for name in "ab")
    web.statuses = {"/b.jsonl": 500}
    with remote.ReadAhead([first, second]) as ahead:
        ahead.come_to(first)
        assert second.ahead[0].exception()
        web.statuses = {}
        ahead.come_to(second)
        assert second.whole() == DATA[:5]


def test_a_signed_url_is_read_and_shown_nowhere(web: WebServer) -> None:
    url = web.put("/a b%C3%A9.jsonl", line(1) * 3).replace(" ", "%20")
    web.files["/a%20b%C3%A9.jsonl"] = web.files["/a b%C3%A9.jsonl"]
    web.tags["/a%20b%C3%A9.jsonl"] = "one"
    web.heads = 403  # as it is signed for GET
    source = only(f"{url}?X-Amz-Signature=SECRET")
    assert source.name == url
    assert "SECRET" not in repr(source)
    assert sum(len(chunk.lines) for chunk in all_chunks(source)) == 3
    web.status = 500
    with pytest.raises(InputError) as caught:
        look_up([f"{url}?X-Amz-Signature=SECRET"])
    assert "SECRET" not in str(caught.value)
    with pytest.raises(InputError, match="differ only after the question mark"):
        look_up([f"{url}?sig=a", f"{url}?sig=b"])


@pytest.mark.parametrize(
    "place",
    [
        "https://user:SECRET@host/a.jsonl", "https://user:SEC?RET@host/a.jsonl",
        "https://user:SEC/RET@host/a.jsonl", "s3://key:SECRET@b/a.jsonl",
        "s3://key:SEC/RET@b/a.jsonl",
    ],
)  # fmt: skip
def test_a_password_is_refused_and_not_shown(place: str) -> None:
    with pytest.raises(InputError, match="a user or a password") as caught:
        open_sources([place])
    assert "SEC" not in str(caught.value)


def test_what_leads_to_no_file_is_refused(web: WebServer, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="web servers do not list their files"):
        open_sources([f"{web.url}/folder/"])
    with pytest.raises(InputError, match="not a known kind of file"):
        open_sources([web.put("/a.doc", b"text")])
    with pytest.raises(InputError, match="is a ZIP archive"):
        list(all_chunks(only(web.put("/a.jsonl", b"PK\x03\x04" + bytes(600)))))
    with pytest.raises(InputError, match="has no bucket or host"):
        open_sources(["s3:///a.jsonl"])
    for place in ("http://[::1]:80/a", "http://host:80/a", "s3://bucket/@:a", "https://host/@a"):
        assert name_of(place) == place
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SKIP_SIGNATURE", "AWS_METADATA_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(SettingsError, match=r"Files in s3://bucket need credentials.*SKIP_SIG"):
        open_sources(["s3://bucket/a.jsonl"])


def _wacz(records: list[bytes]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("archive/0.warc.gz", b"".join(map(gzip.compress, records)))
    return file.getvalue()


LINES = [*map(line, range(4_000))]
FILES = {
    "pages.jsonl": b"".join(LINES),
    "pages.jsonl.gz": gzip.compress(b"".join(LINES)),  # one member, which is gone through twice
    "pages.warc.gz": b"".join(gzip.compress(warc_record(number)) for number in range(2_000)),
    "pages.wacz": _wacz([*map(warc_record, range(2_000))]),
    "pages.csv": b"url,body\n" + b"".join(b"http://a.example/%d,text\n" % n for n in range(9_000)),
    "page.html": b"<p>" + b"word " * 100,
}


def assert_same(here: Source, there: Source) -> None:
    chunks, wanted = list(all_chunks(there)), list(all_chunks(here))
    assert wanted
    assert [chunk.mark for chunk in chunks] == [chunk.mark for chunk in wanted]
    assert [chunk.pages for chunk in chunks] == [chunk.pages for chunk in wanted]
    assert [list(chunk.lines) for chunk in chunks] == [list(chunk.lines) for chunk in wanted]


@pytest.mark.parametrize("name", [*FILES])
def test_chunks_are_those_of_the_same_file_here(tmp_path: Path, web: WebServer, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(FILES[name])
    url = web.put(f"/{name}", FILES[name])
    web.cuts, web.cut_bytes = 3, 20_000
    assert_same(Source(str(path), is_regular=True, url=url), only(url))


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_tables_are_read_in_place(
    tmp_path: Path, web: WebServer, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(remote, "BLOCK_BYTES", 20_000)
    rows = [{"url": f"http://a.example/{n}", "body": DATA[n : n + 40].hex()} for n in range(9_000)]
    path = write(tmp_path / f"pages.{kind}", pa.Table.from_pylist(rows), 2_000)
    url = web.put(f"/pages.{kind}", path.read_bytes())
    assert_same(Source(str(path), is_regular=True), only(url))
    with only(url).open() as records:
        web.put(f"/pages.{kind}", path.read_bytes(), "two")
        with pytest.raises(InputError, match="has changed while it was read"):
            list(records.chunks(0, Ending()))
    for name, data, said in (
        ("cut", path.read_bytes()[:-9_000], "no whole"),
        ("none", b"", "empty"),
    ):
        with pytest.raises(InputError, match=said):
            only(web.put(f"/{name}.{kind}", data)).open()
