"""What a test author meets: fixtures, options and messages, in runs of pytest of their own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import streamer.run.explanation  # noqa: F401 - an inner run would import numpy a second time
from streamer.testing import broker

pytest_plugins = ["pytester"]

HEAVY = ("numba", "numpy", "msgspec", "pydantic", "rocksdict", "faust", "mode", "aiokafka")
VERDICT = """
    from streamer import Verdict
    from streamer.model import Basis, Decision, Location

    def verdict(offset, text_bytes=9):
        page = Location("pages.jsonl", 0, offset)
        url = f"http://a.example/{offset}"
        return Verdict(
            page, url, Decision.UNIQUE, Basis.SIGNATURE, None, None, False, text_bytes, "f"
        )
"""
ASKS_FOR_A_BROKER = """
    def test_broker(streamer_broker):
        assert streamer_broker == "broker.example:9092"
"""


@pytest.fixture
def inner(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    for name in ("CI", "STREAMER_TEST_BROKER"):
        monkeypatch.delenv(name, raising=False)
    return pytester


def test_the_plugin_imports_nothing_heavy() -> None:
    program = "import sys, streamer.testing.plugin; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert "streamer.testing.replays" in done.stdout.split()
    assert {name for name in done.stdout.split() if name.split(".")[0] in HEAVY} == set()


def test_the_package_works_without_pytest() -> None:
    program = "import sys; sys.modules['pytest'] = None; import streamer.testing"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_a_broker_that_is_named_is_used(
    inner: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STREAMER_TEST_BROKER", "broker.example:9092")
    inner.makepyfile(ASKS_FOR_A_BROKER)
    inner.runpytest_inprocess().assert_outcomes(passed=1)


def test_without_a_broker_a_test_is_skipped_and_under_ci_it_fails(
    inner: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker, "SCRIPT", Path("nowhere"))
    inner.makepyfile(ASKS_FOR_A_BROKER)
    done = inner.runpytest_inprocess("-rs")
    done.assert_outcomes(skipped=1)
    said = "*A Kafka broker: name a running one in STREAMER_TEST_BROKER, as localhost:9092*"
    done.stdout.fnmatch_lines([said])
    monkeypatch.setenv("CI", "true")
    done = inner.runpytest_inprocess()
    done.assert_outcomes(errors=1)
    done.stdout.fnmatch_lines([said])


def test_a_golden_file_is_written_with_the_option_only_and_compared_without_it(
    inner: pytest.Pytester,
) -> None:
    inner.makeconftest(VERDICT)
    test = """
        import pytest
        from conftest import verdict

        @pytest.mark.parametrize("kind", ["a/b"])
        def test_crawl(streamer_golden, kind):
            streamer_golden([verdict(0), verdict(1)])
            streamer_golden((verdict(n) for n in range(1)), "other.jsonl")
    """
    path = inner.makepyfile(test_it=test)
    golden, update = path.with_name("test_it.test_crawl-a-b.jsonl"), "--streamer-update-golden"
    missing = inner.runpytest_inprocess()
    missing.assert_outcomes(failed=1)
    remedy = "`pytest --streamer-update-golden` writes it."
    missing.stdout.fnmatch_lines([f"*There is no golden file {golden}. {remedy}"])
    assert not golden.exists()
    inner.runpytest_inprocess(update).assert_outcomes(passed=1)
    assert len(golden.read_bytes().splitlines()) == 2
    assert len(path.with_name("other.jsonl").read_bytes().splitlines()) == 1
    inner.runpytest_inprocess().assert_outcomes(passed=1)
    golden.write_bytes(golden.read_bytes().replace(b'"text_bytes":9', b'"text_bytes":8', 1))
    differs = inner.runpytest_inprocess()
    differs.assert_outcomes(failed=1)
    differs.stdout.fnmatch_lines(
        [
            "*The verdicts on 1 of 2 pages differ.",
            "*text_bytes: expected 8, got 9",
            f"*The golden file is {golden}. {remedy}",
        ]
    )
