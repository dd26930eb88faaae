"""Ten thousand damaged records of each input format, through the product's own stages.

A process of its own reads and judges the records, as a replay or a worker does: files
from the disk, record batches through the client's decoder. So a crash ends that process only, and
is told with the round that made it. What must hold of each input: no crash, no exception but one
that tells the operator what is wrong, no more than SECONDS_MAX of the processor, and every record
in exactly one place: a page with one verdict, a dead letter, or a count. Over all of a
format the process may grow by GROWTH_BYTES_MAX beyond what it took for the untouched records.
"""

from __future__ import annotations

import gc
import os
import resource
import shutil
import sys
import time
import traceback
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import msgspec
from aiokafka import TopicPartition
from aiokafka.consumer.fetcher import READ_COMMITTED, PartitionRecords
from aiokafka.record.memory_records import MemoryRecords

from streamer.errors import InputError
from streamer.kafka.reader import cut
from streamer.pages.files import open_sources
from streamer.pages.parse import PageParser
from streamer.pages.schema_registry import RegistryAddress, SchemaRegistry
from tests.campaign import mutated_files, mutators
from tests.campaign.campaign import Campaign, Outcome
from tests.campaign.judging import MAPPING, Judge, check_batch, peak_bytes, reset_peak, watch
from tests.helpers.schema_registry import fake_registry

if TYPE_CHECKING:
    from streamer.pages.chunk import Message
    from tests.campaign.mutated_files import Files

FORMATS = (
    "json", "warc", "html", "gzip", "zstd", "kafka", "schemas", "table", "rows", "tables", "wacz",
    "cdx",
)  # fmt: skip
FILES = {"tables": mutated_files.tables, "wacz": mutated_files.wacz, "cdx": mutated_files.cdx}
SECONDS_MAX = 1.0  # of the processor, for one input of a few records
SECONDS_STUCK = 60.0  # by the clock without any progress: it is ended, and that is a violation
GROWTH_BYTES_MAX = 256 << 20
ADDRESS_BYTES_MAX = 8 << 30  # what asks for more gets a MemoryError instead of the machine
WARM_UP = 20


class Report(msgspec.Struct):
    """What a process did; `violations` begin with their round."""

    rounds: int = 0
    pages: int = 0
    dead: int = 0
    skipped: int = 0
    refused: int = 0
    found_behind: int = 0  # untouched records behind damaged ones, in WARC
    seconds_max: float = 0.0
    growth_bytes: int = 0
    violations: list[str] = []


# ---- in the process that reads -------------------------------------------------------------------


class _Reader:
    """Reads inputs of one format, and holds each against what must hold."""

    def __init__(self, kind: str, folder: Path, judge: Judge, registry: SchemaRegistry) -> None:
        self._kind = kind
        self._folder = folder
        self._judge = judge
        self._parsers = (
            PageParser(),
            PageParser(MAPPING),
            PageParser(carry=["fetched_at", "/extra"]),
        )
        self._with_schemas = PageParser(registry=registry)
        self.report = Report()

    def read(self, rng: Random) -> None:
        """Read one input.

        Raises:
            AssertionError: a record is not in exactly one place.
        """
        if self._kind == "kafka":
            self._read_batches(mutators.record_batches(rng))
        elif self._kind == "html":
            messages = mutators.html_messages(rng)
            self._read_messages([(place, None, one) for place, one in enumerate(messages)])
        elif self._kind == "schemas":
            messages = mutators.framed_messages(rng)
            self._read_messages(
                [(place, None, one) for place, one in enumerate(messages)], self._with_schemas
            )
        elif self._kind in FILES:
            self._read_files(FILES[self._kind](rng))
        elif self._kind == "json":
            self._read_json(rng)
        elif self._kind == "warc":
            urls = self._read_file("x.warc", mutators.warc(rng))
            assert mutators.FIRST.encode() in urls, "the untouched record before is lost"
            self.report.found_behind += mutators.LAST.encode() in urls
        elif self._kind in {"table", "rows"}:
            make = mutated_files.table if self._kind == "table" else mutated_files.rows
            suffix, data = make(rng)
            self._read_file(f"x{suffix}", data)
        else:
            pack = mutators.gzip_member if self._kind == "gzip" else mutators.zstd_frame
            if rng.random() < 0.5:
                self._read_file("x.jsonl", mutators.compressed_lines(rng, pack))
            else:
                self._read_file("x.jsonl", mutators.compressed_message(rng, pack, self._kind))

    def _read_json(self, rng: Random) -> None:
        data = mutators.json_lines(rng)
        urls = self._read_file("x.jsonl", data)
        assert urls[0] == mutators.FIRST.encode(), "the untouched record before is lost"
        if data.endswith(b"\n"):  # else it is not sure to be a record
            assert urls[-1] == mutators.LAST.encode(), "the untouched record behind is lost"

    def _read_file(self, name: str, data: bytes) -> list[bytes]:
        """Read a file; return the URLs of its pages."""
        path = self._folder / name
        path.write_bytes(data)
        parser = self._parsers[len(data) % len(self._parsers)]
        try:
            source = open_sources([str(path)]).sources[0]
        except InputError:  # its first bytes are those of a format that is not read
            self.report.refused += 1
            return []
        read = self._judge.source(source, parser)
        self.report.refused += bool(read.refused)
        self._enter(read.pages, read.dead.total(), read.skipped.total())
        return read.urls

    def _read_files(self, made: Files) -> None:
        """Read files that belong together; what is sound among them must be read."""
        folder = self._folder / "files"
        shutil.rmtree(folder, ignore_errors=True)
        for name, data in made.files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(data)
        parser = self._parsers[len(made.files) % len(self._parsers)]
        found: set[bytes] = set()
        records, refused = 0, ""
        try:
            sources = open_sources([str(folder / made.read)], cdx_base=str(folder)).sources
        except InputError as error:
            sources, refused = [], str(error)
        for source in sources:
            read = self._judge.source(source, parser)
            found.update(read.urls)
            records, refused = records + read.records, refused or read.refused
            self._enter(read.pages, read.dead.total(), read.skipped.total())
        self.report.refused += bool(refused)
        lost = {url.encode() for url in made.sound} - found
        assert not lost, f"untouched records are lost: {sorted(lost)[:3]}, {refused}"
        if made.records is not None:
            assert (records, refused) == (made.records, ""), (records, made.records, refused)

    def _read_messages(self, messages: list[Message], parser: PageParser | None = None) -> None:
        """Read messages of one partition, as a worker does."""
        parser = parser or PageParser()
        batch = parser.parse_messages(messages[0][0], messages[-1][0] + 1, messages)
        check_batch(batch, len(messages))
        if self._kind == "schemas":
            wanted = [mutators.FIRST.encode(), mutators.LAST.encode()]
            assert [*batch.urls[:1], *batch.urls[-1:]] == wanted, "untouched records are lost"
        self._enter(len(self._judge.batch(batch)), len(batch.dead), batch.skipped.total())

    def _read_batches(self, data: bytes) -> None:
        """Read what a broker sent, as the worker does; what the client refuses ends a worker."""
        try:
            records = list(
                PartitionRecords(
                    TopicPartition("pages", 0), MemoryRecords(data), [(7, 0)], 0, None, None,
                    True, READ_COMMITTED,
                )
            )  # fmt: skip
        except MemoryError:
            raise
        except Exception:  # noqa: BLE001 - a worker ends here, whatever it is, and passes nothing over
            self.report.refused += 1
            return
        offsets = [record.offset for record in records]
        if any(one >= next_one for one, next_one in pairwise(offsets)):
            self.report.refused += 1  # no broker takes such a batch in, or sends it
            return
        end = offsets[-1] + 1 if records else 0
        for chunk in cut("pages", 0, 0, end, records) if records else ():
            self._read_messages([(one.offset, one.key, one.value) for one in chunk.records])

    def _enter(self, pages: int, dead: int, skipped: int) -> None:
        self.report.pages += pages
        self.report.dead += dead
        self.report.skipped += skipped


def read_rounds(rounds: int, seed: int, first: int, folder: Path) -> dict[str, Report]:
    """Read all formats' inputs from number `first` on, with the number of each in a file beside."""
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_BYTES_MAX, ADDRESS_BYTES_MAX))
    with fake_registry() as told:
        told.schemas.update(mutators.SCHEMAS)
        registry = SchemaRegistry(RegistryAddress(told.url))
        return _read_formats(rounds, seed, first, folder, registry)


def _read_formats(
    rounds: int, seed: int, first: int, folder: Path, registry: SchemaRegistry
) -> dict[str, Report]:
    at = os.open(folder / "at", os.O_CREAT | os.O_WRONLY)
    judge = Judge(folder / "judge", bytes(32))
    reports: dict[str, Report] = {}
    for place, kind in enumerate(FORMATS):
        begin, end = max(first, place * rounds), (place + 1) * rounds
        reader = _Reader(kind, folder, judge, registry)
        for number in range(WARM_UP if begin < end else 0):
            _round(reader, Random(f"warm/{number}"), "")
        reader.report = reports[kind] = Report()
        gc.collect()
        reset_peak()
        idle = peak_bytes()
        for number in range(begin, end):
            os.pwrite(at, b"%12d" % number, 0)
            one = number - place * rounds
            _round(reader, Random(f"{kind}/{seed}/{one}"), f"{kind}, round {one}, seed {seed}")
        reader.report.growth_bytes = peak_bytes() - idle
    return reports


def _round(reader: _Reader, rng: Random, where: str) -> None:
    """Read one input; enter what is wrong with it."""
    report = reader.report
    start = time.process_time()
    try:
        reader.read(rng)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is a violation
        place = traceback.extract_tb(error.__traceback__)[-1]
        what = f"{type(error).__name__}: {error}"[:200]
        report.violations.append(f"{where}: {what} ({Path(place.filename).name}:{place.lineno})")
    seconds = time.process_time() - start
    report.seconds_max = max(report.seconds_max, seconds)
    if where and seconds > SECONDS_MAX:
        report.violations.append(f"{where}: took {seconds:.1f} s")
    report.rounds += 1


# ---- in the process that watches -----------------------------------------------------------------


def fuzz(rounds: int, seed: int, folder: Path) -> dict[str, Report]:
    """Have `rounds` inputs of each format read; where the reader dies, go on behind that input."""
    totals, first = {kind: Report() for kind in FORMATS}, 0
    while first < rounds * len(FORMATS):
        here = folder / f"from-{first}"
        here.mkdir()
        arguments = ["tests.campaign.fuzz", str(rounds), str(seed), str(first)]
        done = watch(arguments, here, SECONDS_STUCK)
        if isinstance(done, bytes):
            for kind, report in msgspec.json.decode(done, type=dict[str, Report]).items():
                _add(totals[kind], report)
            break
        place, one = divmod(max(done.at, 0), rounds)
        kind = FORMATS[place]
        totals[kind].violations.append(f"{kind}, round {one}, seed {seed}: {done.how}")
        first = done.at + 1 if done.at >= first else rounds * len(FORMATS)
    return totals


def _add(total: Report, report: Report) -> None:
    for name in ("rounds", "pages", "dead", "skipped", "refused", "found_behind"):
        setattr(total, name, getattr(total, name) + getattr(report, name))
    total.seconds_max = max(total.seconds_max, report.seconds_max)
    total.growth_bytes = max(total.growth_bytes, report.growth_bytes)
    total.violations += report.violations


def run(rounds: int, seed: int, folder: Path) -> Outcome:
    """Read `rounds` damaged inputs of each format."""
    figures: dict[str, Any] = {}
    violations: list[str] = []
    slowest = 0.0
    for kind, report in fuzz(rounds, seed, folder).items():
        violations += report.violations
        if report.growth_bytes > GROWTH_BYTES_MAX:
            violations.append(f"{kind}, seed {seed}: grew by {report.growth_bytes >> 20} MiB")
        slowest = max(slowest, report.seconds_max)
        figures |= {
            f"{kind}: pages, dead letters, skipped, refused": (
                f"{report.pages}, {report.dead}, {report.skipped}, {report.refused}"
            ),
            f"{kind}: slowest input, CPU ms": round(1_000 * report.seconds_max),
            f"{kind}: memory grown, MiB": report.growth_bytes >> 20,
        }
        if kind == "warc":
            figures["warc: share of untouched records behind damaged ones that was read"] = round(
                report.found_behind / max(report.rounds, 1), 4
            )
    return Outcome(rounds * len(FORMATS), violations, slowest, figures)


CAMPAIGN = Campaign(
    "fuzz",
    "A record of each input format (JSON, WARC, HTML, gzip, zstd, Kafka record batches, Avro and "
    "Parquet and Arrow, CSV, WACZ, CDX and its archives) is damaged where its structure "
    "is; no crash, no hang, memory bounded, every record has a place, and untouched ones are read.",
    rounds=10_000,
    rounds_in_short=1_500,
    rounds_in_ci=120,
    run=run,
)


if __name__ == "__main__":
    _rounds, _seed, _first, _folder = sys.argv[1:]
    _done = read_rounds(int(_rounds), int(_seed), int(_first), Path(_folder))
    sys.stdout.buffer.write(msgspec.json.encode(_done))
