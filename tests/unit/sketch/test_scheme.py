"""Which methods there are, how they are named and set, and what becomes of a wrong word."""

import pytest

from streamer.config import load_settings
from streamer.errors import SettingsError
from streamer.sketch import scheme
from streamer.sketch.method import Measure
from streamer.sketch.scheme import choose, method, methods, read_options, write_options
from streamer.sketch.settings import SignatureSettings
from streamer.text.words import CanonicalOptions

SECRET = bytes(range(32))


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("magic", {}, "no method magic; there are banding, bottom_k"),
        ("short-texts", {}, "short-texts is a preset, which decides by itself; here, name"),
        ("bottom_k", {"l": 3}, "no option l of the method bottom_k; there are shingle_width"),
        ("bottom_k", {"k": "many"}, "The option k = 'many' of the method bottom_k cannot be "),
        ("bottom_k", {"k": 65}, "The option k = 65 of the method bottom_k cannot be used: "),
        ("banding", {"hash": "md6"}, "there is no hash 'md6'; there are mmh3"),
        ("banding", {"bands": 20, "rows": 7}, "bands x rows is 128 at most"),
        ("mod_p", {"shingle_width": 3, "stride": 4}, "stride is shingle_width at most"),
        ("supershingles", {"blocks": 11, "block_size": 100}, "blocks x block_size is 1024 at most"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_one_sentence(name: str, options: dict[str, object], said: str) -> None:
    with pytest.raises(SettingsError) as caught:
        method(name, options, SECRET)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith(".")


@pytest.mark.parametrize("text", ["k", "=3", ""])
def test_an_option_without_a_name_or_a_value_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match="is not of the form name=value"):
        scheme.split_options([text])


def test_dashes_and_underscores_are_one_and_the_last_value_counts() -> None:
    assert scheme.split_options(["shingle-width=3", "shingle_width = 4"]) == {"shingle_width": "4"}


def test_options_are_read_as_they_are_written() -> None:
    options = CanonicalOptions(
        stop_words=("english", "russian"), stem="english", synonyms=(("car", "auto"),)
    )
    written = write_options(options)
    assert written["stop_words"] == "english,russian"
    assert written["synonyms"] == "car,auto;"
    assert read_options(CanonicalOptions, written, "words") == options
    plain = write_options(CanonicalOptions())
    assert read_options(CanonicalOptions, plain, "words") == CanonicalOptions()


@pytest.mark.parametrize("written", ["car,auto", "car, auto;", "car,auto;big,large"])
def test_groups_of_synonyms_are_parted_by_semicolons_of_which_one_needs_none(written: str) -> None:
    groups = read_options(CanonicalOptions, {"synonyms": written}, "words").synonyms
    assert groups == (("car", "auto"), ("big", "large"))[: len(groups)]
    assert len(groups) == 1 + ("big" in written)


def test_two_methods_are_named_by_one_name_or_by_two() -> None:
    named = choose("simhash+minhash", options=["accept.bands=10"])
    assert named == choose("simhash", accept="minhash", options=["accept.bands=10"])
    assert named.accept == "minhash"
    with pytest.raises(SettingsError, match=r"simhash\+minhash names the method that accepts"):
        choose("simhash+minhash", accept="bottom_k")


def test_presets_are_methods_with_options_that_these_take() -> None:
    for name, preset in scheme.PRESETS.items():
        settings = choose(name)
        assert settings.method == preset.method
        assert settings.threshold == preset.threshold
        scheme.scheme_of(settings, SECRET)
    changed = choose("short-texts", options=["shingle_width=3"])
    assert "shingle_width=3" in changed.parameters
    assert "rows=2" in changed.parameters


def test_the_default_is_the_native_signature_of_today() -> None:
    assert choose("minhash") == SignatureSettings() == load_settings().signature
    assert choose("minhash", options=["rows=7"]) == SignatureSettings(rows=7)
    assert SignatureSettings().is_native
    assert SignatureSettings().identity() == {"bands": 14, "rows": 6, "shingle_width": 5}
    assert SignatureSettings().fingerprint("00" * 8) == "ddd01b1306778db6"


def test_all_that_changes_a_signature_changes_the_fingerprint() -> None:
    chosen = [
        *(choose(name) for name in methods()),
        *(choose("minhash", accept=accept) for accept in ("simhash", "banding")),
        choose("minhash", accept="banding", options=["accept.rows=5"]),
        *(choose("minhash", canonical=[each]) for each in ("fold_case=false", "text=main")),
        *(choose("minhash", options=[each]) for each in ("bands=13", "rows=5", "shingle_width=4")),
        *(choose("banding", options=[option]) for option in ("rows=5", "seed=1")),
        choose("banding", canonical=["stem=english"]),
    ]
    fingerprints = [settings.fingerprint("key") for settings in chosen]
    fingerprints.append(chosen[0].fingerprint("another key"))
    assert len(set(fingerprints)) == len(fingerprints)


def test_a_default_that_is_written_out_is_the_default() -> None:
    written = choose("banding", options=["rows=6"], canonical=["fold_case=true"])
    assert written.identity() == choose("banding").identity()


def test_the_flags_of_the_native_method_set_the_parameter_of_that_name() -> None:
    settings = load_settings(method="banding", bands=20, rows=5)
    assert settings.signature.bands == 20
    assert {"bands=20", "rows=5"} <= set(settings.signature.parameters)
    assert load_settings(rows=7, canonical=["stem=english"]).signature.rows == 7


@pytest.mark.parametrize(("method", "flag"), [("simhash", "rows"), ("supershingles", "bands")])
def test_a_flag_that_says_nothing_to_a_method_is_refused(method: str, flag: str) -> None:
    said = f"--{flag} says nothing to the method {method}. Leave it out"
    with pytest.raises(SettingsError, match=said):
        choose(method, flags={flag: 3})


def test_the_threshold_is_that_of_the_method_that_decides_unless_it_is_set() -> None:
    assert load_settings(method="supershingles").index.similarity_min == 3333
    assert load_settings(method="supershingles", accept="banding").index.threshold == 0.8
    assert load_settings(method="short-texts").index.threshold == 0.4
    assert load_settings(method="short-texts", threshold=0.9).index.threshold == 0.9
    assert load_settings(method="simhash", accept="banding").index.measure is Measure.SLOTS


def test_options_of_the_second_method_need_one() -> None:
    with pytest.raises(SettingsError, match=r"accept\. need --accept"):
        choose("minhash", options=["accept.rows=5"])
