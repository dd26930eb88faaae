"""All commands that read pages read the same files, by the same options, and refuse the same."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from streamer.errors import InputError, SettingsError
from streamer.run.reading import PageReader
from tests.helpers.commands import run

TEXT = " ".join(f"word{n}" for n in range(80))
FIELDS = '{"url": "/uri", "body": "/text"}'
Arguments = Callable[[Path], list[str]]


def write(path: Path, *, count: int = 12, body: str = "text") -> Path:
    lines = [json.dumps({"uri": f"http://a/{n}", body: f"{TEXT} {n}"}) + "\n" for n in range(count)]
    data = "".join(lines).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def replayed(folder: Path, pages: Path) -> None:
    outputs = ("--verdicts", folder / "v.jsonl", "--index", folder / "index")
    run("replay", pages, "--fields", FIELDS, *outputs)


COMMANDS: dict[str, Arguments] = {
    "score": lambda pages: ["score", str(pages), str(pages.parent / "v.jsonl")],
    "evaluate": lambda pages: ["evaluate", str(pages), "--methods", "minhash"],
    "tune": lambda pages: ["tune", "--sample", str(pages)],
    "explain": lambda pages: [
        *("explain", "http://a/1", "--texts", str(pages)),
        *("--index", str(pages.parent / "index")),
    ],
    "uniqueness": lambda pages: [
        *("uniqueness", str(pages.parent / "own.txt"), "--against", str(pages))
    ],
    "collection": lambda pages: [
        *("collection", "build", str(pages), "--out", str(pages.parent / "words.json"))
    ],
    "compare": lambda pages: ["compare", str(pages.parent / "own.txt"), str(pages)],
    "produce": lambda pages: ["produce", str(pages), "--topic", "pages"],
}
HERE = sorted(COMMANDS.keys() - {"produce"})  # tests/integration has it, with a broker


@pytest.mark.parametrize("name", HERE)
def test_every_command_reads_compressed_pages_of_other_fields_and_refuses_a_wrong_mapping(
    tmp_path: Path, name: str
) -> None:
    pages = write(tmp_path / "pages.jsonl.gz")
    (tmp_path / "own.txt").write_text(TEXT)
    replayed(tmp_path, pages)
    arguments = COMMANDS[name](pages)
    with pytest.raises(SettingsError, match=r"missing_url.*/uri, /text"):
        run(*arguments)
    if name == "compare":
        write(pages, count=1)
    run(*arguments, "--fields", FIELDS)


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_takes_the_same_page_options(name: str) -> None:
    wanted = [*COMMANDS[name](Path("pages.jsonl"))[: 2 if name == "collection" else 1], "--help"]
    reported = run(*wanted, columns=200)
    for option in ("--fields", "--preset", "--keep-going", "--page-bytes-max"):
        assert option in reported, option


def test_with_keep_going_records_that_all_fail_are_passed_over(tmp_path: Path) -> None:
    pages = write(tmp_path / "pages.jsonl")
    (tmp_path / "own.txt").write_text(TEXT)
    found = run(*COMMANDS["uniqueness"](pages), "--keep-going", "--json")
    assert json.loads(found)["percentage"] == 100


def test_a_few_bad_records_among_pages_are_passed_over(tmp_path: Path) -> None:
    bad = tmp_path / "a.jsonl"
    bad.write_text("{broken\n" * 5)
    good = tmp_path / "b.jsonl"
    good.write_text('{"url": "u", "body": "text"}\n')
    reader = PageReader()
    read = list(reader.read(reader.open([str(bad), str(good)])))
    assert [(one.source, one.batch.urls) for one in read] == [(str(bad), []), (str(good), [b"u"])]


def test_a_damaged_file_is_an_error_after_its_readable_pages(tmp_path: Path) -> None:
    path = tmp_path / "pages.jsonl.gz"
    lines = "".join(f'{{"url": "u{n}", "body": "text {n * 7919}"}}\n' for n in range(500_000))
    path.write_bytes(gzip.compress(lines.encode())[:-1000])
    reader, found = PageReader(), list[int]()
    with pytest.raises(InputError, match="copy the file again"):
        found.extend(len(one.batch) for one in reader.read(reader.open([str(path)])))
    assert sum(found) > 400_000
