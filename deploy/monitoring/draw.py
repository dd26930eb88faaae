"""Draw the dashboard from its own queries: a real broker, workers under load, and Prometheus.

    python deploy/monitoring/draw.py docs/dashboard.png

Prometheus (Debian's package) scrapes the workers and has the alerts loaded; each query of the
dashboard is then put to it, as Grafana would. A query without an answer ends this with exit code 1.
The picture is drawn by matplotlib and needs no Grafana: the graphs are the dashboard's, the looks
are not.
"""

import argparse
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter

# A script has its own folder on the path, but its modules are imported from the root.
sys.path.insert(0, str(Path(__file__).absolute().parents[2]))

from deploy.monitoring.make import HERE, ROWS, Panel

ROOT = HERE.parents[1]
JOB, OWNERS, SIGNERS = "streamer", 1, 2
SCRAPE_SECONDS, RATE_SECONDS = 2, 15
UNITS = {"percentunit": (100.0, " %"), "bytes": (2.0**-20, " MiB"), "s": (1.0, " s")}
STREAMER = (sys.executable, "-m", "streamer")

Series = tuple[str, list[float], list[float]]  # its legend, seconds, values


@dataclass(frozen=True)
class Place:
    """Where everything of a run lies, and its ports, one after the other."""

    folder: Path
    port: int

    @property
    def brokers(self) -> str:
        """The broker's address."""
        return f"127.0.0.1:{self.port}"

    @property
    def prometheus(self) -> str:
        """Where Prometheus answers."""
        return f"http://127.0.0.1:{self.port + 2}"

    def health_port(self, number: int) -> int:
        """Return where a worker answers."""
        return self.port + 3 + number


def free_ports(count: int) -> int:
    """Return the first of so many ports that are free, below those of outgoing connections."""
    for first in range(18_000, 30_000, count):
        with ExitStack() as stack:
            try:
                for port in range(first, first + count):
                    stack.enter_context(socket.socket()).bind(("127.0.0.1", port))
            except OSError:
                continue
        return first
    raise SystemExit("No ports are free.")


def run(*command: object) -> None:
    """Run a command to its end."""
    subprocess.run([*map(str, command)], check=True, cwd=ROOT, stdout=subprocess.DEVNULL)


@contextmanager
def broker(place: Place) -> Iterator[None]:
    """Have a broker."""
    script = ROOT / "deploy" / "broker" / "broker"
    os.environ["BROKER_LIBS"] = str(ROOT / "build" / "broker" / "libs")  # as `make broker`
    run(script, "start", place.folder / "broker", place.port)
    try:
        yield
    finally:
        run(script, "stop", place.folder / "broker")


@contextmanager
def started(place: Place, name: str, *command: object) -> Iterator[None]:
    """Have a process beside us, with its log in the folder."""
    with (place.folder / f"{name}.log").open("wb") as log:
        process = subprocess.Popen([*map(str, command)], cwd=ROOT, stdout=log, stderr=log)
    try:
        yield
    finally:
        process.terminate()
        process.wait(60)


def worker(place: Place, number: int, *options: object) -> tuple[object, ...]:
    """Return the command of a worker."""
    return (
        *STREAMER, "worker", "--brokers", place.brokers, "--key-file", place.folder / "key",
        "--threads", 1, "--head-pages", 4_000, "--track-changes",
        "--health-port", place.health_port(number), *options,
    )  # fmt: skip


def workers(place: Place) -> dict[str, tuple[object, ...]]:
    """Return the commands of all workers: the owner, then signers."""
    snapshots = ("--snapshot-to", place.folder / "snapshots", "--snapshot-every", "1m")
    own = ("--role", "index", "--index", place.folder / "index", *snapshots)
    commands = {"index": worker(place, 0, *own)}
    for number in range(SIGNERS):
        copies = ("--role", "sign", "--kept-topic", "pages.kept")
        commands[f"sign-{number}"] = worker(place, OWNERS + number, *copies)
    return commands


def prometheus(place: Place) -> tuple[object, ...]:
    """Return the command of a Prometheus that scrapes the workers, and has the alerts."""
    targets = [f"127.0.0.1:{place.health_port(n)}" for n in range(OWNERS + SIGNERS)]
    scrape = {"job_name": JOB, "static_configs": [{"targets": targets}]}
    settings = {
        "global": {"scrape_interval": f"{SCRAPE_SECONDS}s", "evaluation_interval": "5s"},
        "rule_files": [str(HERE / "rules.yaml")],
        "scrape_configs": [scrape],
    }
    file = place.folder / "prometheus.yaml"
    file.write_text(yaml.safe_dump(settings))
    return (
        "prometheus", f"--config.file={file}", f"--storage.tsdb.path={place.folder / 'tsdb'}",
        f"--web.listen-address={place.prometheus.removeprefix('http://')}",
    )  # fmt: skip


def ask(place: Place, path: str, **asked: object) -> Any:  # noqa: ANN401 - JSON
    """Return what Prometheus answers."""
    url = f"{place.prometheus}/api/v1/{path}?{urllib.parse.urlencode(asked)}"
    with urllib.request.urlopen(url, timeout=30) as answer:  # noqa: S310 - our own
        return json.load(answer)["data"]


def load(place: Place, crawls: list[Path], seconds: float) -> None:
    """Send one crawl after the other, with pauses, until the time is over."""
    end = time.monotonic() + seconds
    number = 0
    while time.monotonic() < end:
        file = crawls[number % len(crawls)]
        run(*STREAMER, "produce", file, "--topic", "pages", "--brokers", place.brokers)
        time.sleep((number % 3) * 4)
        number += 1


def series(place: Place, panel: Panel, start: float, end: float) -> Iterator[Series]:
    """Yield what Prometheus has for a panel.

    Raises:
        LookupError: it has nothing for one of the queries.
    """
    for query, legend in panel.queries:
        wanted = query.replace("$job", JOB).replace("$__rate_interval", f"{RATE_SECONDS}s")
        answer = ask(place, "query_range", query=wanted, start=start, end=end, step=SCRAPE_SECONDS)
        if not answer["result"]:
            raise LookupError(f"{panel.title}: nothing for {wanted}")
        for found in answer["result"]:
            name = legend
            for label, value in found["metric"].items():
                name = name.replace("{{" + label + "}}", value)
            moments = [float(moment) - start for moment, _ in found["values"]]
            yield name, moments, [float(value) for _, value in found["values"]]


def draw(axes: Axes, panel: Panel, found: list[Series]) -> None:
    """Draw a panel."""
    factor, unit = UNITS.get(panel.unit, (1.0, " /s" if panel.unit == "ops" else ""))
    for name, moments, values in found:
        axes.plot(moments, [value * factor for value in values], label=name, linewidth=1.1)
    axes.set_title(panel.title, fontsize=8, loc="left", fontweight="bold")
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}{unit}"))
    axes.tick_params(labelsize=6)
    axes.grid(visible=True, alpha=0.3, linewidth=0.5)
    handles, names = axes.get_legend_handles_labels()
    axes.legend(handles[:8], names[:8], fontsize=5, loc="upper left", framealpha=0.6, ncols=2)
    axes.set_xlim(left=0)


def picture(place: Place, start: float, end: float, file: Path) -> list[str]:
    """Draw all panels into a file; return which queries had no answer."""
    rows = [row[first : first + 3] for row in ROWS.values() for first in range(0, len(row), 3)]
    titles = [title for title, row in ROWS.items() for _ in range(0, len(row), 3)]
    figure, grid = plt.subplots(len(rows), 3, figsize=(12, 1.9 * len(rows)), squeeze=False)
    missing = []
    for line, title, panels in zip(grid, titles, rows, strict=True):
        line[0].set_ylabel(title, fontsize=8, color="tab:blue")
        for axes in line[len(panels) :]:
            axes.set_axis_off()
        for axes, panel in zip(line, panels, strict=False):
            try:
                draw(axes, panel, list(series(place, panel, start, end)))
            except LookupError as error:
                missing.append(str(error))
    about = f"{SIGNERS} signers and {OWNERS} owner over {end - start:.0f} s; drawn by matplotlib"
    figure.suptitle(f"The dashboard's own queries, answered by Prometheus: {about}", fontsize=9)
    figure.tight_layout(rect=(0, 0, 1, 0.985))
    figure.savefig(file, dpi=100)
    return missing


def main() -> None:
    """Run the load, and draw."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("picture", type=Path)
    parser.add_argument("--seconds", type=float, default=150.0, help="how long pages are sent")
    asked = parser.parse_args()
    if shutil.which("prometheus") is None:
        raise SystemExit("Prometheus is missing. On Debian: apt-get install prometheus")
    run(*STREAMER, "warm")
    with tempfile.TemporaryDirectory(prefix="streamer-dashboard-") as name, ExitStack() as stack:
        place = Place(Path(name), free_ports(3 + OWNERS + SIGNERS))
        crawls = []
        for seed in range(6):
            folder = place.folder / f"crawl-{seed}"
            run(*STREAMER, "sample", folder, "--pages", 3_000, "--seed", seed)
            crawls.append(folder / "pages.jsonl")
        (place.folder / "key").write_text("5a" * 32)
        stack.enter_context(broker(place))
        run(*STREAMER, "produce", crawls[0], "--topic", "pages", "--brokers", place.brokers)
        start = time.time()
        stack.enter_context(started(place, "prometheus", *prometheus(place)))
        for process, command in workers(place).items():
            stack.enter_context(started(place, process, *command))
        load(place, crawls[1:], asked.seconds)
        rules = [rule for group in ask(place, "rules")["groups"] for rule in group["rules"]]
        ill = [rule["name"] for rule in rules if rule["health"] != "ok"]
        missing = picture(place, start, time.time(), asked.picture)
        firing = [rule["name"] for rule in rules if rule["state"] == "firing"]
        print(f"{len(rules)} alerts are loaded; ill: {ill}; firing: {firing}")
        print("\n".join(missing) or f"Every query had an answer: {asked.picture}")
    sys.exit(bool(missing or ill))


if __name__ == "__main__":
    main()
