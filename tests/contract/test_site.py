"""`make site` makes a site of all documents: each is in its table, each link leads somewhere."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from streamer.cli.main import COMMANDS
from tests.contract.test_documents import DOCUMENTS

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the site as `make site` makes it: a warning of Sphinx is an error."""
    folder = tmp_path_factory.mktemp("site")
    [command] = re.findall(
        r"^\t\$\(PY\) (-m sphinx .*) build/site$", (ROOT / "Makefile").read_text(), re.MULTILINE
    )
    arguments = [sys.executable, *command.split(), str(folder)]
    done = subprocess.run(arguments, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return folder


def test_it_has_all_documents_and_can_be_searched(site: Path) -> None:
    named = [path.relative_to(ROOT).with_suffix(".html") for path in DOCUMENTS]
    assert [str(name) for name in named if not (site / name).exists()] == []
    index = (site / "searchindex.js").read_text(encoding="utf-8")
    found = json.loads(index.removeprefix("Search.setIndex(").removesuffix(")"))
    assert {"build/commands", "docs/when", "README"} <= {*found["docnames"]}
    assert "tombston" in found["terms"]


def test_it_has_the_options_of_each_command(site: Path) -> None:
    page = (site / "build" / "commands.html").read_text(encoding="utf-8")
    assert [name for name in COMMANDS if f">streamer {name}" not in page] == []
    for option in ("--bucket-max", "--with-text", "--max-retries"):
        assert f'<span class="pre">{option}</span>' in page
