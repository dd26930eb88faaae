"""The comparison page in a real browser: colours show, links lead to what is shared, no request."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import typer
from lxml import etree
from typer.testing import CliRunner

from streamer.analysis.cli.compare import compare
from tests.helpers.missing import leave_out

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
POLICY = "default-src 'none'; style-src 'unsafe-inline'"
PROBE = """
<script>
const links = [...document.querySelectorAll(".text a")].map(link => {
  link.click();
  const target = document.querySelector(":target");
  const box = target.getBoundingClientRect();
  return {
    text: link.textContent,
    target: target.textContent,
    colour: getComputedStyle(link).backgroundColor,
    shown: box.top >= 0 && box.bottom <= innerHeight,
  };
});
const loaded = performance.getEntriesByType("resource").map(entry => entry.name);
const found = document.createElement("pre");
found.id = "found";
found.textContent = JSON.stringify({links, loaded});
document.body.append(found);
</script>
"""


@pytest.fixture(autouse=True)
def _browser() -> None:
    if BROWSER is None:
        leave_out("Chromium", ".ci/tools browser, as root")


FILLING = "".join(f"Line {{0}}{number} of this text alone.\n" for number in range(200))
SHARED = ["the first shared piece <img src=x> of both", "another one that stands in both texts"]


def browse(page: Path) -> Any:
    """Return a page's tree as the browser has it once it has run what there is to run."""
    assert BROWSER
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"]
    folder = f"--user-data-dir={page.parent / 'profile'}"
    command = [BROWSER, *options, folder, page.as_uri()]
    done = subprocess.run(command, capture_output=True, check=True, timeout=60)
    return etree.HTML(done.stdout.decode())


@pytest.fixture
def page(tmp_path: Path) -> Path:
    one, other, out = tmp_path / "one.txt", tmp_path / "other.txt", tmp_path / "out.html"
    first, second = FILLING.format("a"), FILLING.format("b")
    one.write_text(f"{SHARED[0]}\n{first}{SHARED[1]}", "utf-8")
    other.write_text(f"{SHARED[1]}\n{second}{SHARED[0]}", "utf-8")
    app = typer.Typer()
    app.command()(compare)
    arguments = [one, other, "--method", "exact_content", "--shingle-width", "6", "--html", out]
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == 0, (result.output, result.exception)
    return out


def test_each_link_brings_the_same_words_of_the_other_text_into_view(page: Path) -> None:
    text = page.read_text("utf-8")
    assert POLICY in text
    probed = page.with_name("probed.html")
    probed.write_text(text.replace(POLICY, "").replace("</body>", PROBE + "</body>"), "utf-8")
    found = json.loads(browse(probed).findtext(".//pre[@id='found']"))
    assert [link["text"] for link in found["links"]] == [*SHARED, *reversed(SHARED)]
    assert all(link["text"] == link["target"] and link["shown"] for link in found["links"])
    colours = [link["colour"] for link in found["links"]]
    assert colours == [*colours[:2], *reversed(colours[:2])]
    assert len({*colours, "rgba(0, 0, 0, 0)"}) == 3
    assert found["loaded"] == []


def test_the_page_lets_no_script_run(page: Path) -> None:
    probed = page.with_name("probed.html")
    probed.write_text(page.read_text("utf-8").replace("</body>", PROBE + "</body>"), "utf-8")
    tree = browse(probed)
    assert tree.find(".//pre[@id='found']") is None
    assert tree.find(".//img") is None
    assert len(tree.findall(".//a")) == 4
