"""Evaluating methods: datasets, partitions of their pages, and what a pass over them gives."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from benchmarks import methods_page, short_texts
from streamer.cli.main import app
from streamer.errors import InputError, SettingsError
from streamer.lab.datasets import (
    adjusted_rand_index,
    open_dataset,
    pair_outcomes,
    reuters_pages,
    true_labels,
    true_pairs,
    write_collection,
)
from streamer.lab.sample.crawl import write_crawl
from streamer.lab.sample.reference import MIN_SHINGLES, Pages, Shingler, resemblance
from streamer.lab.sample.score import KeptPages, Outcomes
from streamer.lab.trial import (
    Ratios,
    Trial,
    Yardstick,
    said_labels,
    secret_of,
    select,
    try_method,
)
from streamer.sketch.method import Measure
from streamer.sketch.scheme import methods
from streamer.sketch.settings import SignatureSettings

REUTERS = """<!DOCTYPE lewis SYSTEM "lewis.dtd">
<REUTERS TOPICS="YES" OLDID="5544" NEWID="1">
<DATE>26-FEB-1987</DATE>
<TEXT>&#2;
<TITLE>COCOA &amp; TEA</TITLE>
<DATELINE>    SALVADOR, Feb 26 - </DATELINE><BODY>Showers continued
&lt;in the zone. Reuter
&#3;</BODY></TEXT>
</REUTERS>
<REUTERS NEWID="2"><TEXT TYPE="BRIEF">
<TITLE>ONLY A TITLE</TITLE></TEXT></REUTERS>
<REUTERS NEWID="3"><TEXT></TEXT></REUTERS>
"""
RATIOS = Ratios(1.0, 0.5, 0.6, 10, 0, 10)


@pytest.fixture(scope="module")
def crawl(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("crawl")
    write_crawl(folder, 120)
    return folder


@pytest.fixture
def labelled(tmp_path: Path) -> Path:
    folder = tmp_path / "labelled"
    folder.mkdir()
    words = [f"word{n}" for n in range(40)]
    bodies = {"a": words, "b": [*words, "more"], "c": words[::-1], "d": [*words[::-1], "more"]}
    lines = [json.dumps({"url": url, "body": " ".join(body)}) for url, body in bodies.items()]
    (folder / "pages.jsonl").write_text("\n".join(lines), "utf-8")
    pairs = "url_a\turl_b\tlabel\nb\ta\tsame\na\tc\t\nc\td\tsame\na\tgone\tsame\n"
    (folder / "truth_pairs.tsv").write_text(pairs, "utf-8")
    return folder


def test_an_article_of_reuters_is_its_title_and_body(tmp_path: Path) -> None:
    (tmp_path / "reut2-000.sgm").write_text(REUTERS, "latin-1")
    one, other = reuters_pages([tmp_path / "reut2-000.sgm"])
    assert (one.url, one.body) == (
        "reuters:1",
        "COCOA & TEA\nShowers continued\n<in the zone. Reuter",
    )
    assert (other.url, other.body) == ("reuters:2", "ONLY A TITLE")


def test_an_unprocessed_article_of_reuters_is_its_whole_text(tmp_path: Path) -> None:
    article = (
        '<REUTERS NEWID="4"><UNKNOWN>\n&#5;F Y</UNKNOWN>\n'
        '<TEXT TYPE="UNPROC">&#2;\n RATE RISES TO 9.1 PCT &lt;X>\n&#3;</TEXT>\n</REUTERS>\n'
    )
    (tmp_path / "reut2-000.sgm").write_text(article, "latin-1")
    (one,) = reuters_pages([tmp_path / "reut2-000.sgm"])
    assert (one.url, one.body) == ("reuters:4", "RATE RISES TO 9.1 PCT <X>")


def test_a_folder_of_reuters_is_a_dataset(tmp_path: Path) -> None:
    folder = tmp_path / "reuters"
    folder.mkdir()
    (folder / "reut2-000.sgm").write_text(REUTERS, "latin-1")
    dataset = open_dataset(folder, tmp_path / "scratch")
    assert (dataset.name, dataset.pages.urls) == ("reuters", ["reuters:1", "reuters:2"])


def test_a_file_without_articles_is_no_reuters(tmp_path: Path) -> None:
    (tmp_path / "a.sgm").write_text("<p>nothing</p>")
    with pytest.raises(InputError, match="no <REUTERS> document"):
        open_dataset(tmp_path / "a.sgm", tmp_path)


def test_labelled_pairs_are_those_with_a_label_whose_pages_are_there(
    labelled: Path, tmp_path: Path
) -> None:
    assert open_dataset(labelled, tmp_path).labelled == {(0, 1), (2, 3)}


def test_a_file_of_pairs_without_its_columns_is_refused(labelled: Path, tmp_path: Path) -> None:
    (labelled / "truth_pairs.tsv").write_text("one\tother\na\tb\n")
    with pytest.raises(InputError, match="url_a, url_b, label"):
        open_dataset(labelled, tmp_path)


def test_all_stands_for_every_method_and_for_both_combinations() -> None:
    names = [one.name for one in select(["all"])]
    assert names == [*methods(), "simhash+minhash", "minhash+simhash"]


def test_a_combination_takes_the_keys_of_one_and_the_decision_of_the_other() -> None:
    (one,) = select(["simhash+minhash:distance=4"])
    assert (one.signature.method, one.signature.accept) == ("simhash", "minhash")
    assert one.rules.measure is Measure.RESEMBLANCE
    assert one.rules.threshold == 0.8
    assert "distance=4" in one.signature.parameters


def test_the_default_is_the_native_method() -> None:
    (one,) = select(["minhash"])
    assert one.signature == SignatureSettings()


def test_a_preset_brings_its_threshold_and_its_least_shingles() -> None:
    (one,) = select(["short-texts"])
    assert (one.rules.threshold, one.rules.shingles_min) == (0.4, 3)


def test_a_collection_goes_to_the_methods_that_weigh_words(labelled: Path, tmp_path: Path) -> None:
    file = write_collection(open_dataset(labelled, tmp_path), tmp_path)
    for one in select(["minhash", "lexicon", "minhash+simhash"], file):
        given = [option.partition("=")[0] for option in one.signature.options]
        expected = {"minhash": [], "lexicon": ["collection"]}
        assert given == expected.get(one.name, ["accept.collection"]), one.name


def test_parameters_of_the_default_are_those_that_are_given() -> None:
    (one,) = select(["minhash:bands=20:rows=5:shingle_width=3"])
    assert one.signature == SignatureSettings(bands=20, rows=5, shingle_width=3)


@pytest.mark.parametrize("names", [[], [""], [","]])
def test_no_method_at_all_is_refused(names: list[str]) -> None:
    with pytest.raises(SettingsError, match="No method is named"):
        select(names)


def test_an_unknown_method_is_named() -> None:
    with pytest.raises(SettingsError, match="There is no method md5;"):
        select(["minhash,md5"])


def test_a_trial_gives_the_ratios_that_score_gives_of_the_replay(
    crawl: Path, tmp_path: Path
) -> None:
    run = CliRunner()
    pages, verdicts = str(crawl / "pages.jsonl"), str(tmp_path / "v.jsonl")
    key = tmp_path / "key"
    key.write_text(secret_of(0).hex())
    key.chmod(0o600)
    replay = ["replay", pages, "--verdicts", verdicts, "--method", "supershingles"]
    assert run.invoke(app, [*replay, "--key-file", str(key)]).exit_code == 0
    scored = json.loads(run.invoke(app, ["score", pages, verdicts, "--json"]).stdout)
    trial = _try(crawl, "supershingles", tmp_path)
    found = {"all": trial.pages, **trial.kinds}
    for name, one in {"all": scored["all"], **scored["kinds"]}.items():
        counts = (one["duplicates"], one["false_positive"], one["false_negative"])
        assert (found[name].said, found[name].wrong, found[name].missed) == counts, name
        assert found[name].f1 == pytest.approx(one["f1"], abs=1e-6)
    assert trial.pages.said > 20
    assert trial.pages.missed > 0
    assert trial.signature_bytes == 8 * (7 + 7)  # six keys and the content's, six slots and a count


def test_equal_seeds_give_equal_trials(crawl: Path, tmp_path: Path) -> None:
    one, other = (_try(crawl, "simhash", tmp_path) for _ in range(2))
    assert msgspec.structs.replace(one, pages_per_second=0.0) == msgspec.structs.replace(
        other, pages_per_second=0.0
    )


def test_a_method_without_error_has_all_ratios_at_one(labelled: Path, tmp_path: Path) -> None:
    trial = _try(labelled, "bottom_k", tmp_path)
    assert trial.pages == trial.pairs == Ratios(1.0, 1.0, 1.0, 2, 0, 0)
    assert (trial.rand_index, trial.labelled) == (1.0, (2, 2))
    strict = _try(labelled, "exact_content", tmp_path)
    assert (strict.pages.recall, strict.labelled, strict.rand_index) == (0.0, (0, 2), 0.0)


def test_a_page_is_under_the_label_of_its_representative(labelled: Path, tmp_path: Path) -> None:
    pages = open_dataset(labelled, tmp_path).pages
    lines = [
        {"url": "a", "verdict": "unique"},
        {"url": "b", "verdict": "duplicate"},
    ]
    place = {"topic": "pages.jsonl", "partition": 0, "offset": 0}
    lines[1]["representative"] = {"page": place, "url": "a"}  # type: ignore[assignment]
    (tmp_path / "v.jsonl").write_text("\n".join(map(json.dumps, lines)))
    assert said_labels(pages, tmp_path / "v.jsonl") == [0, 0, 2, 3]


def _try(path: Path, name: str, scratch: Path) -> Trial:
    (one,) = select([name])
    yardstick = Yardstick(open_dataset(path, scratch))
    return try_method(yardstick, one)


def test_the_command_prints_a_table_a_dataset_and_draws_a_plot(
    labelled: Path, tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib", reason="the plot is an extra")
    plot = tmp_path / "plot.svg"
    arguments = ["evaluate", str(labelled), "--methods", "minhash,exact_content", "--plot"]
    done = CliRunner().invoke(app, [*arguments, str(plot)], env={"COLUMNS": "140"})
    assert done.exit_code == 0, done.output
    for word in ("labelled: duplicates", "exact_content", "ARI", str(plot)):
        assert word in done.stdout
    assert plot.read_text("utf-8").count("exact_content") == 1


def test_the_command_prints_json_and_counts_the_words_of_the_dataset(labelled: Path) -> None:
    arguments = ["evaluate", str(labelled), "--methods", "idf_string", "--own-collection"]
    done = CliRunner().invoke(app, [*arguments, "--json"])
    assert done.exit_code == 0, done.output
    (trial,) = msgspec.json.decode(done.stdout, type=list[Trial])
    assert (trial.dataset, trial.method) == ("labelled", "idf_string")


def test_the_page_says_who_is_best_and_where_others_lead() -> None:
    own = Trial("set", "minhash", RATIOS, RATIOS, 1.0, None, {"moved": RATIOS}, 10.0, 300.0)
    ahead = msgspec.structs.replace(RATIOS, f1=0.9)
    other = msgspec.structs.replace(own, method="simhash", kinds={"moved": ahead})
    said = "\n".join([methods_page.best([own, other]), *methods_page.kinds([own, other])])
    assert "with 0.600: `minhash`, `simhash`. The default `minhash` has 0.600" in said
    assert "ahead of it: 0 of 1" in said
    assert "on `moved` `simhash`" in said
    equal = msgspec.structs.replace(own, method="simhash")
    assert "No method is ahead" in "\n".join(methods_page.kinds([own, equal]))


def test_the_page_quotes_the_published_figures_beside_ours_and_the_advice_of_each_method() -> None:
    trials = [
        Trial("set", one.name, RATIOS, RATIOS, 1.0, None, {}, 10.0, 300.0)
        for one in select(["all"])
    ]
    short = short_texts.Tried("short-texts", 0.4, short_texts.measure_preset(pairs=1).found)
    keys = {"minhash": [0.98, 0.99], "simhash": [0.97, 0.985]}
    text = methods_page.page(methods_page.Results([trials], [keys], [short]))
    assert "under 2 keys, on average: `minhash` 0.9850 (0.9800 to 0.9900), `simhash`" in text
    assert "The ranges meet" in text
    assert "ahead under every key" in methods_page.spread({"minhash": [0.9], "simhash": [0.8]})
    assert "| Zelenkov and Segalovich 2007 | long sentences | 0.80 | 0.84 | 0.82 |" in text
    assert "not verified" in text
    assert all(f"- `{name}`: {method.advice}" in text for name, method in methods().items())


labels = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=2, max_size=12)
texts = st.lists(
    st.lists(st.sampled_from("abc"), min_size=3, max_size=12).map(" ".join), max_size=10
)
THRESHOLD = 0.5


def pages_of(bodies: list[str]) -> Pages:
    pages, shingler = Pages(), Shingler()
    for number, body in enumerate(bodies):
        pages.add(("file",), number, f"u{number}", shingler.exact(body))
    return pages


@given(labels)
def test_the_adjusted_rand_index_is_that_of_counting_pairs(rows: list[tuple[int, int]]) -> None:
    one, other = [row[0] for row in rows], [row[1] for row in rows]
    both = neither = first = second = 0
    for a, b in combinations(rows, 2):
        both += a[0] == b[0] and a[1] == b[1]
        neither += a[0] != b[0] and a[1] != b[1]
        first += a[0] == b[0] and a[1] != b[1]
        second += a[0] != b[0] and a[1] == b[1]
    # The form over pairs, as Steinley 2004 gives it.
    chance = (both + first) * (first + neither) + (both + second) * (second + neither)
    expected = 2 * (both * neither - first * second) / chance if chance else 1.0
    assert adjusted_rand_index(one, other) == pytest.approx(expected)


def test_the_adjusted_rand_index_has_the_published_value() -> None:
    # The example of Yeung and Ruzzo 2001, Details of the adjusted Rand index.
    table = [[1, 1, 0], [1, 2, 1], [0, 0, 4]]
    cells = [(i, j) for i, row in enumerate(table) for j, n in enumerate(row) for _ in range(n)]
    one, other = [cell[0] for cell in cells], [cell[1] for cell in cells]
    assert adjusted_rand_index(one, other) == pytest.approx(0.3125, abs=1e-3)


@given(texts)
def test_true_pairs_are_all_pairs_at_the_threshold(bodies: list[str]) -> None:
    pages = pages_of(bodies)
    expected = {
        (a, b)
        for a, b in combinations(range(len(pages)), 2)
        if resemblance(pages.exact[a], pages.exact[b]) >= THRESHOLD
    }
    assert true_pairs(pages, THRESHOLD) == expected


@given(texts)
def test_true_labels_are_those_of_comparing_each_page_with_all_kept_ones(bodies: list[str]) -> None:
    pages = pages_of(bodies)
    kept: list[int] = []
    expected = []
    for page in range(len(pages)):
        values = [(resemblance(pages.exact[page], pages.exact[k]), -k) for k in kept]
        best = max(values, default=(0.0, 0))
        if best[0] >= THRESHOLD:
            expected.append(-best[1])
        else:
            kept.append(page)
            expected.append(page)
    assert true_labels(pages, THRESHOLD) == expected


def test_of_equally_near_kept_pages_the_earliest_is_the_representative() -> None:
    words = [f"w{n}" for n in range(14)]
    pages = pages_of([" ".join(part) for part in (words[:11], words[3:], words)])
    assert true_labels(pages, THRESHOLD) == [0, 1, 0]


def test_a_kept_page_of_equal_text_matches_once() -> None:
    pages = pages_of(["a b c d e f g h i j k"] * 2)
    index = KeptPages(pages.exact, THRESHOLD, MIN_SHINGLES)
    index.keep(0)
    assert list(index.matches(1)) == [(0, 1.0)]


def test_pairs_of_one_label_are_right_wrong_or_missed() -> None:
    found = pair_outcomes([0, 0, 0, 3], {(0, 1), (2, 3)})
    assert found == Outcomes(true_positive=1, false_positive=2, false_negative=1, true_negative=2)
