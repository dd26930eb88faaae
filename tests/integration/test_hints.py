"""`streamer hints` on sites whose truth is known: what it says is right, and little is missing."""

import json
import re
import shutil
import subprocess
from collections import defaultdict
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from tests.helpers.fleet import ROOT, exit_code
from tests.helpers.missing import leave_out
from tests.helpers.place import lines
from tests.helpers.url_variants import write_url_variants

PRECISION_MIN, RECALL_MIN = 0.98, 0.9

RULES = ROOT / "tests" / "fixtures" / "Rules.java"


@pytest.fixture(scope="module")
def crawl(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write sites, their verdicts, and all files that are made of their hints."""
    folder = tmp_path_factory.mktemp("hints")
    truth = write_url_variants(folder / "pages.jsonl", 3)
    (folder / "truth.json").write_text(json.dumps(sorted(truth)))
    verdicts = folder / "verdicts.jsonl"
    assert exit_code("replay", folder / "pages.jsonl", "--verdicts", verdicts) == 0
    outputs = ("--out", folder / "hints.jsonl", "--stormcrawler", folder / "filters.json")
    nutch = ("--nutch", folder / "normalize.xml", "--nutch", folder / "urlfilter.txt")
    assert exit_code("hints", verdicts, *outputs, *nutch) == 0
    return folder


def test_hints_are_right_and_few_are_missing(crawl: Path) -> None:
    truth = set(map(tuple, json.loads((crawl / "truth.json").read_bytes())))
    found = {
        (host["host"], hint["kind"], hint["name"], hint["under"])
        for host in lines(crawl / "hints.jsonl")
        for hint in host["hints"]
    }
    assert len(truth & found) / len(found) >= PRECISION_MIN, sorted(found - truth)
    assert len(truth & found) / len(truth) >= RECALL_MIN, sorted(truth - found)


def test_rules_leave_no_two_contents_under_one_url(crawl: Path) -> None:
    root = ET.fromstring((crawl / "normalize.xml").read_bytes())  # noqa: S314 - of our own
    rules = [(each.findtext("pattern", ""), each.findtext("substitution", "")) for each in root]
    compiled = [(re.compile(one), other.replace("$1", r"\g<1>")) for one, other in rules]
    contents: dict[str, set[str]] = defaultdict(set)
    verdicts: list[dict[str, Any]] = lines(crawl / "verdicts.jsonl")
    for verdict in verdicts:
        url = verdict["url"]
        for pattern, other in compiled:
            url = pattern.sub(other, url)
        contents[url].add(json.dumps((verdict["representative"] or verdict)["page"]))
    assert len(contents) < 0.75 * len(verdicts)
    several = sum(len(each) > 1 for each in contents.values())
    assert several / len(contents) < 0.01  # pages that were edited between two fetches


def test_java_reads_the_rules_as_python_does(crawl: Path) -> None:
    if shutil.which("javac") is None:
        leave_out("A Java Development Kit", "apt-get install default-jdk-headless")
    urls = [verdict["url"] for verdict in lines(crawl / "verdicts.jsonl")]
    (crawl / "urls.txt").write_text("\n".join(urls), "utf-8")
    files = (crawl / name for name in ("normalize.xml", "urlfilter.txt", "urls.txt"))
    command: list[str | Path] = ["java", RULES, *files]
    reported = subprocess.run(
        command, check=True, capture_output=True, text=True
    ).stdout.splitlines()
    filters = json.loads((crawl / "filters.json").read_text("utf-8"))
    normalizer, refusals = (each["params"] for each in next(iter(filters.values())))
    expected = []
    for url in urls:
        left = url
        for rule in normalizer["urlNormalizers"]:
            substitution = rule["substitution"].replace("$1", r"\g<1>")
            left = re.sub(rule["pattern"], substitution, left)
        patterns = [each[1:] for each in refusals["urlFilters"] if each.startswith("-")]
        expected.append("-" if any(re.search(each, left) for each in patterns) else left)
    assert reported == expected
    assert 0 < expected.count("-") < len(urls) / 3
