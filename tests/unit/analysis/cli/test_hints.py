"""The command `hints`: its outputs and its table, and what it refuses."""

import json
from pathlib import Path

import pytest

from streamer.errors import InputError, SettingsError
from tests.helpers.commands import invoked, run
from tests.unit.analysis.test_clusters import verdict, write


@pytest.fixture
def verdicts(tmp_path: Path) -> Path:
    """Write 60 verdicts of a host with sessions, and one of a page without a URL."""
    said = [
        verdict(n, None if n % 2 == 0 else n - 1, f"http://a.example/item?id={n // 2}&sid={n}")
        for n in range(60)
    ]
    return write(tmp_path / "verdicts.jsonl", [*said, verdict(60, None, "dns:a.example")])


def reported(*arguments: Path | str) -> bytes:
    """Return the hints that the command writes; the first argument is a file of verdicts."""
    out = Path(arguments[0]).with_name("told.jsonl")
    run("hints", *arguments, "--out", out, "--overwrite")
    return out.read_bytes()


def test_without_an_output_a_table_is_shown(verdicts: Path) -> None:
    result = invoked("hints", verdicts, columns=100)
    assert "1 hints for 1 hosts" in result.stdout
    row = next(line for line in result.stdout.splitlines() if "a.example" in line)
    assert row.split() == ["a.example", "parameter", "sid", "60", "30", "0", "0.083", "0.483"]
    assert "1 of 61 verdicts have no URL of a web host" in result.stderr


def test_the_outputs_hold_all_and_are_the_same_each_time(verdicts: Path, tmp_path: Path) -> None:
    names = ["hints.jsonl", "filters.json", "normalize.xml", "urlfilter.txt"]
    outputs = [tmp_path / name for name in names]
    options = [f"--{option}" for option in ("out", "stormcrawler", "nutch", "nutch")]
    given = [str(each) for pair in zip(options, outputs, strict=True) for each in pair]
    short = [verdict(100 + n, 2 * n, f"http://a.example/item?id={n}") for n in range(3)]
    given.append(str(write(tmp_path / "without.jsonl", short)))
    assert run("hints", verdicts, *given) == ""
    first = [each.read_bytes() for each in outputs]
    assert json.loads(first[0])["hints"][0]["name"] == "sid"
    assert [b"sid" in each for each in first] == [True, True, True, False]
    run("hints", verdicts, *given, "--overwrite")
    assert [each.read_bytes() for each in outputs] == first


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (["--nutch", "rules.json"], r"must end in \.xml"),
        (["--out", "hints.csv"], r"which names no format .* End it in \.jsonl\."),
        (["--out", "VERDICTS"], "same file"),
        (["--stormcrawler", "VERDICTS"], "same file"),
    ],
)
def test_outputs_that_cannot_be_are_refused(verdicts: Path, options: list[str], error: str) -> None:
    given = [each.replace("VERDICTS", str(verdicts)) for each in options]
    before = verdicts.read_bytes()
    with pytest.raises(SettingsError, match=error):
        run("hints", verdicts, *given)
    assert verdicts.read_bytes() == before


def test_verdicts_without_urls_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "verdicts.jsonl", [verdict(n, url="dns:x") for n in range(3)])
    for text, said in (
        (path.read_text("utf-8"), "no verdict with the URL of a web page"),
        ("", "no verdict"),
        ('{"half', r"verdicts\.jsonl:1: not a verdict"),
    ):
        path.write_text(text, "utf-8")
        with pytest.raises(InputError, match=said):
            run("hints", path)


@pytest.mark.parametrize("pages", ["crawl/pages.jsonl", "crawl"])
def test_pages_are_not_overwritten(verdicts: Path, tmp_path: Path, pages: str) -> None:
    held, link = tmp_path / "crawl" / "pages.jsonl", tmp_path / "link.xml"
    held.parent.mkdir()
    held.write_text('{"url": "http://a.example/", "body": "x"}\n', "utf-8")
    link.symlink_to(held)  # the same file by another name
    outputs = [("--out", held), ("--nutch", link)]
    if pages == "crawl":
        outputs.append(("--nutch", held.with_name("new.xml")))
    for option, out in outputs:
        with pytest.raises(SettingsError):
            run("hints", verdicts, "--pages", tmp_path / pages, option, out)
    assert held.read_text("utf-8").startswith('{"url"')
    assert [each.name for each in held.parent.iterdir()] == ["pages.jsonl"]


def test_limits_decide_what_is_given(verdicts: Path) -> None:
    assert reported(verdicts, "--error-max", "0.05") == b""
    assert reported(verdicts, "--support-min", "31") == b""
    assert reported(verdicts, "--support-min", "30") == reported(verdicts) != b""


def test_canonical_links_of_pages_are_compared(verdicts: Path, tmp_path: Path) -> None:
    lines = []
    for n in range(60):
        url = f"http://a.example/item?id={n // 2}&sid={n}"
        head = f'<link rel=canonical href="/item?id={n // 2}">' if n % 3 else ""
        lines.append({"url": url, "body": f"<html><head>{head}</head></html>"})
    pages = write(tmp_path / "pages.jsonl", lines)
    (hint,) = json.loads(reported(verdicts, "--pages", str(pages)))["hints"]
    assert hint["canonical"] == {"pages": 40, "agree": 40}
    assert "40 of 40" in run("hints", verdicts, "--pages", pages, columns=120)
