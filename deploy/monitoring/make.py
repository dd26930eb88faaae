"""Write what is generated here: the Grafana dashboard, and the PrometheusRule around rules.yaml.

    python deploy/monitoring/make.py

The dashboard is plain dictionaries, since its JSON is little more than queries and places. Each
panel is a title, a unit, and queries with their legends. `$job` is the installation.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
COMPONENTS = HERE.parent / "kubernetes" / "components"
DASHBOARD = COMPONENTS / "grafana-dashboard" / "streamer.json"
RULE = COMPONENTS / "prometheus-rule" / "prometheus-rule.yaml"
WIDTH, HEIGHT = 8, 7  # of a panel, in the 24 columns of Grafana's grid
PER_ROW = 3
OF = '{job=~"$job"}'
RATE = "[$__rate_interval]"
SOURCE = {"type": "prometheus", "uid": "${datasource}"}

Query = tuple[str, str]  # PromQL, legend


@dataclass(frozen=True)
class Panel:
    """A graph: queries with their legends, in one unit."""

    title: str
    unit: str
    queries: tuple[Query, ...]
    stacked: bool = False
    about: str = ""


def rate(metric: str, by: str = "job", where: str = OF) -> str:
    """Return the rate of a counter, summed by labels."""
    return f"sum by ({by}) (rate({metric}{where}{RATE}))"


def quantile(q: float, metric: str, by: str = "job", where: str = OF) -> str:
    """Return a quantile of a histogram."""
    return f"histogram_quantile({q}, {rate(metric + '_bucket', by + ', le', where)})"


def ahead_of(metric: str) -> str:
    """Return how many records of its log a shard is ahead of an offset."""
    return f"max by (shard) (streamer_shard_log_position{OF} - {metric}{OF})"


def each_shard(metric: str) -> tuple[Query, ...]:
    """Return the query for a gauge of shards."""
    return ((f"max by (shard) ({metric}{OF})", "shard {{shard}}"),)


LATENCY = "streamer_verdict_latency_seconds"
STAGE = "streamer_stage_seconds"
OF_SHARDS = '{job=~"$job", shard!=""}'
OF_SIGNERS = '{job=~"$job", shard=""}'
TAKEN, FREE = f"streamer_shard_index_bytes{OF}", f"streamer_shard_disk_free_bytes{OF}"
DISK_LEFT = f"min by (shard) ({FREE} / ({FREE} + {TAKEN}))"
SNAPSHOT = (
    f"max by (shard) (streamer_shard_snapshot_timestamp_seconds{OF}) > 0"  # 0: none was taken
)
FLUSH = '{job=~"$job", stage="flush"}'
ROWS: dict[str, tuple[Panel, ...]] = {
    "Throughput": (
        Panel(
            "Records a second", "ops",
            (
                (rate("streamer_records_read_total"), "read"),
                (rate("streamer_pages_signed_total"), "signed"),
                (rate("streamer_verdicts_total"), "judged"),
            ),
        ),
        Panel(
            "Verdicts a second", "ops",
            ((rate("streamer_verdicts_total", "verdict, basis"), "{{verdict}}, {{basis}}"),),
            stacked=True,
        ),
        Panel(
            "Share of duplicates", "percentunit",
            (
                (
                    rate("streamer_verdicts_total", "job", '{job=~"$job", verdict="duplicate"}')
                    + " / " + rate("streamer_verdicts_total"),
                    "of all verdicts",
                ),
            ),
        ),
        Panel(
            "Changes of URLs a second", "ops",
            ((rate("streamer_changes_total", "change"), "{{change}}"),),
            stacked=True,
            about="What pages are to the last versions of their URLs, with --track-changes.",
        ),
    ),
    "Latency and lag": (
        Panel(
            "From a page to its verdict", "s",
            (
                (quantile(0.5, LATENCY), "p50"),
                (quantile(0.99, LATENCY), "p99"),
                (f"{rate(LATENCY + '_sum')} / {rate(LATENCY + '_count')}", "mean"),
            ),
            about="From the timestamp of the page's message to the publishing of its verdict.",
        ),
        Panel(
            "Pages that are not signed", "short",
            ((f"sum by (partition) (streamer_sign_lag_records{OF})", "partition {{partition}}"),),
            stacked=True,
        ),
        Panel(
            "Records of the logs that are not applied", "short",
            ((f"sum by (shard) (streamer_shard_lag_records{OF})", "shard {{shard}}"),),
        ),
        Panel(
            "Verdicts whose pages are not copied", "short",
            ((f"sum by (partition) (streamer_kept_lag_records{OF})", "partition {{partition}}"),),
            about="With --kept-topic.",
        ),
        Panel(
            "Kept pages copied a second", "ops",
            (
                (rate("streamer_kept_copies_total"), "copied"),
                (rate("streamer_kept_expired_total"), "expired before"),
            ),
            about="With --kept-topic.",
        ),
    ),
    "Input that is no page": (
        Panel(
            "Dead letters a second", "ops",
            ((rate("streamer_dead_letters_total", "code"), "{{code}}"),),
            stacked=True,
        ),
        Panel(
            "Skipped records a second", "ops",
            ((rate("streamer_skipped_records_total", "code"), "{{code}}"),),
            stacked=True,
        ),
        Panel(
            "Share of dead letters", "percentunit",
            (
                (
                    rate("streamer_dead_letters_total") + " / "
                    + rate("streamer_records_read_total"),
                    "of what is read",
                ),
            ),
        ),
    ),
    "Saturation": (
        Panel(
            "Signers that wait for the index", "percentunit",
            (
                (
                    f"avg by (job) (rate(streamer_signing_paused_seconds_total{OF}{RATE}))",
                    "of the time",
                ),
                (f"avg by (job) (streamer_signing_paused{OF})", "now"),
            ),
        ),
        Panel(
            "Time that owners judge", "percentunit",
            (
                (
                    rate(f"{STAGE}_sum", "shard", '{job=~"$job", stage="apply"}'),
                    "shard {{shard}}",
                ),
            ),
            about="An owner judges in one thread: at 100 % it is at its end.",
        ),
        Panel(
            "Open pages", "short",
            (
                (f"max by (job) (streamer_gauge_pages{OF})", "as signers see it"),
            ),
        ),
    ),
    "Stages": (
        Panel(
            "Signers: seconds a second", "short",
            ((rate(f"{STAGE}_sum", "stage", OF_SIGNERS), "{{stage}}"),),
            stacked=True,
        ),
        Panel(
            "Owners: seconds a second", "short",
            ((rate(f"{STAGE}_sum", "stage", OF_SHARDS), "{{stage}}"),),
            stacked=True,
        ),
        Panel(
            "A chunk, p99", "s",
            ((quantile(0.99, STAGE, "stage"), "{{stage}}"),),
        ),
    ),
    "The index": (
        Panel("Kept pages", "short", each_shard("streamer_shard_kept_pages")),
        Panel("Pages in memory", "short", each_shard("streamer_shard_head_entries")),
        Panel(
            "How full the memtable is", "percentunit",
            each_shard("streamer_shard_head_fill_ratio"), about="A flush is due at 100 %.",
        ),
        Panel("Postings in key tables", "short", each_shard("streamer_shard_key_table_postings")),
        Panel("Postings frozen on disk", "short", each_shard("streamer_shard_frozen_postings")),
        Panel("Memory of the key tables", "bytes", each_shard("streamer_shard_key_table_bytes")),
        Panel(
            "Postings refused a second", "ops",
            ((rate("streamer_shard_postings_refused_total", "shard"), "shard {{shard}}"),),
        ),
        Panel(
            "Dates not believed a second", "ops",
            ((rate("streamer_shard_wrong_dates_total", "shard"), "shard {{shard}}"),),
        ),
        Panel(
            "Failed freezes, merges and sweeps a second", "ops",
            (
                (
                    rate("streamer_shard_upkeep_failures_total", "shard, work"),
                    "{{work}}, shard {{shard}}",
                ),
            ),
        ),
        Panel("Disk of the index", "bytes", each_shard("streamer_shard_index_bytes")),
        Panel(
            "Disk that is left", "percentunit",
            ((DISK_LEFT, "shard {{shard}}"),), about="Of what the index takes and what is free.",
        ),
        Panel(
            "Age of the newest snapshot", "s",
            ((f"time() - ({SNAPSHOT})", "shard {{shard}}"),),
            about="Of those that this process took. A shard that nothing came to takes none.",
        ),
        Panel(
            "Snapshots that failed, since one was taken", "short",
            each_shard("streamer_shard_snapshot_failures"),
        ),
        Panel(
            "Records that the disk does not have yet", "short",
            (
                (ahead_of("streamer_shard_flushed_offset"), "shard {{shard}}"),
                (ahead_of("streamer_shard_log_committed_offset"), "not committed, {{shard}}"),
            ),
            about="What a restart folds again.",
        ),
        Panel(
            "A flush, p99", "s", ((quantile(0.99, STAGE, "shard", FLUSH), "shard {{shard}}"),)
        ),
        Panel(
            "Flushes an hour", "short",
            ((f"3600 * {rate(STAGE + '_count', 'shard', FLUSH)}", "shard {{shard}}"),),
        ),
        Panel(
            "Records applied a second", "ops",
            (
                (rate("streamer_shard_records_applied_total", "shard"), "shard {{shard}}"),
                (
                    rate("streamer_shard_records_passed_over_total", "shard"),
                    "skipped, {{shard}}",
                ),
            ),
        ),
        Panel("Sources with records missing", "short", each_shard("streamer_shard_holes")),
    ),
    "Workers": (
        Panel(
            "Memory, of what each may take", "percentunit",
            (
                (
                    f"process_resident_memory_bytes{OF} / streamer_memory_limit_bytes{OF}",
                    "{{instance}}",
                ),
            ),
        ),
        Panel(
            "Processors in use", "short",
            ((f"rate(process_cpu_seconds_total{OF}{RATE})", "{{instance}}"),),
        ),
        Panel(
            "Ready", "short",
            (
                (f"streamer_ready{OF}", "{{instance}}"),
                (f"streamer_brokers_reachable{OF}", "{{instance}}, brokers reachable"),
                (f"count by (version) (streamer_build_info{OF})", "version {{version}}"),
            ),
        ),
        Panel(
            "Time since the start", "s",
            ((f"time() - process_start_time_seconds{OF}", "{{instance}}"),),
        ),
        Panel(
            "Open files, of those allowed", "percentunit",
            ((f"process_open_fds{OF} / process_max_fds{OF}", "{{instance}}"),),
        ),
        Panel(
            "Pages signed a second", "ops",
            ((rate("streamer_pages_signed_total", "instance"), "{{instance}}"),),
        ),
    ),
}  # fmt: skip
LEFT_OUT = {
    "process_virtual_memory_bytes": "address space that is reserved costs nothing",
    "streamer_pages_alone": "an alert asks for it, and it is none but where keys are wrong",
}


def graph(panel: Panel, number: int, left: int, top: int) -> dict[str, Any]:
    """Return a panel of Grafana's."""
    return {
        "id": number,
        "type": "timeseries",
        "title": panel.title,
        "description": panel.about,
        "datasource": SOURCE,
        "gridPos": {"x": left, "y": top, "w": WIDTH, "h": HEIGHT},
        "targets": [
            {
                "refId": chr(ord("A") + place),
                "datasource": SOURCE,
                "expr": expression,
                "legendFormat": legend,
            }
            for place, (expression, legend) in enumerate(panel.queries)
        ],
        "fieldConfig": {
            "defaults": {
                "unit": panel.unit,
                "min": 0,
                "custom": {
                    "fillOpacity": 25 if panel.stacked else 5,
                    "stacking": {"mode": "normal" if panel.stacked else "none", "group": "A"},
                },
            },
            "overrides": [],
        },
        "options": {
            "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
            "tooltip": {"mode": "multi", "sort": "desc"},
        },
    }


def panels() -> list[dict[str, Any]]:
    """Return rows and graphs, each with its place."""
    result: list[dict[str, Any]] = []
    top = 0
    for title, graphs in ROWS.items():
        place = {"x": 0, "y": top, "w": 24, "h": 1}
        row = {"id": len(result) + 1, "type": "row", "title": title, "gridPos": place}
        result.append({**row, "collapsed": False, "panels": []})
        top += 1
        for number, panel in enumerate(graphs):
            down, across = divmod(number, PER_ROW)
            left, below = across * WIDTH, top + down * HEIGHT
            result.append(graph(panel, len(result) + 1, left, below))
        top += HEIGHT * -(-len(graphs) // PER_ROW)
    return result


def variable(name: str, label: str, kind: str, **more: object) -> dict[str, Any]:
    """Return a variable of the dashboard."""
    return {"name": name, "label": label, "type": kind, "refresh": 1, "hide": 0, **more}


def dashboard() -> dict[str, Any]:
    """Return the dashboard as Grafana 10 and later import it."""
    jobs = "label_values(streamer_build_info, job)"
    return {
        "uid": "streamer",
        "title": "streamer",
        "description": "Pages in, verdicts out: throughput, lag, what fails, and the index.",
        "tags": ["streamer"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "timezone": "browser",
        "time": {"from": "now-3h", "to": "now"},
        "templating": {
            "list": [
                variable("datasource", "Prometheus", "datasource", query="prometheus"),
                variable(
                    "job", "Installation", "query", datasource=SOURCE, definition=jobs,
                    query={"query": jobs, "refId": "jobs"}, includeAll=True, multi=True,
                    allValue=".*streamer.*", current={"text": "All", "value": "$__all"},
                ),
            ]
        },
        "annotations": {"list": []},
        "panels": panels(),
    }  # fmt: skip


def dashboard_text() -> str:
    """Return the dashboard's file."""
    return json.dumps(dashboard(), indent=1) + "\n"


def rule_text() -> str:
    """Return the PrometheusRule: the rules as they are written, comments included, below `spec`."""
    written = (HERE / "rules.yaml").read_text("utf-8")
    groups = written[written.index("groups:") :]
    below = "".join(f"  {line}" if line.strip() else line for line in groups.splitlines(True))
    return f"""\
# Made by deploy/monitoring/make.py from deploy/monitoring/rules.yaml: change that.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: streamer
  labels:
    app.kubernetes.io/name: streamer
spec:
{below}"""


if __name__ == "__main__":
    DASHBOARD.write_text(dashboard_text(), "utf-8")
    RULE.write_text(rule_text(), "utf-8")
    print("written:", DASHBOARD, RULE)
