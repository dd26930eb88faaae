"""The examples of docs/testing.md run as they stand, and say what the page shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

PAGE = (Path(__file__).parents[2] / "docs" / "testing.md").read_text(encoding="utf-8")


@pytest.fixture
def examples(pytester: pytest.Pytester) -> pytest.Pytester:
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 6
    pytester.makepyfile(test_crawl="\n\n".join(blocks))
    return pytester


def test_the_examples_give_what_the_page_says(examples: pytest.Pytester) -> None:
    update = examples.runpytest_subprocess("-k", "not topic", "--streamer-update-golden")
    update.assert_outcomes(passed=5, failed=1, deselected=1)
    [shown] = re.findall(r"^```text\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    said = [line.removeprefix("E").strip() for line in update.outlines if line.startswith("E")]
    assert "\n".join(said).removeprefix("AssertionError: ") == "\n".join(
        line.strip() for line in shown.splitlines()
    )
    assert (examples.path / "test_crawl.test_the_crawl.jsonl").exists()
    examples.runpytest_subprocess("-k", "test_the_crawl").assert_outcomes(passed=1, deselected=6)


def test_the_example_of_a_topic_runs_on_a_broker(
    examples: pytest.Pytester, streamer_broker: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STREAMER_TEST_BROKER", streamer_broker)
    done = examples.runpytest_subprocess("-k", "topic")
    done.assert_outcomes(passed=1, deselected=6)
