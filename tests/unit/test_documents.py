"""Texts from files: plain text, saved pages and page files give their visible text."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from streamer.errors import InputError
from streamer.lab.documents import batches, files_of, read_document, read_documents
from streamer.pages.files import open_sources
from streamer.pages.parse import PageParser
from streamer.text.words import CanonicalOptions

FORM = CanonicalOptions()
HTML = "<html><head><meta name=description content='In short'></head><p>One &amp; <b>t</b>wo</p>"


def pages(path: Path, *texts: str) -> Path:
    lines = [json.dumps({"url": f"http://a.example/{n}", "body": t}) for n, t in enumerate(texts)]
    path.write_text("\n".join(lines), "utf-8")
    return path


@pytest.mark.parametrize("name", ["page.html", "page"])
def test_html_gives_its_visible_text_and_its_description(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text(HTML, "utf-8")
    document = read_document(path, FORM)
    assert document.page.text.split() == ["One", "&", "two"]
    assert document.page.description == "In short"
    assert document.name == str(path)


def test_with_tags_kept_markup_is_text(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text(HTML, "utf-8")
    assert read_document(path, CanonicalOptions(keep_tags=True)).page.text == HTML


def test_plain_text_in_another_charset_is_decoded(tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_bytes(("Разум дан человеку для того, чтобы он разумно жил. " * 5).encode("cp1251"))
    assert read_document(path, FORM).page.words[:2] == ["разум", "дан"]


def test_a_page_file_of_one_page_is_a_text_under_its_url(tmp_path: Path) -> None:
    document = read_document(pages(tmp_path / "one.jsonl", "one two"), FORM)
    assert (document.name, document.page.text) == ("http://a.example/0", "one two")


@pytest.mark.parametrize("texts", [(), ("one", "two")])
def test_a_page_file_of_none_or_several_is_no_single_text(
    tmp_path: Path, texts: tuple[str, ...]
) -> None:
    with pytest.raises(InputError, match="no page or several"):
        read_document(pages(tmp_path / "some.jsonl", *texts), FORM)


def test_a_folder_gives_all_its_texts_in_order_of_names(tmp_path: Path) -> None:
    pages(tmp_path / "b.jsonl", "one", "two")
    (tmp_path / "a.txt").write_text("zero", "utf-8")
    found = list(read_documents([tmp_path], FORM))
    assert [document.page.text for document in found] == ["zero", "one", "two"]


def test_what_is_no_text_is_refused_with_its_name(tmp_path: Path) -> None:
    (tmp_path / "image").write_bytes(b"\x89PNG\0\0")
    with pytest.raises(InputError, match="image: is binary"):
        read_document(tmp_path / "image", FORM)
    with pytest.raises(InputError, match="nowhere: No such file"):
        read_document(tmp_path / "nowhere", FORM)
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="empty folder"):
        files_of([tmp_path / "empty"])


def test_what_is_read_is_told_over_all_sources(tmp_path: Path) -> None:
    files = [pages(tmp_path / "a.jsonl", "one", "two"), pages(tmp_path / "b.jsonl", "three")]
    told: list[tuple[int, int]] = []
    sources = open_sources([str(file) for file in files]).sources
    found = [name for name, _ in batches(sources, PageParser(), lambda *each: told.append(each))]
    assert found == [str(file) for file in files]
    sizes = [file.stat().st_size for file in files]
    assert told == [(sizes[0], 2), (sum(sizes), 3)]
