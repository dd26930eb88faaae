"""Texts from files: plain text, saved pages and page files give their visible text."""

from pathlib import Path

import pytest

from streamer.analysis.documents import collect, find_texts, read_body, read_documents
from streamer.errors import InputError
from streamer.pages.files import open_sources
from streamer.run.reading import DEFAULT_READER, PageReader
from streamer.text.words import CanonicalOptions
from tests.unit.analysis.test_clusters import write

FORM = CanonicalOptions()
HTML = "<html><head><meta name=description content='In short'></head><p>One &amp; <b>t</b>wo</p>"


def pages(path: Path, *texts: str) -> Path:
    return write(path, [{"url": f"http://a.example/{n}", "body": t} for n, t in enumerate(texts)])


@pytest.mark.parametrize("name", ["page.html", "page"])
def test_html_gives_its_visible_text_and_its_description(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text(HTML, "utf-8")
    document = read_body(path).document(FORM)
    assert document.page.text.split() == ["One", "&", "two"]
    assert document.page.description == "In short"
    assert document.name == str(path)


def test_plain_text_in_another_charset_is_decoded(tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_bytes(("Разум дан человеку для того, чтобы он разумно жил. " * 5).encode("cp1251"))
    assert read_body(path).document(FORM).page.words[:2] == ["разум", "дан"]


def test_a_page_file_of_one_page_is_a_text_under_its_url(tmp_path: Path) -> None:
    document = read_body(pages(tmp_path / "one.jsonl", "one two")).document(FORM)
    assert (document.name, document.page.text) == ("http://a.example/0", "one two")


@pytest.mark.parametrize("texts", [(), ("one", "two")])
def test_a_page_file_of_no_or_many_pages_is_no_text(tmp_path: Path, texts: tuple[str, ...]) -> None:
    with pytest.raises(InputError, match="no page or several"):
        read_body(pages(tmp_path / "some.jsonl", *texts)).document(FORM)


def test_a_place_is_that_of_its_own_file_and_never_of_another_of_that_name(tmp_path: Path) -> None:
    paths = []
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        paths.append(pages(tmp_path / folder / "x.jsonl", f"text of {folder}"))
    sources = open_sources([str(path) for path in paths]).sources
    places = [f"{path}:0" for path in paths]
    found = find_texts(DEFAULT_READER, sources, places)
    assert [found[place].utf8 for place in places] == [b"text of a", b"text of b"]
    moved = f"{tmp_path}/c/x.jsonl:0"
    assert find_texts(DEFAULT_READER, sources[1:], [moved])[moved].utf8 == b"text of b"
    with pytest.raises(InputError, match=r"may be in .*a/x\.jsonl and .*b/x\.jsonl; give only the"):
        find_texts(DEFAULT_READER, sources, [moved])
    (tmp_path / "b" / "x.jsonl").write_text('{"url": "http://b.example/", "body": "other"}')
    urls = {moved: "http://b.example/"}
    assert find_texts(DEFAULT_READER, sources, [moved], urls=urls)[moved].utf8 == b"other"
    urls = {places[0]: "http://c.example/"}
    assert find_texts(DEFAULT_READER, sources, [places[0]], urls=urls) == {}


def test_what_is_no_text_is_refused_with_its_name(tmp_path: Path) -> None:
    (tmp_path / "image").write_bytes(b"\x89PNG\0\0")
    with pytest.raises(InputError, match="image: is binary"):
        read_body(tmp_path / "image").document(FORM)
    with pytest.raises(InputError, match="nowhere: No such file"):
        read_body(tmp_path / "nowhere").document(FORM)
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="empty folder"):
        collect([tmp_path / "empty"], DEFAULT_READER, aside=tmp_path / "image")


def test_a_folder_gives_all_its_texts_and_binary_files_are_passed_over(tmp_path: Path) -> None:
    own, folder = tmp_path / "own.txt", tmp_path
    own.write_text("not this one", "utf-8")
    pages(folder / "b.jsonl", "one", "two")
    (folder / "a.txt").write_text("zero", "utf-8")
    (folder / "image.png").write_bytes(b"\x89PNG\0\0")
    (folder / "table.json").write_bytes(b"PAR1\0\0")
    skipped: list[str] = []
    reader = PageReader(note_skipped=skipped.extend)
    found = read_documents(collect([folder], reader, aside=own), FORM, reader)
    assert [document.page.text for document in found] == ["zero", "one", "two"]
    assert skipped == [str(folder / "image.png"), str(folder / "table.json")]
    with pytest.raises(InputError, match=r"image\.png: is binary"):
        list(read_documents(collect([folder / "image.png"], reader, aside=own), FORM, reader))
