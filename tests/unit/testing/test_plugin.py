"""What a test author meets: fixtures, options and messages, in runs of pytest of their own."""

import subprocess
import sys

import pytest

import streamer.run.explanation  # noqa: F401 - an inner run would import numpy a second time

pytest_plugins = ["pytester"]

HEAVY = ("numba", "numpy", "msgspec", "pydantic", "rocksdict", "faust", "mode", "aiokafka")


def test_the_plugin_imports_nothing_heavy() -> None:
    program = "import sys, streamer.testing.plugin; print(*sys.modules)"
    modules = subprocess.check_output([sys.executable, "-c", program], text=True).split()
    assert "streamer.testing.replays" in modules
    assert {name for name in modules if name.split(".")[0] in HEAVY} == set()


def test_a_golden_file_is_written_by_the_option_else_compared(pytester: pytest.Pytester) -> None:
    test = """
        import pytest
        from tests.helpers.verdict_lines import unique

        @pytest.mark.parametrize("kind", ["a/b"])
        def test_crawl(streamer_golden, kind):
            streamer_golden([unique(0), unique(1)])
            streamer_golden((unique(n) for n in range(1)), "other.jsonl")
    """
    path = pytester.makepyfile(test_it=test)
    golden, update = path.with_name("test_it.test_crawl-a-b.jsonl"), "--streamer-update-golden"
    missing = pytester.runpytest_inprocess()
    missing.assert_outcomes(failed=1)
    remedy = "`pytest --streamer-update-golden` writes it."
    missing.stdout.fnmatch_lines([f"*There is no golden file {golden}. {remedy}"])
    assert not golden.exists()
    pytester.runpytest_inprocess(update).assert_outcomes(passed=1)
    assert len(golden.read_bytes().splitlines()) == 2
    assert len(path.with_name("other.jsonl").read_bytes().splitlines()) == 1
    pytester.runpytest_inprocess().assert_outcomes(passed=1)
    golden.write_bytes(golden.read_bytes().replace(b'"text_bytes":1000', b'"text_bytes":8'))
    differs = pytester.runpytest_inprocess()
    differs.assert_outcomes(failed=1)
    differs.stdout.fnmatch_lines(
        ["*The verdicts on 1 of 2 pages differ.", f"*The golden file is {golden}. {remedy}"]
    )
