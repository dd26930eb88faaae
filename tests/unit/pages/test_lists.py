"""Lists of page files: what their lines name, here and elsewhere."""

import gzip
from pathlib import Path

import pytest

from streamer.errors import InputError
from streamer.pages import lists
from streamer.pages.files import open_sources
from streamer.pages.lists import expand_lists
from tests.helpers.pipes import line
from tests.helpers.web_server import WebServer


def test_a_list_here_names_files_from_its_folder_and_urls(tmp_path: Path) -> None:
    folder = tmp_path / "crawl"
    folder.mkdir()
    (folder / "all.paths").write_text("\ufeffa.jsonl\n\n /data/b.jsonl \r\ns3://bucket/c.jsonl\n")
    found = [f"{folder}/a.jsonl", "/data/b.jsonl", "s3://bucket/c.jsonl"]
    assert expand_lists(["x.jsonl", f"{folder}/all.paths", "-"]) == ["x.jsonl", *found, "-"]
    for name in ("a.jsonl", "b.jsonl"):
        (folder / name).write_bytes(line(1))
    (folder / "some.PATHS.gz").write_bytes(gzip.compress(b"b.jsonl\na.jsonl\nb.jsonl"))
    names = [source.name for source in open_sources([f"{folder}/some.PATHS.gz"]).sources]
    assert names == [f"{folder}/b.jsonl", f"{folder}/a.jsonl"]


def test_a_list_elsewhere_names_files_from_the_root(web: WebServer) -> None:
    web.put("/crawl/1.jsonl", line(1))
    web.put("/crawl/2.jsonl", line(2))
    listed = gzip.compress(f"crawl/2.jsonl\n{web.url}/crawl/1.jsonl?sig=x\n".encode())
    url = web.put("/crawl/CC/warc.paths.gz", listed)
    sources = open_sources([f"{url}?sig=y"]).sources
    assert [each.name for each in sources] == [f"{web.url}/crawl/{n}.jsonl" for n in (2, 1)]
    web.put("/crawl/CC/warc.paths.gz", gzip.compress(b"crawl/3.jsonl"), "two")
    with pytest.raises(InputError, match=r"/crawl/3.jsonl: is not there"):
        open_sources([url])


@pytest.mark.parametrize(
    ("name", "data", "reported"),
    [
        ("a.paths", b"\n", "names no file"),
        ("a.paths", b"\xff\xfe", "is no UTF-8"),
        ("a.paths", b"12345678901", "is larger than 10 bytes"),
        ("a.paths.gz", gzip.compress(b"b")[:-3], "ends too early"),
        ("a.paths", b"b.jsonl", "no such file"),
    ],
)
def test_what_is_no_list_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, data: bytes, reported: str
) -> None:
    monkeypatch.setattr(lists, "LIST_BYTES_MAX", 10)
    (tmp_path / name).write_bytes(data)
    with pytest.raises(InputError, match=reported):
        open_sources([str(tmp_path / name)])
    with pytest.raises(InputError, match="No such file"):
        open_sources([str(tmp_path / "none.paths")])
