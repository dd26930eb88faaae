"""The examples of docs/testing.md run as they stand."""

import re
from pathlib import Path

import pytest

import streamer.run.explanation  # noqa: F401 - an inner run would import numpy a second time

pytest_plugins = ["pytester"]

PAGE = (Path(__file__).parents[2] / "docs" / "testing.md").read_text(encoding="utf-8")


def test_the_examples_give_what_the_page_says(pytester: pytest.Pytester) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 5
    pytester.makepyfile(test_crawl="\n\n".join(blocks))
    update = pytester.runpytest_inprocess("--streamer-update-golden")  # whose replays are forked
    update.assert_outcomes(passed=5, failed=1)
    update.stdout.fnmatch_lines(["*FAILED*::test_the_threshold_does_not_matter*"])
    assert (pytester.path / "test_crawl.test_the_crawl.jsonl").exists()
    pytester.runpytest_subprocess("-k", "test_the_crawl").assert_outcomes(passed=1, deselected=5)
