"""Commands that measure and compare read URLs as a replay does, and as files here."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.place import Place, page
from tests.helpers.web_server import WebServer

SIGNED = "X-Amz-Signature=SECRET"
pytest.importorskip("obstore")
TEXT = b"<html><p>one two three four five six seven eight nine</p></html>"


def reported(place: Place, capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> Any:
    """Return what a command prints as JSON; no output shows what signs a URL."""
    capsys.readouterr()
    assert place.streamer(*arguments, "--json") == 0
    said = capsys.readouterr()
    assert "SECRET" not in said.out + said.err
    return json.loads(said.out)


def test_compare_takes_texts_and_pages_by_their_urls(
    place: Place, web: WebServer, capsys: pytest.CaptureFixture[str]
) -> None:
    here = place.write("here.html", TEXT)
    method = ("--method", "minhash")
    wanted = reported(place, capsys, "compare", here, place.write("x.html", TEXT), *method)
    for name, data in (
        ("/there.html", TEXT), ("/a/page", TEXT),
        ("/one.jsonl", json.dumps({"url": "u", "body": TEXT.decode()}).encode()),
    ):  # fmt: skip
        url = web.put(name, data)
        found = reported(place, capsys, "compare", here, f"{url}?{SIGNED}", *method)
        assert found["b"] == ("u" if name == "/one.jsonl" else url)
        assert found["exact"] == wanted["exact"]
        assert found["methods"] == wanted["methods"]


def test_what_a_url_does_not_lead_to_is_an_error_that_names_it(
    place: Place, web: WebServer, capsys: pytest.CaptureFixture[str]
) -> None:
    url = web.put("/two.jsonl", page(1) + page(2))
    here = place.write("here.html", TEXT)
    for there, why in ((url, "holds no page or several"), (f"{url}.html", "is not there")):
        assert place.streamer("compare", here, f"{there}?{SIGNED}") == 1
        said = " ".join(capsys.readouterr().err.split())
        assert f"{there}: {why}" in said
        assert "SECRET" not in said


def test_uniqueness_looks_through_urls_and_lists_of_them(
    place: Place, web: WebServer, capsys: pytest.CaptureFixture[str]
) -> None:
    text = place.write("text.html", TEXT)
    library = web.put("/library.jsonl", page(1) + page(2))
    same = web.put("/same.html", TEXT)
    listed = place.write("all.paths", f"{library}\n{same}\n".encode())
    command = ("uniqueness", text, "--shingle-width", "3", "--against")
    assert reported(place, capsys, *command, f"{library}?{SIGNED}")["percentage"] == 100
    found = reported(place, capsys, *command, listed)
    assert (found["percentage"], found["sources_total"]) == (0, 1)
    again = ("uniqueness", f"{same}?{SIGNED}", "--against", f"{same}?{SIGNED}")
    assert place.streamer(*again, "--against", library) == 0


def test_collection_and_evaluate_take_page_files_by_their_urls(
    place: Place, web: WebServer, capsys: pytest.CaptureFixture[str]
) -> None:
    here = place.write("some.jsonl", *map(page, (1, 2, 1, 3)))
    url = f"{web.put('/some.jsonl', here.read_bytes())}?{SIGNED}"
    outs = [place.folder / name for name in ("here.json", "there.json")]
    for given, out in zip((str(here), url), outs, strict=True):
        assert place.streamer("collection", "build", given, "--out", out) == 0
    assert outs[0].read_bytes() == outs[1].read_bytes()
    [wanted], [found] = (
        reported(place, capsys, "evaluate", given, "--methods", "minhash") for given in (here, url)
    )
    assert found["dataset"] == wanted["dataset"] == "some"
    assert found["pages"] == wanted["pages"]
