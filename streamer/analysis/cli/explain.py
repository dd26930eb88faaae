"""The command `explain`: why a page is unique, or a duplicate, and what would change that."""

from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.text import Text

from streamer.analysis import exact
from streamer.analysis.comparison import visible
from streamer.analysis.documents import Body, find_texts, read_body
from streamer.analysis.exact import Edits
from streamer.cli.options import AsJson, command
from streamer.cli.terminal import Terminal, amount_bar, compile_with_bar, figures, show
from streamer.config import Settings
from streamer.errors import InputError
from streamer.model import Decision, SignedText
from streamer.pages.files import Source
from streamer.run import explanation
from streamer.run.explanation import KeptIndex, place_name
from streamer.run.index_folder import shard_folders, shard_number
from streamer.run.reading import PageReader
from streamer.run.verdict_files import read_places
from streamer.run.verdict_lines import VerdictLine
from streamer.sketch.settings import SignatureSettings
from streamer.text.visible import TextPart

SHINGLE_WIDTH = SignatureSettings().shingle_width  # of the runs of words that two pages share


@command
def explain(
    page: str,
    *,
    index: Path,
    texts: list[str] | None = None,
    verdicts: Annotated[Path | None, typer.Option(dir_okay=False, exists=True)] = None,
    as_json: AsJson = False,
    reader: PageReader,
    settings: Annotated[Settings, "key_file", "input_topic"],
) -> None:
    """Explain why a page is a duplicate or unique, by how much, and which edits would change it.

    Kept pages are found by URL or place. Nothing is kept of a duplicate: give --verdicts, which has
    its representative and similarity, or --texts or its own file, to compare its text again. The
    index is read as of its last flush; of those of partitions, that with the page or the nearest
    one counts. Other indexes that it is compared with (--also) are named, and not read.

    Example: streamer explain https://example.com/a.html --index my-index --verdicts verdicts.jsonl

    Example: streamer explain https://example.com/a.html --index my-index --texts crawl.jsonl.gz

    Args:
        page (URL|REF|FILE): A page by its URL, by its place as SOURCE:NUMBER, or a file with its
            text.
        index (DIR): Folder of the index.
        texts: Page files to take texts from, for exact resemblance. Repeatable.
        verdicts: Verdict file, to find duplicates in.
    """
    files = _Texts(reader, reader.open(texts) if texts else ())
    compile_with_bar()
    with ExitStack() as opened:
        several = {shard_number(name): opened.enter_context(closing(
            KeptIndex(index / name, settings.key_file, settings.input_topic)
        )) for name in shard_folders(index)}  # fmt: skip
        kept = next(iter(several.values()))
        compile_with_bar(main_text=kept.signature.takes_main_text)
        own = files.of_page(page)
        said = _find_duplicate(verdicts, page) if verdicts and own is None else None
        if said is not None:
            kept = several.get(said.page.partition, kept)
            kept.check_verdict(page, said.index)
            report = _report_of_verdict(kept, said)
        else:
            kept, explained = _explain_by_one(page, own, [*several.values()])
            url = explained.kept.url if explained.kept else own.name if own else ""
            report = _report(page, kept.signature_for(url), own, explained, files)
            if own is not None and kept.signature_for(url).takes_main_text:
                report.blocks = _blocks(kept.text_parts(own.utf8, own.flags, own.name))
    show(report, _print, as_json=as_json)


def _explain_by_one(
    name: str, own: Body | None, several: Sequence[KeptIndex]
) -> tuple[KeptIndex, explanation.Explained]:
    """Return what the index of a page says: that which keeps it, or has the nearest to its text."""
    found, failures = list[tuple[KeptIndex, explanation.Explained]](), list[InputError]()
    for kept in several:
        try:
            found.append((kept, _explain(kept, name, own)))
        except InputError as error:  # the page is not kept there
            failures.append(error)
    if not found:
        raise failures[0]
    return max(found, key=lambda each: each[1].nearest.similarity if each[1].nearest else 0.0)


def _explain(kept: KeptIndex, name: str, own: Body | None) -> explanation.Explained:
    """Return what the index says of a page, by its text where there is one."""
    passes = kept.meta.rows
    if own is not None:
        with amount_bar("comparing with kept pages", passes) as report:
            return kept.explain_text(
                bytes(own.utf8), own.flags, own.place, report, url=own.name if own.place else ""
            )
    with amount_bar("looking for the page", passes) as report:
        page = kept.find(name, report)
    with amount_bar("comparing with kept pages", passes) as report:
        return kept.explain_kept(page, report)


def _find_duplicate(verdicts: Path, name: str) -> VerdictLine | None:
    """Return the first verdict on a page, by its URL or place, if it calls it a duplicate.

    Raises:
        InputError: the file cannot be read, or a line of it is not a verdict.
    """
    with amount_bar("looking for the verdict", verdicts.stat().st_size) as report:
        names = {name, name.strip()}
        for _, said in read_places(verdicts, report):
            if said.url in names or place_name(said.page) in names:
                return said if said.representative else None
    return None


class NearestReport(msgspec.Struct, frozen=True):
    """The kept page that decides, and how near it is.

    Attributes:
        shared_keys: how many of `keys` both pages have; None where only a verdict is known.
        margin: by how much the similarity is above the threshold.
        covered: of each page, the one in hand first, the share of its words that are in a run of
            words that both have.
    """

    url: str
    place: str
    shared_keys: int | None
    keys: int
    equal_content: bool
    similarity: float
    exact: bool
    margin: float
    exact_resemblance: float | None = None
    covered: tuple[float, float] | None = None


class ExplainReport(msgspec.Struct):
    """All that the command says of a page; `blocks` are there where main text is compared."""

    page: str
    place: str | None
    kept: bool
    verdict: Decision
    too_short: bool | None
    threshold: float
    method: str
    not_looked_at: list[str]
    nearest: NearestReport | None
    why: str
    edits: Edits | None = None
    blocks: list[dict[str, Any]] | msgspec.UnsetType = msgspec.UNSET


def _report_of_verdict(kept: KeptIndex, said: VerdictLine) -> ExplainReport:
    """Return the explanation of a duplicate by its verdict."""
    near = said.representative
    threshold = kept.settings.for_url(said.url, main=said.text != SignedText.VISIBLE).threshold
    assert near is not None, said
    similarity = said.similarity or 0.0
    nearest = NearestReport(
        near.url, place_name(near.page), None, kept.signature.bands + 1, said.basis != "signature",
        similarity, said.exact, round(similarity - threshold, 4),
    )  # fmt: skip
    return ExplainReport(
        said.url, place_name(said.page), False, Decision.DUPLICATE,
        said.basis == "too_short", threshold, kept.signature.method, [], nearest,
        explanation.why_duplicate(said.basis),
    )  # fmt: skip


@dataclass(frozen=True)
class _Texts:
    """The page files that texts are taken from; there may be none."""

    reader: PageReader
    sources: Sequence[Source]

    def of_page(self, name: str) -> Body | None:
        """Return the text of the page or of the file with this name, where it is given."""
        if not Path(name).is_file():
            found = self.find({name, name.strip()})
            return found.get(name) or found.get(name.strip())
        file = read_body(name, self.reader)
        return file._replace(utf8=bytes(file.utf8), place=None)

    def find(self, names: set[str]) -> dict[str, Body]:
        """Return the texts of these names."""
        if not self.sources:
            return {}
        total = sum(source.total_bytes or 0 for source in self.sources)
        with amount_bar("reading texts", total) as report:
            return find_texts(self.reader, self.sources, names, report)


def _report(
    name: str,
    signature: SignatureSettings,
    own: Body | None,
    explained: explanation.Explained,
    texts: _Texts,
) -> ExplainReport:
    """Return the explanation by what an index says, and by texts where they are at hand."""
    nearest, kept, threshold = explained.nearest, explained.kept, explained.settings.threshold
    report = ExplainReport(
        page=kept.url if kept else own.name if own else name,
        place=kept and place_name(kept.place),
        kept=kept is not None,
        verdict=Decision.DUPLICATE if explained.is_duplicate else Decision.UNIQUE,
        too_short=explained.too_short,
        threshold=threshold,
        method=signature.method,
        not_looked_at=[corpus.name for corpus in explained.settings.also],
        nearest=None,
        why=explained.why,
    )
    if nearest is None:
        return report
    edits, resemblance, covered = _compare_shingles(signature, own, nearest, threshold, texts)
    # Otherwise nothing is near, or the exact resemblance is across the threshold already.
    if edits and not nearest.equal_content and edits.differ == explained.is_duplicate:
        report.edits = edits
    report.nearest = NearestReport(
        nearest.page.url, place_name(nearest.page.place), nearest.shared_keys, explained.keys + 1,
        nearest.equal_content, nearest.similarity, nearest.exact,
        round(nearest.similarity - threshold, 4), resemblance, covered,
    )  # fmt: skip
    return report


def _compare_shingles(
    signature: SignatureSettings,
    own: Body | None,
    nearest: explanation.NearestPage,
    threshold: float,
    texts: _Texts,
) -> tuple[Edits | None, float | None, tuple[float, float] | None]:
    """Return the edits that change the verdict, exact resemblance, and shares that are covered.

    All are None where a method has no shingles or the page no text; the last two also where there
    is no text of the nearest page, and the edits are estimated from its sketch.
    """
    sets = exact.shingle_sets(signature)
    if sets is None or own is None:
        return None, None, None
    page = sets.page(own.utf8, own.flags)
    mine = sets.of(page)
    name = place_name(nearest.page.place)
    found = texts.find({nearest.page.url, name})
    text = found.get(name) or found.get(nearest.page.url)
    if text is None:
        common, union = exact.estimate_sets(nearest.similarity, len(mine), len(mine))
        return exact.edits_needed(common, union, threshold, sets.width), None, None
    near = sets.page(text.utf8, text.flags)
    theirs = sets.of(near)
    edits = exact.edits_needed(len(mine & theirs), len(mine | theirs), threshold, sets.width)
    own_share, other_share = exact.compare_words(page.words, near.words, SHINGLE_WIDTH).covered
    return edits, exact.jaccard(mine, theirs) or 0.0, (own_share or 0.0, other_share or 0.0)


def _print(report: ExplainReport) -> None:
    """Print the explanation as a table and a sentence or two."""
    named = ("page", report.page), ("place", report.place), ("verdict", report.verdict)
    rows = [(name, value) for name, value in named if value is not None]
    if near := report.nearest:
        rows += [("nearest kept page", near.url), ("  its place", near.place)]
        if near.shared_keys is not None:
            rows.append(("  keys shared", f"{near.shared_keys} of {near.keys}"))
        told = "exactly, by the shingles" if near.exact else "by the sketches"
        rows.append(("  similarity", f"{near.similarity:.4f} {told}"))
        if near.exact_resemblance is not None and near.covered is not None:
            rows.append(("  exact resemblance", f"{near.exact_resemblance:.4f}"))
            mine, theirs = near.covered
            covered = f"{mine:.2%} of this page, {theirs:.2%} of that one"
            rows.append(("  words in shared runs", covered))
        rows.append(("threshold", f"{report.threshold:g} ({near.margin:+.4f})"))
    console = Terminal()
    console.print(figures(rows, "left"))
    console.say(report.why)
    if names := report.not_looked_at:
        console.say(
            f"Pages that it is compared with in other indexes ({', '.join(names)}) are not looked "
            "at: explain its file with the --index of these, too."
        )
    if report.blocks:
        _print_blocks(console, report.blocks)
    if report.edits:
        console.say(_edits_sentence(report.edits))


def _blocks(parts: Sequence[TextPart]) -> list[dict[str, Any]]:
    """Return parts of a page as JSON values; without repeats, and `dropped` where it is false."""
    always = {"text", "counts"}
    return [
        {name: value for name, value in part._asdict().items() if name in always or value}
        for part in parts
    ]


def _print_blocks(console: Terminal, blocks: list[dict[str, Any]]) -> None:
    """Print the page's text, what does not count dimmed."""
    if all(block["counts"] for block in blocks):
        console.say("All visible text counts: the page has no main text.")
        return
    console.say("What counts of the page's text is bright, what belongs to its site dim:")
    text = Text()
    for block in blocks:
        words = visible(" ".join(block["text"].split()))
        style = None if block["counts"] else "dim"
        text.append(words + "\n" if words else "", style)
        if words and (
            note := explanation.describe_repeats(
                block.get("repeats", 0), dropped="dropped" in block
            )
        ):
            text.append(f"  ({note})\n", style)
    console.print(text, soft_wrap=True)


def _edits_sentence(edits: Edits) -> str:
    verb, other = ("differ", "unique") if edits.differ else ("agree", "a duplicate")
    return (
        f"If {edits.shingles:,} shingles more would {verb}, {edits.words:,} words or more, it would"
        f" be {other}."
    )
