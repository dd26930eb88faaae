"""The summary at the end of a replay: what this run did, and where the index is."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from streamer.cli.terminal import Figure, Terminal, figures, sum_rows
from streamer.model import Change
from streamer.run.catalogue import Catalogue
from streamer.run.index_folder import IndexFolder
from streamer.run.judge import Judge
from streamer.run.reading import describe_skipped, name_first
from streamer.run.replay import Outcome
from streamer.run.totals import LargeCluster, SharedText, Totals

MOST = 0.5
LARGE_CLUSTERS_SHOWN = SHARED_TEXTS_SHOWN = 10
_OF_CDX = {"archive_unreadable", "bad_cdx_line", "wrong_record"}


class Summary(msgspec.Struct):
    """The summary as JSON; `total` counts all runs on this index, the rest is of this run.

    `examples` names a record for each code. `changes` are empty without `--track-changes`.
    `wrong_dates` are pages dated too late to be believed, with `--expire-after`; `examples` names
    the last one as `wrong_date`. `missing_fields` are those of `--carry` that no page of this run
    had.
    """

    records: int
    pages: int
    unique: int
    duplicates: int
    duplicates_by_basis: dict[str, int]
    too_short: int
    dead_letters: dict[str, int]
    skipped: dict[str, int]
    changes: dict[str, int]
    wrong_dates: int
    seconds: float
    pages_per_second: float
    index_bytes: int
    index_pages: int
    index_fingerprint: str
    saturated_postings: int
    sources_done_before: int
    sources_empty: list[str]
    sources_incomplete: dict[str, str]
    sources_without_last_line: list[str]
    sources_with_lost_text: dict[str, float]
    files_passed_over: list[str]
    files_passed_over_by_kind: dict[str, int]
    examples: dict[str, str]
    missing_fields: list[str]
    large_clusters: list[LargeCluster]
    shared_texts: list[SharedText]
    interrupted: bool
    total: dict[str, Any]


class _SummaryHead(msgspec.Struct):
    """What shows that a file is a summary, of any version."""

    records: int
    index_fingerprint: str


def may_be_replaced(data: bytes) -> bool:
    """Return whether a file holds nothing, or a summary of a run before."""
    try:
        return not data or bool(msgspec.json.decode(data, type=_SummaryHead))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False


def pages_of(totals: Totals) -> int:
    """Return the number of pages that got a verdict."""
    return totals.unique + sum(totals.duplicates.values())


def summarise(outcome: Outcome, catalogue: Catalogue, judge: Judge, folder: IndexFolder) -> Summary:
    """Return the summary of a run."""
    totals, report, meta = outcome.totals, outcome.report, folder.store.meta
    pages = pages_of(totals)
    return Summary(
        records=totals.records,
        pages=pages,
        unique=totals.unique,
        duplicates=sum(totals.duplicates.values()),
        duplicates_by_basis=totals.duplicates,
        too_short=totals.too_short,
        dead_letters=totals.dead,
        skipped=totals.skipped,
        changes=totals.changes,
        wrong_dates=outcome.wrong_dates,
        seconds=round(outcome.seconds, 3),
        pages_per_second=round(pages / outcome.seconds, 1) if outcome.seconds else 0.0,
        index_bytes=folder.store.size_bytes(),
        index_pages=meta.rows if meta else 0,
        index_fingerprint=folder.fingerprint,
        saturated_postings=judge.shard.refused,
        sources_done_before=report.done_before,
        sources_empty=report.empty,
        sources_incomplete=report.incomplete,
        sources_without_last_line=report.unended,
        sources_with_lost_text=report.lost_text,
        files_passed_over=[*report.skipped_files],
        files_passed_over_by_kind=Counter(report.skipped_files.values()),
        examples=outcome.examples,
        missing_fields=outcome.missing_fields if pages else [],
        large_clusters=outcome.large_clusters,
        shared_texts=outcome.shared_texts,
        interrupted=outcome.interrupted,
        total=msgspec.to_builtins(catalogue.totals),
    )


def print_summary(console: Terminal, summary: Summary, passed_over: Mapping[str, str]) -> None:
    """Print the summary as a table; `passed_over` are the files of folders, with their kinds."""
    if passed_over:
        console.say(describe_skipped(passed_over))
    for note in _notes(summary):
        console.say(note)
    if not summary.records and not summary.interrupted:
        console.print(_nothing_new(summary))
        return
    console.print(figures(_lines(summary)))


def _nothing_new(summary: Summary) -> str:
    """Return why a run has judged nothing."""
    before, dead = summary.total["records"], sum(summary.total["dead"].values())
    if summary.sources_incomplete or summary.sources_without_last_line:
        return "No new record could be judged."
    if summary.sources_empty and not summary.sources_done_before:
        return "Nothing new: the input holds no record."
    parts = [f"{before:,} records in this index"]
    if dead:
        parts.append(f"{dead:,} of them dead letters; {_again(summary.total['dead'])}")
    return f"Nothing new: all of these records have been judged before ({', '.join(parts)})."


def _again(codes: Iterable[str]) -> str:
    """Return how dead letters with these codes are judged again."""
    found, again = set(codes), []
    if found - _OF_CDX:
        again.append("give their file as PAGES to judge these again")
    if found & _OF_CDX:
        again.append(
            "to judge lines of a CDX file again, write them with "
            "`streamer dead-letters show FILE --out again.cdxj`, and replay that with --cdx-base"
        )
    return "; ".join(again)


def dead_share(summary: Summary) -> float:
    """Return the share of dead letters among the records of this run."""
    return sum(summary.dead_letters.values()) / summary.records if summary.records else 0.0


def warnings(summary: Summary) -> list[str]:
    """Return what must be said of a run, a sentence each."""
    said = _little_judged(summary)
    if names := summary.missing_fields:
        said.append(
            f"No page of this run had {name_first(names)}, so no verdict carries it. Correct "
            "--carry, or leave it out."
        )
    if count := summary.wrong_dates:
        what = "1 page is" if count == 1 else f"{count:,} pages are"
        said.append(
            f"{what} dated more than a day after the pages before, and too few others confirm it "
            f"(the last: {summary.examples['wrong_date']}). Such a date expires no page. Correct "
            "it where the pages come from."
        )
    return said


def _little_judged(summary: Summary) -> list[str]:
    dead, skipped = sum(summary.dead_letters.values()), sum(summary.skipped.values())
    if summary.records and not summary.pages:
        codes = {**summary.dead_letters, **summary.skipped}
        what = (
            f"No page was judged: of {summary.records:,} records, {dead:,} became dead letters and "
            f"{skipped:,} were skipped"
        )
    elif dead_share(summary) > MOST:
        codes = summary.dead_letters
        what = f"Most records became dead letters: {dead:,} of {summary.records:,}"
    else:
        return []
    code = max(codes, key=lambda each: (codes[each], each))
    example = summary.examples.get(code, "")
    return [f"{what}, most often with {code} ({codes[code]:,}), for example {example}."]


def _notes(summary: Summary) -> list[str]:
    """Say what of the input was not read, and what seems not to have been rendered."""
    notes = []
    if names := summary.sources_empty:
        notes.append(f"Empty: {name_first(names)}.")
    if names := summary.sources_without_last_line:
        notes.append(
            f"The last line has no end, and is left for the next run: {name_first(names)}. "
            "Add --complete if that is all there will be."
        )
    notes += [
        f"{share:.0%} of the characters of {name} are U+FFFD: a wrong charset lost them, so that "
        "different pages may have the same text. Convert it to UTF-8, or declare its charset."
        for name, share in summary.sources_with_lost_text.items()
    ]
    return notes + [str(each) for each in summary.shared_texts[:SHARED_TEXTS_SHOWN]]


def _lines(summary: Summary) -> list[Figure]:
    lines: list[Figure] = [
        ("records", summary.records),
        ("pages judged", summary.pages),
        ("  unique", summary.unique),
        *sum_rows("  duplicates", summary.duplicates_by_basis, "    by "),
        ("  too short to compare", summary.too_short),
    ]
    if summary.changes:
        lines.append(("changes of URLs", sum(summary.changes.values())))
        lines += [(f"  {name}", summary.changes.get(name, 0)) for name in Change]
    if summary.wrong_dates:
        lines.append(("dates not believed", summary.wrong_dates))
    lines += sum_rows("dead letters", summary.dead_letters) + sum_rows("skipped", summary.skipped)
    if summary.large_clusters:
        lines.append(("large clusters", len(summary.large_clusters)))
        lines += [
            (f"  {cluster.share:.0%} of {cluster.source}", cluster.duplicates)
            for cluster in summary.large_clusters[:LARGE_CLUSTERS_SHOWN]
        ]
    files: list[Figure] = [
        ("files without records", len(summary.sources_empty)),
        ("files judged before", summary.sources_done_before),
        ("files read in part", len(summary.sources_incomplete)),
    ]
    return [
        *lines,
        *((name, count) for name, count in files if count),
        ("pages a second", f"{summary.pages_per_second:,.0f}"),
        ("seconds", f"{summary.seconds:,.1f}"),
        ("pages in the index", summary.index_pages),
        ("index size", f"{summary.index_bytes / 1e6:,.1f} MB"),
    ]
