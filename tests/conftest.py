"""How Hypothesis and coroutines run, which tests `make test` leaves out, and what tests lacked."""

import asyncio
import hashlib
import inspect
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from streamer.testing import replays
from tests.helpers import forked
from tests.helpers.web_server import WebServer, web_server

# A kernel's first call compiles it, which takes seconds: no example has a deadline.
settings.register_profile("streamer", deadline=None, print_blob=True)
settings.load_profile("streamer")

# Other people's replays load all by themselves, which takes two seconds each.
replays.run_module = forked.run_module

# Where tests find a broker and tools; no settings.
OURS = {"STREAMER_TEST_BROKER", "STREAMER_TOOLS", "STREAMER_CRDS"}
for name in [name for name in os.environ if name.upper().startswith("STREAMER_")]:
    if name not in OURS:
        del os.environ[name]

ROOT = Path(__file__).parents[1]
# What takes long or needs a machine that tests may change; quicker tests run some of each promise.
FULL = (
    "tests/cluster/",
    "tests/image/",
    "tests/integration/test_acl.py",
    "tests/integration/test_also.py::test_a_worker_compares",
    "tests/integration/test_brokers_away.py",
    "tests/integration/test_campaign.py",
    "tests/integration/test_console_topics.py",
    "tests/integration/test_dead_letters.py::test_what_",
    "tests/integration/test_examples.py",
    "tests/integration/test_forgetting.py::test_what_is_forgotten_through_the_log",
    "tests/integration/test_formats.py::test_verdicts_are_those_of_json_lines_whatever_was_killed",
    "tests/integration/test_hints.py",
    "tests/integration/test_idle.py",
    "tests/integration/test_kafka_security.py::test_all_commands_and_a_worker_go_on",
    "tests/integration/test_kept_topic.py",
    "tests/integration/test_packages.py",
    "tests/integration/test_per_partition.py::test_partitions_that_are_added",
    "tests/integration/test_replay_remote.py::test_verdicts_are_those_of_the_file_here_though",
    "tests/integration/test_replay_topic.py::test_with_the_order_of_an_index",
    "tests/integration/test_schema_registry.py",
    "tests/integration/test_spark.py",
    "tests/integration/test_verify.py",
    "tests/integration/test_warm.py",
    "tests/integration/test_worker.py::test_a_topic_or_a_log_made_anew",
    "tests/integration/test_worker.py::test_new_partitions",
    "tests/integration/test_worker_",
    "tests/quality/test_verdict_digests.py::test_a_labelled_set",
    "tests/simulation/",
    "tests/unit/benchmarks/",
)
# What tests read or run. A test that passed with the same sources is not run again.
SOURCES = (
    ".ci", "benchmarks", "deploy", "docs", "examples", "requirements", "schemas", "streamer",
    "tests",
)  # fmt: skip


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("streamer")
    group.addoption("--quick", action="store_true", help="leave out what only test-all runs")
    group.addoption(
        "--passed", metavar="FILE", type=Path,
        help="do not run the tests that FILE lists as passed, and add those that pass",
    )  # fmt: skip
    group.addoption(
        "--pictures", metavar="FOLDER", type=Path,
        help="have the test of the console's views write the picture of docs/console.md",
    )  # fmt: skip


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Selection(config), "selection")


@pytest.fixture
def web() -> Iterator[WebServer]:
    pytest.importorskip("obstore")
    with web_server() as server:
        yield server


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    """A file with the secret of an index, the bytes 0 to 31, which only its owner can read."""
    path = tmp_path / "secret"
    path.write_text(bytes(range(32)).hex(), encoding="ascii")
    path.chmod(0o600)
    return path


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Call what is no text by its parameter: gzip holds the time, each process has another."""
    return argname if isinstance(val, bytes) and not val.isascii() else None


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine, in an event loop of its own."""
    if not inspect.iscoroutinefunction(test := pyfuncitem.obj):
        return None
    given = pyfuncitem.funcargs
    asyncio.run(test(**{name: given[name] for name in inspect.signature(test).parameters}))
    return True


class Selection:
    """Which tests run, which pass, and what the others lacked; in each process of a run."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._file: Path | None = config.getoption("--passed")
        self._digest = _digest() if self._file else ""
        self._passed = self._read()
        self._outcomes: dict[str, list[str]] = {}
        self._left_to_all = 0

    def _read(self) -> set[str]:
        """Return the tests that passed with the sources as they are."""
        if self._file is None or not self._file.exists():
            return set()
        digest, *tests = self._file.read_text(encoding="utf-8").splitlines()
        return set(tests) if digest == self._digest else set()

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Deselect what passed already, and with --quick what `make test-all` runs."""
        left = items
        if self._config.getoption("--quick"):
            left = [item for item in items if not item.nodeid.startswith(FULL)]
            self._left_to_all = len(items) - len(left)
        kept = [item for item in left if item.nodeid not in self._passed]
        runs = set(kept)
        self._config.hook.pytest_deselected(items=[item for item in items if item not in runs])
        items[:] = kept

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._outcomes.setdefault(report.nodeid, []).append(report.outcome)

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Write down what has passed. That nothing was left to run is no failure."""
        if output := getattr(self._config, "workeroutput", None):
            output["left_to_all"] = self._left_to_all
        elif self._file:
            passed = {node for node, found in self._outcomes.items() if found == ["passed"] * 3}
            lines = [self._digest, *sorted(passed | self._passed)]
            self._file.parent.mkdir(parents=True, exist_ok=True)
            self._file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
            if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
                session.exitstatus = pytest.ExitCode.OK

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take over what a process of a parallel run has counted; each counts all tests."""
        self._left_to_all = getattr(node, "workeroutput", {}).get("left_to_all", 0)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print one table of what was left out: how many tests, what is missing, the remedy."""
        lacking = Counter(
            report.longrepr[2].removeprefix("Skipped: ")
            for report in terminalreporter.stats.get("skipped", [])
        )
        if self._left_to_all:
            lacking["longer tests: make test-all"] = self._left_to_all
        if lacking:
            terminalreporter.section("left out")
        for reason, tests in sorted(lacking.items()):
            missing, _, remedy = reason.partition(": ")
            terminalreporter.write_line(f"{tests:5}  {missing:44}  {remedy}".rstrip())


def _digest() -> str:
    """Return a digest of all sources, their names and contents."""
    files = [ROOT / "pyproject.toml", ROOT / "Makefile", *ROOT.glob("*.md")]
    for folder in SOURCES:
        files += [path for path in (ROOT / folder).rglob("*") if path.is_file()]
    digest = hashlib.sha256()
    for path in sorted(files):
        if "__pycache__" not in path.parts:
            digest.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes())
    return digest.hexdigest()
