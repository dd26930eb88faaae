"""Evaluating methods: datasets, partitions of their pages, and what a pass over them gives."""

import json
from itertools import combinations
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.analysis import trial as datasets
from streamer.analysis import trial as module
from streamer.analysis.evaluation import ConfusionCounts
from streamer.analysis.sample.crawl import write_crawl
from streamer.analysis.sample.reference import ReferencePages, TextShingler, resemblance
from streamer.analysis.trial import Ratios, Trial, Yardstick, secret_of, select, try_method
from streamer.errors import InputError
from streamer.sketch.method import Measure
from streamer.sketch.settings import SignatureSettings
from tests.helpers.commands import run


@pytest.fixture(scope="module")
def crawl(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("crawl")
    write_crawl(folder, 120)
    return folder


def test_a_combination_takes_the_keys_of_one_and_the_decision_of_the_other() -> None:
    (one,) = select(["simhash+minhash:distance=4"])
    assert (one.signature.method, one.signature.accept) == ("simhash", "minhash")
    assert one.rules.measure is Measure.RESEMBLANCE
    assert one.rules.threshold == 0.8
    assert "distance=4" in one.signature.parameters


def test_a_collection_goes_to_the_methods_that_weigh_words(labelled: Path, tmp_path: Path) -> None:
    file = module.write_collection(module.open_dataset(labelled), tmp_path)
    for one in select(["minhash", "lexicon", "minhash+simhash"], file):
        given = [option.partition("=")[0] for option in one.signature.options]
        expected = {"minhash": [], "lexicon": ["collection"]}
        assert given == expected.get(one.name, ["accept.collection"]), one.name


def test_parameters_of_the_default_are_those_that_are_given() -> None:
    (one,) = select(["minhash:bands=20:rows=5:shingle_width=3"])
    assert one.signature == SignatureSettings(bands=20, rows=5, shingle_width=3)


def test_a_trial_gives_the_ratios_that_score_has_of_the_replay(crawl: Path, tmp_path: Path) -> None:
    pages, verdicts = str(crawl / "pages.jsonl"), str(tmp_path / "v.jsonl")
    key = tmp_path / "key"
    key.write_text(secret_of(0).hex())
    key.chmod(0o600)
    method = ("--method", "supershingles", "--key-file", key)
    run("replay", pages, "--verdicts", verdicts, *method)
    scored = json.loads(run("score", pages, verdicts, "--json"))
    trial = _try(crawl, "supershingles")
    found = {"all": trial.pages, **trial.kinds}
    for name, one in {"all": scored["all"], **scored["kinds"]}.items():
        counts = (one["duplicates"], one["false_positive"], one["false_negative"])
        assert (found[name].said, found[name].wrong, found[name].missed) == counts, name
        assert found[name].f1 == pytest.approx(one["f1"], abs=1e-6)
    assert trial.pages.said > 20
    assert trial.pages.missed > 0
    assert trial.signature_bytes == 8 * (7 + 7)  # six keys and the content's, six slots and a count


def test_equal_seeds_give_equal_trials(crawl: Path) -> None:
    one, other = (_try(crawl, "simhash") for _ in range(2))
    assert msgspec.structs.replace(one, pages_per_second=0.0) == msgspec.structs.replace(
        other, pages_per_second=0.0
    )


def test_a_method_without_error_has_all_ratios_at_one(labelled: Path) -> None:
    trial = _try(labelled, "bottom_k")
    assert trial.pages == trial.pairs == Ratios(1.0, 1.0, 1.0, 2, 0, 0)
    assert (trial.rand_index, trial.labelled) == (1.0, (2, 2))
    strict = _try(labelled, "exact_content")
    assert (strict.pages.recall, strict.labelled, strict.rand_index) == (0.0, (0, 2), 0.0)


def _try(path: Path, name: str) -> Trial:
    (one,) = select([name])
    yardstick = Yardstick(module.open_dataset(path))
    return try_method(yardstick, one)


def test_labelled_pairs_have_a_label_and_both_pages(labelled: Path) -> None:
    assert datasets.open_dataset(labelled).labelled == {(0, 1), (2, 3)}


def test_a_file_of_pairs_without_its_columns_is_refused(labelled: Path) -> None:
    (labelled / "truth_pairs.tsv").write_text("one\tother\na\tb\n")
    with pytest.raises(InputError, match="url_a, url_b, label"):
        datasets.open_dataset(labelled)


labels = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=2, max_size=12)
texts = st.lists(
    st.lists(st.sampled_from("abc"), min_size=3, max_size=12).map(" ".join), max_size=10
)
THRESHOLD = 0.5


def pages_of(bodies: list[str]) -> ReferencePages:
    pages, shingler = ReferencePages(), TextShingler()
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
    assert datasets.adjusted_rand_index(one, other) == pytest.approx(expected)


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
    assert datasets.true_labels(pages, THRESHOLD) == expected


def test_pairs_of_one_label_are_right_wrong_or_missed() -> None:
    found = datasets.pair_outcomes([0, 0, 0, 3], {(0, 1), (2, 3)})
    assert found == ConfusionCounts(
        true_positive=1, false_positive=2, false_negative=1, true_negative=2
    )


def test_the_adjusted_rand_index_has_the_published_value() -> None:
    # The example of Yeung and Ruzzo 2001, Details of the adjusted Rand index.
    table = [[1, 1, 0], [1, 2, 1], [0, 0, 4]]
    cells = [(i, j) for i, row in enumerate(table) for j, n in enumerate(row) for _ in range(n)]
    one, other = [cell[0] for cell in cells], [cell[1] for cell in cells]
    assert datasets.adjusted_rand_index(one, other) == pytest.approx(0.3125, abs=1e-3)
