"""Where settings come from, and what is said of those that cannot be."""

import os
import re
import traceback
from pathlib import Path
from typing import Any

import pytest

from streamer.config import OTHER_VARIABLES, PURPOSES, Settings, list_settings, load_settings
from streamer.errors import SettingsError
from streamer.index.messages import IndexSettings
from streamer.metrics import memory_limit_bytes
from streamer.pages.mapping import PRESETS
from streamer.sketch.settings import SignatureSettings


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "settings.toml"
    path.write_text("rows = 7\nbands = 12\nthreshold = 0.7\n")
    return path


def test_nothing_needs_to_be_set_and_strict_is_the_same() -> None:
    for settings in (load_settings(preset=["strict"]), load_settings()):
        assert settings.signature == SignatureSettings()
        assert settings.index == IndexSettings()
    assert settings.signing_threads == len(os.sched_getaffinity(0)) + 1


def test_flags_go_before_the_environment_before_the_file_before_defaults(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STREAMER_BANDS", "10")
    monkeypatch.setenv("STREAMER_THRESHOLD", "0.6")
    settings = load_settings(file, threshold=0.5, bands=None)
    assert (settings.threshold, settings.bands, settings.rows) == (0.5, 10, 7)
    assert settings.shingle_width == SignatureSettings().shingle_width


def test_memory_is_given_with_a_unit_and_is_a_quarter_of_what_there_is_by_default() -> None:
    assert load_settings(index_memory="512MiB").index_memory_bytes == 512 << 20
    assert load_settings().index_memory_bytes == memory_limit_bytes() // 4


def test_one_file_does_not_show_in_the_settings_of_the_next_load(file: Path) -> None:
    assert load_settings(file).rows == 7
    assert load_settings().rows == SignatureSettings().rows


def test_each_part_gets_what_was_set() -> None:
    settings = load_settings(
        threshold=0.9, min_shingles=3, bucket_max=5, candidates_max=6,
        shingle_width=4, bands=12, rows=7, threads=3,
    )  # fmt: skip
    assert settings.index == IndexSettings(
        threshold=0.9, shingles_min=3, bucket_max=5, candidates_max=6
    )
    assert settings.signature == SignatureSettings(shingle_width=4, bands=12, rows=7)
    assert settings.signing_threads == 3


BAD_VALUES: dict[str, tuple[Any, ...]] = {
    "threshold": (0.0, 1.01, float("nan"), "high"),
    "shingle_width": (0, 33),
    "bands": (0, 49),
    "rows": (33, 1.5),
    "min_shingles": (33,),
    "bucket_max": (0,),
    "candidates_max": (4097,),
    "threads": (-1,),
    "page_bytes_max": (1023,),
    "head_pages": (0,),
    "expire_after": ("30", "0s", "30 days", 30),
    "keep_pages": (-1,),
    "index_memory": ("much", -1),
    "security_protocol": ("TLS",),
    "sasl_mechanism": ("GSSAPI",),
}


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, all_bad in BAD_VALUES.items() for value in all_bad]
)
def test_a_bad_value_gives_one_sentence_that_names_the_setting(name: str, value: Any) -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings(**{name: value})
    message = str(caught.value)
    assert message.startswith(f"The setting {name} = {value!r} cannot be used: ")
    assert message.endswith(".")
    assert "\n" not in message
    assert "Input should" not in message


def test_an_age_has_a_unit() -> None:
    ages = {"30d": 2_592_000_000, "2w": 1_209_600_000, "12h": 43_200_000, "90m": 5_400_000}
    for age, milliseconds in ages.items():
        assert load_settings(expire_after=age).index.expire_after_ms == milliseconds


def test_a_bad_value_in_the_environment_is_named_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STREAMER_ROWS", "many")
    said = r"^The setting rows = 'many' cannot be used: it must be a whole number\.$"
    with pytest.raises(SettingsError, match=said):
        load_settings()


def test_an_unknown_name_in_the_file_is_refused_with_the_one_meant(file: Path) -> None:
    file.write_text("row = 7\n")
    with pytest.raises(
        SettingsError,
        match=r"^There is no setting row\. The settings file .*toml has it\. Did you mean rows\?",
    ):
        load_settings(file)


@pytest.mark.parametrize(
    "line",
    [
        'sasl_pasword = "{}"', '[sasl_password]\nvalue = "{}"', '[kafka]\nsasl_password = "{}"',
        'sasl_password = ["{}"]', "sasl_password = {}",
    ],
)  # fmt: skip
def test_no_message_shows_what_may_be_a_secret(line: str, file: Path) -> None:
    file.write_text(line.format("7331733173317331"))
    with pytest.raises(SettingsError) as caught:
        load_settings(file)
    shown = "".join(traceback.format_exception(caught.value))
    assert "7331" not in shown
    assert re.search("setting (sasl_|kafka)", shown)


def test_no_message_shows_the_value_of_an_unknown_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STREAMER_SASL_PASWORD", "7331")
    with pytest.raises(SettingsError, match="Did you mean STREAMER_SASL_PASSWORD") as caught:
        load_settings()
    assert "7331" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("STREAMER_TRESHOLD", " Did you mean STREAMER_THRESHOLD?"),
        ("streamer_band", " Did you mean STREAMER_BANDS?"),
        ("STREAMER_HEALTHPORT", " Did you mean STREAMER_HEALTH_PORT?"),
        ("STREAMER_QQQ", ""),
    ],
)
def test_a_misspelt_variable_is_an_error_that_names_the_one_meant(
    name: str, meant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "1")
    said = f"There is no setting for the environment variable {name}.{meant} Unset it"
    with pytest.raises(SettingsError, match=re.escape(said)):
        load_settings()


@pytest.mark.parametrize(
    "name",
    [
        *OTHER_VARIABLES,
        "STREAMERS",
        *(f"STREAMER_{rest}" for rest in ("PORT", "SERVICE_HOST", "HEALTH_SERVICE_HOST")),
        *(f"STREAMER_HEALTH_SERVICE_{rest}" for rest in ("PORT", "PORT_HTTP")),
        *(f"STREAMER_SIGN_PORT_8080_{rest}" for rest in ("TCP", "TCP_ADDR")),
    ],
)
def test_variables_of_services_are_no_settings(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "tcp://10.0.0.1:8080")
    assert load_settings().model_dump() == Settings().model_dump()


@pytest.mark.parametrize("content", [b"rows = ", b"\xff\xfe", b"rows 7", b"[rows]\n[rows]"])
def test_a_file_that_is_no_toml_is_named(file: Path, content: bytes) -> None:
    file.write_bytes(content)
    with pytest.raises(SettingsError, match=r"settings\.toml cannot be read: ") as caught:
        load_settings(file)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    for path in (tmp_path / "none.toml", tmp_path, str(tmp_path)):
        with pytest.raises(SettingsError, match=f"There is no settings file {path}"):
            load_settings(path)


def test_every_setting_says_what_it_is() -> None:
    assert [one.name for one in list_settings()] == [*Settings.model_fields]
    for one in list_settings():
        assert re.fullmatch(r"[A-Z].*\.", one.text), one
        assert one.panel
    [preset] = [one.text for one in list_settings() if one.name == "preset"]
    assert all(name in preset for name in [*PURPOSES, *PRESETS])


@pytest.mark.parametrize("purpose", PURPOSES)
def test_flags_the_environment_and_the_file_go_before_a_preset(
    purpose: str, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = PURPOSES[purpose]
    chosen = load_settings(preset=[purpose])
    assert {name: getattr(chosen, name) for name in values} == dict(values)
    assert (chosen.index.threshold, chosen.signature.bands) == (
        values["threshold"],
        values["bands"],
    )
    monkeypatch.setenv("STREAMER_BANDS", "10")
    mixed = load_settings(file, preset=[purpose], threshold=0.31)
    assert (mixed.threshold, mixed.bands, mixed.rows) == (0.31, 10, 7)


@pytest.mark.parametrize("purpose", ["balanced", "broad"])
def test_presets_know_sites_where_that_goes(purpose: str, tmp_path: Path) -> None:
    (tmp_path / "rules").write_text('[[rule]]\nhost = "a"\ntext = "visible"\n')
    (tmp_path / "other").write_text('[[rule]]\nhost = "a"\nthreshold = 0.9\n')
    for given in ({}, {"scope": "host"}, {"per_partition": True}, {"rules": tmp_path / "other"}):
        settings = load_settings(preset=[purpose], **given)
        assert settings.signature.site_memory == 64 << 20
    left_out: dict[str, dict[str, Any]] = {
        "--scope tenant": {"scope": "tenant"},
        "--text visible": {"text": "visible"},
        "--canonical": {"canonical": ["stem=english"]},
        "--method-option": {"method_option": ["bands=5"]},
        "rules with a text": {"rules": tmp_path / "rules"},
    }
    for other, given in left_out.items():
        with pytest.warns(match=f"{purpose} is used without .* does not go with {other}"):
            settings = load_settings(preset=[purpose], **given)
        assert settings.site_memory == settings.signature.site_memory == 0
        assert load_settings(preset=[purpose], site_memory=0, **given).site_memory == 0
    sites = load_settings(preset=[purpose])
    with pytest.warns(match="does not go with Spark"):
        assert sites.without_sites("Spark").signature.site_memory == 0
    assert load_settings(text="main").without_sites("Spark").site_memory == 0


def test_presets_come_from_a_variable_or_file(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text('preset = "balanced"\n')
    assert load_settings(file).index.threshold == PURPOSES["balanced"]["threshold"]
    file.write_text('preset = ["broad", "nutch"]\nthreshold = 0.7\n')
    both = load_settings(file)
    assert (both.index.threshold, both.text, both.mapping) == (0.7, "main", "nutch")
    monkeypatch.setenv("STREAMER_PRESET", "norconex strict")
    assert (load_settings(file).mapping, load_settings(file).text) == ("norconex", "visible")
    assert load_settings(file, preset=["nutch balanced"]).mapping == "nutch"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"preset": ["magic"]}, "There is no preset magic; there are strict, balanced, broad, "),
        ({"preset": ["broad", "strict"]}, "The presets broad and strict exclude each other"),
        ({"preset": ["nutch", "warc"]}, "The presets nutch and warc exclude each other"),
        ({"preset": ["broad"], "method": "simhash"}, "broad does not go with --method simhash"),
        ({"preset": ["balanced"], "accept": "words"}, "balanced does not go with --accept words"),
    ],
)
def test_presets_that_do_not_go_together_are_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        load_settings(**given)
