"""`sites` as its users meet it: what an index has learned of a host, by the host's pages."""

import json
from pathlib import Path
from typing import Any

import pytest

from streamer.analysis.cli import sites
from streamer.errors import InputError, SettingsError, StoreMismatch
from streamer.testing.replays import KEY
from streamer.text.visible import TextPart
from tests.helpers.commands import run

NOTE = "This shop is closed on public holidays; orders are sent on the next working day, as ever."
ARTICLES = [
    "".join(
        f"<p>Sentence {number} of part {part} tells of {number * 31 + part} boats and their crews, "
        f"who left port {part * 17 + number} before dawn, he said.</p>"
        for part in range(6)
    )
    for number in range(5)
]
PAGES = [
    *((f"http://one.example/{n}", each) for n, each in enumerate(ARTICLES)),
    ("http://two.example/", ARTICLES[0]),
]


ONE = ("one.example", "--index", "index", "--texts", "pages.jsonl")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with pages, a key, and indexes of them with and without sites."""
    folder = tmp_path_factory.mktemp("sites")
    (folder / "key").write_text(KEY)
    lines = (
        json.dumps({"url": url, "body": f"<h1>News</h1>{each}<table><tr><td>{NOTE}</table>"})
        for url, each in PAGES
    )
    (folder / "pages.jsonl").write_text("".join(f"{line}\n" for line in lines))
    for name, options in (("index", ["--site-memory", "1MiB"]), ("other", ["--site-memory", "0"])):
        outputs = ("--verdicts", folder / f"{name}.jsonl", "--index", folder / name)
        made = ("--preset", "balanced", "--key-file", folder / "key", *options)
        run("replay", folder / "pages.jsonl", *outputs, *made)
    return folder


def reported(folder: Path, *arguments: str) -> str:
    """Return what the command prints; arguments that name an index or a file are below a folder."""
    given = [folder / each if (folder / each).exists() else each for each in arguments]
    return run("sites", *given)


def listed(folder: Path, *arguments: str) -> dict[str, Any]:
    key = ["--key-file", str(folder / "key"), "--json"]
    return dict(json.loads(reported(folder, *arguments, *key)))


def test_what_a_host_repeats_is_listed_with_what_becomes_of_it(folder: Path) -> None:
    found = listed(folder, "ONE.example.", *ONE[1:])
    assert (found["host"], found["pages"], found["untold"]) == ("one.example", len(ARTICLES), 0)
    blocks = {each["text"]: each for each in found["blocks"]}
    assert blocks.keys() == {"News", NOTE}
    for each in blocks.values():
        assert (each["repeats"], each["pages"]) == (len(ARTICLES) - 1, len(ARTICLES))
        assert each["dropped"] + each["compared"] <= len(ARTICLES)
    assert found["blocks_total"] == len(blocks)
    assert listed(folder, "two.example", *ONE[1:])["blocks"] == []


def test_without_a_host_it_says_how_much_the_index_knows(folder: Path) -> None:
    found = listed(folder, "--index", "index")
    assert found["pages"] == len(PAGES)
    assert found["repeating"]["1"] == found["repeating"]["4"] == 2
    assert found["repeating"]["8"] == 0
    assert found["blocks"] == 2 * 2 + 6 * len(PAGES)  # of both hosts, and their articles
    assert found["room"] == (1 << 20) // 16


def test_what_is_printed_names_the_block(folder: Path) -> None:
    key = ["--key-file", str(folder / "key")]
    said = reported(folder, *ONE, *key)
    assert "have 2 blocks" in said
    assert "public" in said
    assert "on 4 other pages or more" in reported(folder, "--index", "index", *key)


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        (["one.example", "--index", "index"], SettingsError, "no text"),
        (["--index", "index", "--texts", "pages.jsonl"], SettingsError, "no text"),
        (["http://one.example/", *ONE[1:]], SettingsError, "is no host"),
        (["", *ONE[1:]], SettingsError, "is no host"),
        (["www.one.example", *ONE[1:]], InputError, "No page in the files"),
        (["--index", "other"], StoreMismatch, "without --site-memory"),
        (["one.example", "--index", "other", "--texts", "pages.jsonl"], StoreMismatch,
         "without --site-memory"),
    ],
)  # fmt: skip
def test_what_cannot_be_answered_is_refused(
    folder: Path, arguments: list[str], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        listed(folder, *arguments)


def test_another_key_is_refused_as_its_hashes_find_nothing(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("11" * 32)
    with pytest.raises(StoreMismatch, match="another key file"):
        reported(folder, *ONE, "--key-file", str(tmp_path / "key"))


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sites, "BLOCKS_MAX", 2)
    found = sites.HostBlocks("a")
    long = "word " * 1000
    for text in ("one", "two", "three", "two", long):
        found.add([TextPart(text, counts=False, repeats=1), TextPart("own", counts=True)])
    assert [each.pages for each in found.blocks.values()] == [1, 2]
    assert found.untold == 2
