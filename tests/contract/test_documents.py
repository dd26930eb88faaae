"""The documents name what there is: modules, files, commands, settings, exit codes."""

import re
import tomllib
from pathlib import Path

import pytest

from deploy.made_documents import settings_table
from streamer import errors
from streamer.cli.main import COMMANDS

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")])

_LINK = re.compile(r"\]\((?!https?://|#)([^)#]+)")
_FILE = re.compile(r"`([a-z_]+(?:/[a-z_]+)*\.(?:py|md|toml))`")


def folder_map() -> str:
    """Return the block of docs/architecture.md that draws the folders."""
    blocks = re.findall(r"^```\n(streamer/\n.*?)^```$", ARCHITECTURE, re.DOTALL | re.MULTILINE)
    assert len(blocks) == 1, blocks
    return str(blocks[0])


def test_every_folder_stands_in_the_map_of_folders() -> None:
    named = set(re.findall(r"^  ([a-z_]+)(?:/|\.py)", folder_map(), re.MULTILINE))
    folders = {path.parent.name for path in (ROOT / "streamer").glob("*/__init__.py")}
    assert folders - named == set()


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_and_every_named_file_leads_somewhere(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    links = [document.parent / link for link in _LINK.findall(text)]
    assert [str(link) for link in links if not link.exists()] == []
    folders = ("", "streamer", "tests", "tests/integration")
    places = (document.parent, *(ROOT / folder for folder in folders))
    missing = [name for name in _FILE.findall(text) if not any((p / name).exists() for p in places)]
    assert missing == []


def test_the_forms_of_a_page_are_made_where_the_page_about_them_says() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    named = re.findall(r"`(?:\w+\.)?(\w+)` in `([\w/]+\.py)`", page)
    sources = {file: (ROOT / "streamer" / file).read_text(encoding="utf-8") for _, file in named}
    assert len(named) >= 12
    assert [name for name, file in named if f"def {name}(" not in sources[file]] == []


def test_the_page_about_reading_names_what_is_there() -> None:
    page = (ROOT / "docs" / "reading.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \d+ \| `([\w/]+\.py)` \| ([^|]+) \|", page, re.MULTILINE)
    assert len(rows) == 7
    for file, names in rows:
        source = (ROOT / file).read_text(encoding="utf-8")
        for name in re.findall(r"`(\w+)`", names):
            assert re.search(rf"(def|class) {name}\b", source), (file, name)


def test_the_readme_names_every_command() -> None:
    assert COMMANDS
    assert [name for name in COMMANDS if f"streamer {name}" not in README] == []


def test_the_page_of_settings_has_the_table_of_all() -> None:
    page = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    assert [line for line in settings_table().splitlines() if line not in page.splitlines()] == []
    assert settings_table() in page, "python -m deploy.made_documents settings prints it"


def test_the_readme_names_every_extra() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"].keys() - {"dev", "bench"}
    assert {name for name in extras if f"`{name}`" not in README} == set()


def test_a_key_is_made_so_that_streamer_warns_of_nothing() -> None:
    for file in (
        "README.md",
        "docs/settings.md",
        "examples/scrapy/README.md",
        "streamer/cli/kafka_commands.py",
    ):
        text = (ROOT / file).read_text(encoding="utf-8")
        assert text.count("openssl rand") == text.count("(umask 077; openssl rand -hex 32 > ") > 0


def test_the_readme_is_short() -> None:
    assert len(README.splitlines()) <= 220


def test_the_readme_names_every_exit_code() -> None:
    classes = [one for one in vars(errors).values() if isinstance(one, type)]
    codes = {one.exit_code for one in classes if issubclass(one, errors.StreamerError)}
    assert {code for code in codes if f"\n| {code} | " not in README} == set()
