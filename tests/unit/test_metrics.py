"""What a worker shows of itself: the numbers are right, and each is explained to the operator."""

import re
from collections import Counter
from pathlib import Path

import numpy as np
import prometheus_client
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest

import streamer
from streamer.kafka.role_metrics import SignMetrics
from streamer.metrics import LATENCY_SECONDS, Metrics, PageHistogram, memory_limit_bytes
from tests.helpers.metric_values import metrics_in_use, value, values

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"
ROW = re.compile(r"^\| `(streamer_\w+)` \| (\w+) \| (.*?) \| (.*) \|$", re.MULTILINE)
SUFFIX = {"counter": "_total", "info": "_info"}


def text_of(registry: CollectorRegistry) -> str:
    return generate_latest(registry).decode()


AGES = st.one_of(st.sampled_from(LATENCY_SECONDS), st.floats(0, 200)).map(lambda age: round(age, 6))


@given(st.lists(st.lists(st.tuples(AGES, st.integers(0, 5)), max_size=8), max_size=4))
def test_many_pages_at_once_count_like_one_by_one(chunks: list[list[tuple[float, int]]]) -> None:
    ours, theirs = CollectorRegistry(), CollectorRegistry()
    at_once = PageHistogram("age_seconds", "Ages.", LATENCY_SECONDS, ours)
    Metrics()  # switches off the times of birth, which differ
    one_by_one = prometheus_client.Histogram(
        "age_seconds", "Ages.", buckets=LATENCY_SECONDS, registry=theirs
    )
    for chunk in chunks:
        ages, pages = [age for age, _ in chunk], [count for _, count in chunk]
        at_once.observe(np.array(ages, np.float64), np.array(pages, np.int64))
        for age, count in chunk:
            for _ in range(count):
                one_by_one.observe(age)
    sums = [each.get_sample_value("age_seconds_sum") for each in (ours, theirs)]
    assert sums[0] == pytest.approx(sums[1])
    shown = [re.sub(r"(?m)^age_seconds_sum .*$", "", text_of(each)) for each in (ours, theirs)]
    assert shown[0] == shown[1]


# ---- the operator's page -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def in_use(tmp_path_factory: pytest.TempPathFactory) -> Metrics:
    return metrics_in_use(tmp_path_factory.mktemp("index"))


def own_families(metrics: Metrics) -> list[prometheus_client.Metric]:
    families = list(metrics.registry.collect())
    return [family for family in families if not family.name.startswith("process_")]


def test_the_page_lists_every_metric_as_it_is_and_no_other(in_use: Metrics) -> None:
    listed = {
        name: (kind, labels, meaning)
        for name, kind, labels, meaning in ROW.findall(PAGE.read_text())
    }
    there = {}
    for family in own_families(in_use):
        labels = [each for each in family.samples[0].labels if each != "le"]
        shown = ", ".join(f"`{label}`" for label in labels)
        name = family.name + SUFFIX.get(family.type, "")
        there[name] = (family.type, shown or "-", family.documentation)
    assert listed == there


def test_alerts_ask_for_metrics_that_there_are(in_use: Metrics) -> None:
    asked = set(re.findall(r"\b(?:streamer|process)_\w+", PAGE.read_text()))
    families = list(in_use.registry.collect())
    samples = {sample.name for family in families for sample in family.samples}
    histograms = {family.name for family in families if family.type == "histogram"}
    assert asked - samples - histograms == set()


def group(folder: Path, own: str, **limits: str) -> int:
    """Return the limit that is found where control groups say so; `__` separates folders."""
    for name, limit in limits.items():
        file = folder / name.replace("__", "/").replace("limit", "memory.limit_in_bytes")
        file = file.with_name("memory.max") if file.name == "max" else file
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(limit)
    (folder / "own").write_text(own)
    return memory_limit_bytes(folder, folder / "own")


MACHINE = memory_limit_bytes(Path("/nowhere"), Path("/nowhere"))


@pytest.mark.parametrize(
    ("own", "limits", "wanted"),
    [
        ("0::/a/b\n", {"a__b__max": "max\n", "a__max": "7000000\n", "max": "9000000\n"}, 7_000_000),
        ("0::/a/b\n", {"a__b__max": "max\n"}, MACHINE),
        ("0::/\n", {"max": "8000000\n"}, 8_000_000),
        ("0::/of/the/host\n", {"max": "8000000\n"}, 8_000_000),
        ("4:memory:/a\n0::/\n", {"memory__a__limit": "6000000\n"}, 6_000_000),
        ("4:memory:/a\n", {"memory__limit": "5000000\n", "max": "1\n"}, 5_000_000),
        ("4:cpu:/a\n", {"memory__a__limit": "6000000\n"}, MACHINE),
    ],
)
def test_the_memory_is_what_the_tightest_control_group_leaves(
    tmp_path: Path, own: str, limits: dict[str, str], wanted: int
) -> None:
    assert group(tmp_path, own, **limits) == wanted


def test_the_memory_is_that_of_the_machine_where_nothing_limits_it(tmp_path: Path) -> None:
    total = re.search(r"MemTotal: +(\d+) kB", Path("/proc/meminfo").read_text())
    assert total is not None
    assert memory_limit_bytes(tmp_path, tmp_path / "own") == int(total[1]) * 1024


def test_the_version_is_shown(in_use: Metrics) -> None:
    assert values(in_use, "streamer_build_info") == {(streamer.__version__,): 1}


def test_two_workers_in_one_process_do_not_share_their_metrics() -> None:
    one, other = Metrics(), Metrics()
    SignMetrics(one).count_chunk(5, Counter(), Counter())
    assert value(other, "streamer_pages_signed_total") == 0
