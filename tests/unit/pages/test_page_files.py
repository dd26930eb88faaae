"""Files that are one page each."""

import gzip
from pathlib import Path

import pytest

from streamer.errors import InputError
from streamer.pages.chunk import PageBatch
from streamer.pages.files import Source, open_sources
from streamer.pages.parse import PageParser
from streamer.text.visible import HTML
from tests.helpers.chunks import all_chunks

HTML_PAGE = '<html><head><meta charset="iso-8859-1"></head><body><p>café</p></body></html>'


def parsed(source: Source) -> list[PageBatch]:
    """Return what is read of a source in both ways, which must be the same."""
    batches = [PageParser().parse(chunk) for chunk in all_chunks(source)]
    small = source.read_small()
    if small is not None:
        chunk, status = small
        assert [(each.start, each.end, each.mark) for each in all_chunks(source)] == (
            [(0, 1, chunk.mark)] if chunk.end else []
        )
        assert status == source.status()
        quick = PageParser().parse(chunk)
        assert [list(map(bytes, each.bodies)) for each in batches] == (
            [list(map(bytes, quick.bodies))] if chunk.end else []
        )
    return batches


@pytest.mark.parametrize(
    ("name", "content", "body", "flags"),
    [
        ("a.html", HTML_PAGE.encode("latin-1"), HTML_PAGE.encode(), HTML),
        ("a.XHTML", b"<p>x</p>", b"<p>x</p>", HTML),
        ("a.txt", b"<p>is shown as it is", b"<p>is shown as it is", 0),
        ("a.md", b"# Title", b"# Title", 0),
        ("b.htm.gz", gzip.compress(b"<p>x</p>", mtime=0), b"<p>x</p>", HTML),
    ],
)
def test_a_file_is_one_page_of_the_type_that_its_name_tells(
    tmp_path: Path, name: str, content: bytes, body: bytes, flags: int
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    (source,) = open_sources([str(path)]).sources
    (batch,) = parsed(source)
    assert batch.urls == [str(path).encode()]
    assert [bytes(each) for each in batch.bodies] == [body]
    assert batch.flags == [flags]


def test_with_a_prefix_the_url_is_the_way_from_the_folder(tmp_path: Path) -> None:
    (tmp_path / "docs" / "a b").mkdir(parents=True)
    for name in ("index.html", "docs/a b/é.html"):
        (tmp_path / name).write_text("<p>x", encoding="utf-8")
    (tmp_path / "style.css").write_text("x")
    found = open_sources([str(tmp_path)], url_prefix="https://a.example/")
    assert [batch.urls for source in found.sources for batch in parsed(source)] == [
        [b"https://a.example/docs/a%20b/%C3%A9.html"],
        [b"https://a.example/index.html"],
    ]
    assert found.skipped == {str(tmp_path / "style.css"): "unknown_format"}
    (alone,) = open_sources([str(tmp_path / "index.html")], url_prefix="https://a.example/").sources
    assert parsed(alone)[0].urls == [b"https://a.example/index.html"]


def test_beside_records_a_folder_has_no_page_files_and_beside_json_no_csv(tmp_path: Path) -> None:
    for name, read in {
        "README.md": ["README.md"], "a.html": ["README.md", "a.html"], "b.csv": ["b.csv"],
        "c.jsonl": ["c.jsonl"],
    }.items():  # fmt: skip
        (tmp_path / name).write_text("{}\n" if name == "c.jsonl" else "x")
        found = open_sources([str(tmp_path)])
        assert [Path(source.name).name for source in found.sources] == read
        assert len(read) + len(found.skipped) == len([*tmp_path.iterdir()])


def test_too_large_a_page_is_a_dead_letter_and_an_empty_file_has_no_page(tmp_path: Path) -> None:
    path = tmp_path / "a.html"
    path.write_bytes(b"<p>" + b"x" * 5000)
    (batch,) = parsed(Source(str(path), is_regular=True, page_bytes_max=1024, url="u"))
    assert [(dead.code, dead.value_bytes) for dead in batch.dead] == [("record_too_large", 5003)]
    path.write_bytes(b"")
    assert parsed(Source(str(path), is_regular=True, url="u")) == []


def test_a_page_that_has_grown_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.html"
    path.write_bytes(b"<p>one")
    source = Source(str(path), is_regular=True, url="u")
    (chunk,) = all_chunks(source)
    path.write_bytes(b"<p>one and more")
    with source.open() as records:
        list(records.follow(chunk.mark))
        assert records.mark() == chunk.mark
        with pytest.raises(InputError, match="is longer than the page that was judged"):
            list(records.chunks(1, None))  # type: ignore[arg-type]


def test_a_binary_file_is_no_page_and_a_page_may_begin_as_a_warc_file_does(tmp_path: Path) -> None:
    for name, content, skips, bodies in (
        ("a.txt", b"\x89PNG\r\n\0\0\1\2" + bytes(90), 1, []),
        ("b.txt", b"WARC/1.0 is the first line", 0, [b"WARC/1.0 is the first line"]),
    ):
        path = tmp_path / name
        path.write_bytes(content)
        (batch,) = parsed(open_sources([str(path)]).sources[0])
        assert (batch.skipped["body_image"], [*map(bytes, batch.bodies)]) == (skips, bodies)
