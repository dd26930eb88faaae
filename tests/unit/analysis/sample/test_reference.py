"""The score of verdicts: the exact resemblance of pages, and how right verdicts are by it."""

import base64
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from streamer.analysis.evaluation import ConfusionCounts, ratio_text
from streamer.analysis.sample import reference
from streamer.analysis.sample.crawl import write_crawl
from streamer.analysis.sample.reference import (
    KeptSoFar,
    TextShingler,
    page_text,
    pages_of,
    resemblance,
    score_pages,
    tokens,
)
from streamer.errors import InputError
from streamer.model import Page
from streamer.run.reading import DEFAULT_READER
from tests.helpers.commands import run
from tests.helpers.labelled import labelled_set
from tests.unit.analysis.test_clusters import verdict, write

texts = st.text("ab 漢か", max_size=40)


HIDDEN = ("script", "style", "template", "noscript", "svg")


@pytest.mark.parametrize(
    ("html", "words"),
    [
        ("a" + "".join(f"<{tag}>b</{tag}>" for tag in HIDDEN) + "c", ["ac"]),
        ("<head><title>x</title></head>y", ["x", "y"]),
        ("a<b>b</b>c", ["abc"]),
        ("<li>a<li>b", ["a", "b"]),
        ("a<br>b", ["a", "b"]),
        ("<td>a</td><td>b</td>", ["a", "b"]),
        ("a&amp;b &eacute;", ["a&b", "é"]),
        ("a<p>b<![x[c", ["a", "b"]),  # the text before a malformed declaration
    ],
)
def test_the_unhidden_is_seen_and_block_tags_separate_words(html: str, words: list[str]) -> None:
    assert reference.visible_text(html).split() == words


@given(st.text("<![]->ab /&;", max_size=30))
@example("<![ab>b")
def test_any_markup_has_a_visible_text(html: str) -> None:
    assert len(reference.visible_text(html)) <= 3 * len(html)


def test_each_han_or_kana_character_is_a_token() -> None:
    assert tokens("漢字、かなABC 1号") == ["漢", "字", "か", "な", "abc", "1", "号"]


def test_tokens_are_lower_case_words_with_digits_and_underscores() -> None:
    assert tokens("Don't STOP_it 42!") == ["don", "t", "stop_it", "42"]


@given(texts, texts)
def test_resemblance_is_the_jaccard_similarity_of_the_sets_of_five_tokens(a: str, b: str) -> None:
    sets = [{tuple(t[i : i + 5]) for i in range(len(t) - 4)} for t in (tokens(a), tokens(b))]
    shingler = TextShingler()
    found = resemblance(shingler.exact(a), shingler.exact(b), min_shingles=1)
    if tokens(a) == tokens(b):
        assert found == 1
    elif not all(sets):
        assert found == 0
    else:
        assert found == len(sets[0] & sets[1]) / len(sets[0] | sets[1])


def test_a_body_of_bytes_is_decoded_by_the_charset_field_then_by_the_type() -> None:
    body = base64.b64encode("мост".encode("windows-1251")).decode()
    typed = "text/plain; charset=windows-1251"
    assert page_text(Page("u", body_base64=body, charset="windows-1251")) == "мост"
    assert page_text(Page("u", body_base64=body, content_type=typed)) == "мост"
    assert page_text(Page("u", body_base64=body, content_type=typed, charset="koi8-r")) != "мост"


def test_plain_text_is_not_read_as_html() -> None:
    assert page_text(Page("u", body="<p>a", content_type="text/plain")) == "<p>a"
    assert page_text(Page("u", body="1 <b> 2")) == "1 <b> 2"
    assert page_text(Page("u", body=" <p>a")) == "  a"


@pytest.mark.parametrize(
    "page",
    [
        Page("u", body="a", content_type="application/pdf"),
        Page("u", body_base64="%%%"),
        Page("u", body_base64="é"),
        Page("u", body_base64="YQ==", charset="no-such"),
        Page("u", body_base64="YQ==", charset="rot13"),
        Page("u", body_base64="YQ==", charset="\0"),
    ],
)
def test_what_cannot_be_read_as_text_has_none(page: Page) -> None:
    assert page_text(page) is None


@pytest.mark.parametrize(
    "line", [b"", b"{", b"[]", b"\xff", b'{"url":"u"}', b'{"url":1,"body":"a"}', b"[" * 100_000]
)
def test_a_line_that_is_no_page_is_none(line: bytes) -> None:
    assert reference.read_page(line) is None


SITE = "http://a.example/"  # of the pages that verdicts name


def words(count: int, start: int = 0) -> str:
    return " ".join(f"w{n}" for n in range(start, start + count))


def read_pages(*files: Path) -> reference.ReferencePages:
    return pages_of(DEFAULT_READER.open([*map(str, files)]))


def score(pages: Sequence[Path], verdicts: Path, **options: Any) -> reference.Score:
    return score_pages(read_pages(*pages), verdicts, **options)


def scored(
    folder: Path, bodies: Sequence[str], verdicts: Sequence[dict[str, Any]], **options: Any
) -> reference.Score:
    pages = [{"url": f"{SITE}{n}", "body": body} for n, body in enumerate(bodies)]
    file = write(folder / "pages.jsonl", pages)
    return score([file], write(folder / "verdicts.jsonl", [*verdicts]), **options)


UNLIKE, LIKE = words(100, 500), words(100)
AT_8 = [words(12), words(14)]  # 8 shingles and 10 of them with the same 8: exactly 0.8
SHORT = [words(8), words(7), words(8), "!"]
NEAR = {"margin": 0.05}
# Bodies, of which page each is said to be a duplicate, options, and the outcomes: of all pages, and
# of those outside the margin where these are others.
DECISIONS: dict[
    str, tuple[list[str], list[int | None], dict[str, float], list[tuple[int, ...]]]
] = {
    "right": ([LIKE, LIKE, UNLIKE], [None, 0, None], {}, [(1, 0, 0, 2)]),
    "a duplicate of an unlike page": ([LIKE, UNLIKE], [None, 0], {}, [(0, 1, 0, 1)]),
    "a duplicate of the wrong page": ([LIKE, UNLIKE, LIKE], [None, None, 1], {}, [(0, 1, 0, 2)]),
    "unique, with a like page kept before": ([LIKE, LIKE], [None, None], {}, [(0, 0, 1, 1)]),
    # 0 ~ 1 ~ 2 at 86/106 each, but 0 and 2 at 76/116: 1 is dropped, so 2 is rightly unique.
    "unique, with a like page that was not kept": (
        [LIKE, words(100, 10), words(100, 20)], [None, 0, None], {},
        [(1, 0, 0, 2), (0, 0, 0, 2)]),
    "a duplicate at the threshold": (AT_8, [None, 0], {}, [(1, 0, 0, 1), (0, 0, 0, 1)]),
    "unique at the threshold": (AT_8, [None, None], NEAR, [(0, 0, 1, 1), (0, 0, 0, 1)]),
    "unique below it": (AT_8, [None, None], {"threshold": 0.83}, [(0, 0, 0, 2), (0, 0, 0, 1)]),
    "unique above it, outside the margin": (AT_8, [None, None], {"threshold": 0.74},
                                            [(0, 0, 1, 1)]),
    "short pages are duplicates of equal ones only": (
        SHORT, [None, 0, 0, None], {}, [(1, 1, 0, 2)]),
    "short pages, all unique": (SHORT, [None] * 4, {}, [(0, 0, 1, 3)]),
}  # fmt: skip


@pytest.mark.parametrize("decision", DECISIONS)
def test_a_decision_is_held_against_the_pages_that_were_kept(tmp_path: Path, decision: str) -> None:
    bodies, said, options, outcomes = DECISIONS[decision]
    result = scored(
        tmp_path, bodies, [verdict(page, of) for page, of in enumerate(said)], **options
    )
    assert result.outcomes == ConfusionCounts(*outcomes[0])
    assert result.clear == ConfusionCounts(*outcomes[-1])
    assert result.kept == said.count(None)
    assert result.labels == [page if of is None else of for page, of in enumerate(said)]


def test_a_ratio_of_nothing_is_none_and_f1_is_where_there_is_nothing_to_find() -> None:
    nothing = ConfusionCounts(true_negative=3)
    assert (nothing.precision, nothing.recall, nothing.f1) == (None, None, None)
    missed = ConfusionCounts(false_negative=1)
    assert (missed.precision, missed.recall, missed.f1) == (None, 0.0, 0.0)
    wrong = ConfusionCounts(false_positive=1)
    assert (wrong.precision, wrong.recall, wrong.f1) == (0.0, None, 0.0)
    assert ConfusionCounts(3, 1, 2).f1 == pytest.approx(2 * 0.75 * 0.6 / (0.75 + 0.6))
    assert (ratio_text(None), ratio_text(0.0), ratio_text(1 / 3, 3)) == ("-", "0.0000", "0.333")


@pytest.mark.parametrize(
    "said",
    [
        [verdict(0), verdict(1, of=0), verdict(2, of=1)],
        [verdict(0), verdict(1, of=0), verdict(2, of=7)],
        [verdict(1), verdict(0, of=1)],  # a later page
    ],
)
def test_a_representative_that_is_not_a_kept_page_is_counted_apart(
    tmp_path: Path, said: list[dict[str, Any]]
) -> None:
    assert scored(tmp_path, [words(100)] * len(said), said).bad_representatives == 1


def test_missing_and_repeated_verdicts_are_counted(tmp_path: Path) -> None:
    numbers = [0, 1, 2, 3, 3]
    lines = [{"url": f"{SITE}{n}", "body": words(50, 100 * at)} for at, n in enumerate(numbers)]
    pages = write(tmp_path / "pages.jsonl", lines)
    said = [verdict(0), verdict(1), verdict(1)]
    verdicts = write(tmp_path / "verdicts.jsonl", said)
    result = score([pages], verdicts)
    assert (result.missing, result.repeats) == (3, 1)
    assert result.outcomes == ConfusionCounts(true_negative=2)
    write(verdicts, [*said, verdict(9, url=f"{SITE}3")])
    with pytest.raises(
        InputError, match=f"none of the several pages with their URLs, first {SITE}3"
    ):
        score([pages], verdicts)


@pytest.mark.parametrize("name", ["renamed.jsonl", "elsewhere/pages.jsonl"])
def test_verdicts_are_of_the_records_whatever_the_files_name(tmp_path: Path, name: str) -> None:
    bodies = [words(50), words(50, 500), words(50), words(50, 900)]
    lines = [
        {"url": f"{SITE}{at // 2}", "body": body} for at, body in enumerate(bodies)
    ]  # twice each
    pages = write(tmp_path / "pages.jsonl", lines)
    place = {"topic": name, "partition": 0}
    said = [verdict(at, page={**place, "offset": at}, url=f"{SITE}{at // 2}") for at in (0, 1, 3)]
    other = {"page": {**place, "offset": 0}, "url": f"{SITE}0"}
    page = {**place, "offset": 2}
    said.insert(2, verdict(2, of=0, page=page, url=f"{SITE}1", representative=other))
    result = score([pages], write(tmp_path / "verdicts.jsonl", said))
    assert result.outcomes == ConfusionCounts(true_positive=1, true_negative=3)
    assert (result.missing, result.bad_representatives) == (0, 0)


def test_verdicts_from_kafka_are_matched_by_url(tmp_path: Path) -> None:
    place = {"topic": "pages", "partition": 3, "offset": 77}
    other = {"page": {**place, "partition": 1}, "url": f"{SITE}0"}
    page = {**place, "offset": 78}
    said = [verdict(0, page=place), verdict(1, of=0, page=page, representative=other)]
    result = scored(tmp_path, [words(50)] * 2, said)
    assert result.outcomes == ConfusionCounts(true_positive=1, true_negative=1)


def test_pages_of_several_files_are_told_apart_by_the_file(tmp_path: Path) -> None:
    page = {"url": f"{SITE}0", "body": words(50)}
    files = [write(tmp_path / f"{name}.jsonl", [page]) for name in ("a", "b")]
    one, other = (
        {"topic": name, "partition": 0, "offset": 0} for name in ("a.jsonl", str(files[1]))
    )
    said = [verdict(0, page=one), verdict(0, page=other, of=0)]
    said[1]["representative"]["page"] = one
    result = score(files, write(tmp_path / "v.jsonl", said))
    assert result.outcomes == ConfusionCounts(true_positive=1, true_negative=1)


def test_verdicts_of_other_pages_texts_and_files_are_refused(tmp_path: Path) -> None:
    elsewhere = {"topic": "other.jsonl", "partition": 0, "offset": 0}
    for said, why in (
        (verdict(5), f"1 verdicts are not in these files, first {SITE}5"),
        (verdict(1, text_bytes=9), f"1 verdicts are there with another text, first {SITE}1"),
        (verdict(0, page=elsewhere), "none of the several pages"),
    ):
        with pytest.raises(InputError, match=why):
            scored(tmp_path, [words(50), words(50, 100)], [verdict(0), said])


def test_a_page_is_known_by_the_text_that_was_judged_of_it(tmp_path: Path) -> None:
    html = "<p>one \u00e9&amp;\u00e9 two</p>"
    said = [
        verdict(0, text_bytes=len(html.encode())),
        verdict(1, text_bytes=7, text="main"),
        verdict(2),
    ]
    assert scored(tmp_path, [html] * 3, said).missing == 0


@given(
    st.lists(st.tuples(st.integers(0, 20), st.integers(0, 30)), min_size=1, max_size=12),
    st.sampled_from([0.2, 0.5, 0.75, 0.8, 1.0]),
    st.sampled_from([1, 3, 8]),
    st.randoms(use_true_random=False),
)
def test_the_nearest_kept_page_is_the_one_that_comparing_with_all_finds(
    parts: list[tuple[int, int]], floor: float, min_shingles: int, rng: Any
) -> None:
    shingler = TextShingler()
    pages = [shingler.exact(words(count, start)) for start, count in parts]
    index = KeptSoFar(pages, floor, min_shingles)
    kept: list[int] = []
    for page in range(len(pages)):
        values = [resemblance(pages[page], pages[other], min_shingles) for other in kept]
        assert index.best(page) == max((v for v in values if v >= floor), default=0)
        if rng.random() < 0.7:
            index.keep(page)
            kept.append(page)


def test_the_largest_clusters_come_first_and_equal_ones_by_url(tmp_path: Path) -> None:
    said = [verdict(page, of=of) for page, of in enumerate([9, 3, 5, 3, 9, 5, 5, 7], 10)]
    clusters = scored(tmp_path, [LIKE] * 18, said * 2).clusters  # a repeat counts once
    found = [(each.url, each.size) for each in clusters]
    assert found == [(f"{SITE}5", 4), (f"{SITE}3", 3), (f"{SITE}9", 3), (f"{SITE}7", 2)]
    assert clusters[0].share == 4 / 8


@pytest.fixture(scope="session")
def documentation(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return labelled_set("set3_llvm_docs", tmp_path_factory.mktemp("pages"))


def listed_pairs(folder: Path) -> dict[frozenset[str], float]:
    """Read the resemblances that come with the set; pairs below 0.3 are not listed."""
    rows = [line.split("\t") for line in (folder / "truth_pairs.tsv").read_text().splitlines()[1:]]
    return {frozenset(row[:2]): float(row[3]) for row in rows}


def test_exact_resemblance_is_the_one_listed_for_documentation_pages(documentation: Path) -> None:
    pages = read_pages(documentation / "pages.jsonl")
    assert len(pages) == 881
    index = {url: n for n, url in enumerate(pages.urls)}
    for urls, listed in list(listed_pairs(documentation).items())[::10]:
        left, right = (pages.exact[index[url]] for url in urls)
        assert resemblance(left, right) == pytest.approx(listed, abs=1e-6), urls


def test_lines_that_are_no_pages_keep_their_ordinal(tmp_path: Path) -> None:
    path = tmp_path / "pages.jsonl"
    path.write_bytes(b'{"url":"u0","body":"a"}\n\n{broken\n{"url":"u3","body":"b"}\n')
    assert read_pages(path).ordinals == [0, 3]


@pytest.mark.parametrize("options", [[], ["--canonical", "keep_tags=true"], ["--text", "main"]])
def test_a_replay_of_a_crawl_is_of_its_pages(tmp_path: Path, options: list[str]) -> None:
    write_crawl(tmp_path, 150)
    pages, verdicts = tmp_path / "pages.jsonl", tmp_path / "v.jsonl"
    run("replay", pages, "--verdicts", verdicts, *options)
    assert score([pages], verdicts).missing == 0
