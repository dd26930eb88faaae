"""Evaluating methods: datasets, partitions of their pages, and what a pass over them gives."""

import json
from pathlib import Path

import msgspec
import pytest

from streamer.analysis import trial as module
from streamer.analysis.sample.crawl import write_crawl
from streamer.analysis.trial import Ratios, Trial, Yardstick, secret_of, select, try_method
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
