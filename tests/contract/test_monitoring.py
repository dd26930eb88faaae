"""Alerts and dashboard ask for what a worker shows, and are what the files around them hold."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import generate_latest

from deploy.monitoring.make import (
    DASHBOARD,
    LEFT_OUT,
    ROWS,
    RULE,
    dashboard,
    dashboard_text,
    rule_text,
)
from streamer.metrics import Metrics
from tests.helpers.metric_values import metrics_in_use
from tests.helpers.missing import leave_out

ROOT = Path(__file__).parents[2]
MONITORING = ROOT / "deploy" / "monitoring"
RULES_TEXT = (MONITORING / "rules.yaml").read_text("utf-8")
RULES: dict[str, Any] = yaml.safe_load(RULES_TEXT)
ALERTS: list[dict[str, Any]] = [rule for group in RULES["groups"] for rule in group["rules"]]
CASES: list[dict[str, Any]] = yaml.safe_load((MONITORING / "rules.test.yaml").read_text("utf-8"))[
    "tests"
]
RUNBOOK = (ROOT / "docs" / "operations.md").read_text("utf-8")
OF_THE_SCRAPE = {"job", "instance", "role", "up"}  # labels that Prometheus adds, and its own metric
QUERIES = [query for row in ROWS.values() for panel in row for query, _ in panel.queries]
each_alert = pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: str(alert["alert"]))


def promtool(*arguments: object, given: str | None = None, code: int = 0) -> str:
    """Run promtool, and see that it is content; return what it says."""
    tool = shutil.which("promtool")
    if tool is None:
        leave_out("promtool", ".ci/tools monitoring, as root")
    done = subprocess.run(
        [tool, *map(str, arguments)], input=given, check=False, capture_output=True, text=True
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Metrics:
    return metrics_in_use(tmp_path_factory.mktemp("index"))


@pytest.fixture(scope="module")
def shown(worker: Metrics) -> dict[str, set[str]]:
    """Return all that a worker shows: the labels by the name."""
    found: dict[str, set[str]] = {}
    for family in worker.registry.collect():
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


def metrics_of(query: str) -> set[str]:
    """Return the metrics that a query asks for."""
    return set(re.findall(r"\b(?:streamer|process)_\w+|\bup\b", query))


def labels_of(query: str) -> set[str]:
    """Return the labels that a query chooses by or groups by."""
    chosen = re.findall(r"(\w+)!?=~?\"", query)
    grouped = re.findall(r"\b(?:by|on) \(([^)]*)\)", query)
    return {*chosen, *(name for part in grouped for name in part.split(", "))}


# ---- alerts --------------------------------------------------------------------------------------


def test_the_rules_are_rules_and_each_fires_where_it_must_and_not_elsewhere() -> None:
    assert f"{len(ALERTS)} rules found" in promtool("check", "rules", MONITORING / "rules.yaml")
    promtool("test", "rules", MONITORING / "rules.test.yaml")


def test_each_alert_has_a_case_in_which_it_fires() -> None:
    fired = [
        one["alertname"]
        for case in CASES
        for one in case.get("alert_rule_test", [])
        if one.get("exp_alerts")
    ]
    assert sorted(fired) == sorted(alert["alert"] for alert in ALERTS)


@each_alert
def test_an_alert_tells_how_bad_it_is_and_where_to_read_on(alert: dict[str, Any]) -> None:
    assert alert["labels"] in ({"severity": "critical"}, {"severity": "warning"})
    heading = f"\n### {alert['alert']}\n"
    assert RUNBOOK.count(heading) == 1
    section = RUNBOOK.split(heading)[1].split("\n##")[0]
    assert section.strip(), heading
    assert alert["annotations"]["runbook"] == f"docs/operations.md#{alert['alert'].lower()}"
    assert alert["annotations"]["summary"].endswith(".")


def test_the_runbook_has_no_section_of_an_alert_that_is_gone() -> None:
    assert set(re.findall(r"^### (Streamer\w+)$", RUNBOOK, re.MULTILINE)) == {
        alert["alert"] for alert in ALERTS
    }


@each_alert
def test_an_alert_asks_for_what_there_is(alert: dict[str, Any], shown: dict[str, set[str]]) -> None:
    asked = metrics_of(alert["expr"])
    assert asked - {"up"} - set(shown) == set()
    labels = {label for name in asked & set(shown) for label in shown[name]}
    named = labels_of(alert["expr"]) | set(
        re.findall(r"\$labels\.(\w+)", alert["annotations"]["summary"])
    )
    assert named - labels - OF_THE_SCRAPE == set()


def test_the_prometheus_rule_has_the_same_rules() -> None:
    text = RULE.read_text("utf-8")
    assert text == rule_text(), "python deploy/monitoring/make.py"
    assert yaml.safe_load(text)["spec"] == RULES


# ---- the dashboard -------------------------------------------------------------------------------


def test_the_dashboard_is_what_its_program_makes() -> None:
    assert DASHBOARD.read_text("utf-8") == dashboard_text(), "python deploy/monitoring/make.py"
    assert json.loads(dashboard_text()) == dashboard()


def test_each_query_of_the_dashboard_is_promql(tmp_path: Path) -> None:
    rules = [
        {"record": f"panel:{number}", "expr": query.replace("$__rate_interval", "5m")}
        for number, query in enumerate(QUERIES)
    ]
    file = tmp_path / "queries.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
    assert f"{len(QUERIES)} rules found" in promtool("check", "rules", file)


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_asks_for_what_a_worker_shows(query: str, shown: dict[str, set[str]]) -> None:
    asked = metrics_of(query)
    assert asked
    assert asked - set(shown) == set()
    labels = {label for name in asked for label in shown[name]}
    assert labels_of(query) - labels - OF_THE_SCRAPE == set()
    mentioned = re.findall(r"\b(?:streamer|process)_\w+", query)
    assert query.count('{job=~"$job"') == len(mentioned), "else it shows other installations too"


def test_legends_name_labels_that_their_queries_leave() -> None:
    for row in ROWS.values():
        for panel in row:
            for query, legend in panel.queries:
                wanted = set(re.findall(r"{{(\w+)}}", legend))
                grouped = re.search(r"\bby \(([^)]*)\)", query)
                left = set(grouped[1].split(", ")) if grouped else OF_THE_SCRAPE
                assert wanted <= left, (panel.title, query, legend)


def test_every_metric_is_on_the_dashboard_or_left_out_with_a_reason(worker: Metrics) -> None:
    asked = set.union(*map(metrics_of, QUERIES))
    families = {
        family.name: {sample.name for sample in family.samples}
        for family in worker.registry.collect()
    }
    assert {name for name, samples in families.items() if not samples & asked} == set(LEFT_OUT)


def test_what_a_worker_shows_follows_the_rules_of_prometheus(worker: Metrics) -> None:
    shown = generate_latest(worker.registry).decode()
    assert promtool("check", "metrics", given=shown, code=3).splitlines() == [
        "streamer_gauge_pages metric name should not include type 'gauge'"  # a topic's name here
    ]


# ---- sizes ---------------------------------------------------------------------------------------


def test_a_pod_of_the_index_holds_the_pages_that_it_is_for_without_an_alert() -> None:
    kept, disk_bytes, memory_bytes, process_bytes = 40_000_000, 520, 170, 0.6 * 2**30
    readme = (ROOT / "deploy" / "README.md").read_text("utf-8")
    assert f"\n| on disk | {disk_bytes} |" in readme
    assert f"\n| in memory | {memory_bytes}, and 0.6 GiB for the process |" in readme
    index = ROOT / "deploy" / "kubernetes" / "base" / "index.yaml"
    spec = yaml.safe_load(index.read_text("utf-8"))["spec"]
    (container,) = spec["template"]["spec"]["containers"]
    (claim,) = spec["volumeClaimTemplates"]
    memory = {container["resources"][bound]["memory"] for bound in ("requests", "limits")}
    sizes = [*memory, claim["spec"]["resources"]["requests"]["storage"]]
    limit, disk = (int(size.removesuffix("Gi")) * 2**30 for size in sizes)
    assert process_bytes + kept * memory_bytes < 0.9 * limit
    assert kept * disk_bytes < 0.9 * disk
