"""The settings of a run: all panels as one frozen model, of flags, variables, a file and a preset.

`load_settings` refuses what does not go together, with one sentence that names the settings. The
model is built at the edge; each part of the program gets only the part that it needs.
"""

# cli/options.py makes typer's options, because the command line of pydantic-settings is argparse's.
# A preset is a source of values after the file, so explicit settings override it. It is refused
# with another method, because a threshold means something for one measure only.

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, get_args

from pydantic import SecretStr, ValidationError
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, SettingsConfigDict, TomlConfigSettingsSource
from pydantic_settings.sources import InitSettingsSource, PydanticBaseSettingsSource

from streamer import panels
from streamer.docstrings import Described, read_section
from streamer.errors import SettingsError
from streamer.given_file import read_given
from streamer.index.messages import IndexSettings
from streamer.metrics import memory_limit_bytes
from streamer.pages.mapping import PRESETS
from streamer.panels import seconds_of, split_names
from streamer.rules import MAIN, Rule, read_rules, text_rules
from streamer.sketch.settings import HOST, MAIN_TEXT, NATIVE, SignatureSettings
from streamer.wrong_values import UNKNOWN, VARIABLES, did_you_mean, unknown_variable, why_wrong

SITE_BYTES_MIN = 1 << 20  # of a table of sites that is of use

# Variables that are no settings: of kernel.py, of a worker's --index, of the tests and their tools.
_OTHERS = "CACHE_DIR CONSOLE_TOKEN INDEX CRDS TEST_BROKER TOOLS"
OTHER_VARIABLES = [f"{VARIABLES}{name}" for name in _OTHERS.split()]


# What is taken for a near-duplicate, as values of settings; docs/quality.md has how well each does.
# `balanced`: of two articles of which one has 5 % of its words replaced, the resemblance is .63.
_MAIN_TEXT = {"method": NATIVE, "text": MAIN, "site_memory": 64 << 20}
PURPOSES: Mapping[str, Mapping[str, Any]] = {
    "strict": {"method": NATIVE, "threshold": 0.8, "bands": 14, "rows": 6},
    "balanced": {**_MAIN_TEXT, "threshold": 0.63, "bands": 24, "rows": 4},
    "broad": {**_MAIN_TEXT, "threshold": 0.5, "bands": 40, "rows": 3},
}


class _OfPurpose(InitSettingsSource):
    """The values of a preset for a purpose, which yield to all that is given otherwise."""

    def __call__(self) -> dict[str, Any]:
        """Return the values.

        Raises:
            SettingsError: there is no such preset, there are two of a kind, or another method is
                given, for which the values mean something else.
        """
        names = split_names(self.current_state.get("preset", ()))
        if not isinstance(names, tuple):
            return {}  # which is refused as any wrong value is
        for kind in (PURPOSES, PRESETS):
            if len(both := [name for name in names if name in kind]) > 1:
                raise SettingsError(f"The presets {both[0]} and {both[1]} exclude each other.")
        known = [*PURPOSES, *sorted(PRESETS)]
        if unknown := [name for name in names if name not in known]:
            raise SettingsError(f"There is no preset {unknown[0]}; there are {', '.join(known)}.")
        purpose = next((name for name in names if name in PURPOSES), None)
        if purpose is None:
            return {}
        own = PURPOSES[purpose]
        for setting in ("method", "accept"):
            given = self.current_state.get(setting)
            if given is not None and given != own.get(setting, ""):
                raise SettingsError(
                    f"The preset {purpose} does not go with --{setting} {given}: its threshold is "
                    f"of another measure. Leave one of both out."
                )
        other = _excludes_sites(self.current_state) if "site_memory" in own else ""
        if other and "site_memory" not in self.current_state:
            _warn_of_sites(purpose, other)
        return {name: value for name, value in own.items() if not (other and name == "site_memory")}


def _warn_of_sites(purpose: str, other: str) -> None:
    """Say that a preset goes without what is known of sites, because of something else."""
    warnings.warn(
        f"The preset {purpose} is used without --site-memory, which does not go with {other}: more "
        "pages of one site may pass for duplicates. --site-memory 0 silences this.",
        stacklevel=1,  # wherever it is, so that Python shows it once
    )


def _excludes_sites(given: Mapping[str, Any]) -> str:
    """Return which of the settings that are given does not go with --site-memory; "" if none."""
    if given.get("text", MAIN) != MAIN:
        return f"--text {given['text']}"
    if given.get("scope", "") not in {"", HOST}:
        return f"--scope {given['scope']}"
    for name in ("canonical", "method_option"):
        if given.get(name):
            return "--" + name.replace("_", "-")
    rules = given.get("rules")
    return "rules with a text" if rules and text_rules(read_rules(Path(rules))) else ""


class Settings(
    panels.RegistryPanel, panels.SecurityPanel, panels.HealthPanel, panels.SnapshotPanel,
    panels.TopicsPanel, panels.WorkerPanel, panels.KafkaPanel, panels.RunningPanel,
    panels.SignaturePanel, panels.TextPanel, panels.VerdictPanel, panels.FieldsPanel,
    BaseSettings,
):  # fmt: skip
    """The settings of a run, of all panels."""

    model_config = SettingsConfigDict(frozen=True, extra="forbid", env_prefix="STREAMER_")
    config_file: ClassVar[Path | None] = None

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Order the sources: flags, environment, file, preset."""
        del dotenv_settings, file_secret_settings
        file = TomlConfigSettingsSource(settings_cls, cls.config_file)
        return init_settings, env_settings, file, _OfPurpose(settings_cls, {})

    @property
    def mapping(self) -> str:
        """Return the name of the crawler whose field mapping is a preset; "" where none is."""
        return next((name for name in self.preset if name in PRESETS), "")

    @property
    def purpose(self) -> str:
        """Return the name of the preset that says what a near-duplicate is; "" where none does."""
        return next((name for name in self.preset if name in PURPOSES), "")

    def without_sites(self, other: str) -> Settings:
        """Return the settings as they go with `other`, which a preset's --site-memory does not."""
        if not (self.purpose and self.site_memory):
            return self
        _warn_of_sites(self.purpose, other)
        left = self.model_copy(update={"site_memory": 0})
        vars(left).pop("signature", None)  # which a copy takes along
        return left

    @cached_property
    def signature(self) -> SignatureSettings:
        """Return what shapes a signature.

        Raises:
            SettingsError: there is no such method, or it cannot take what is set.
        """
        numbers = {n: getattr(self, n) for n in ("shingle_width", "bands", "rows")}
        main, rules = MAIN_TEXT if self.text == MAIN else (), text_rules(self.site_rules)
        own: dict[str, Any] = {"text_rules": rules, "exact": self.exact, "scope": self.scope}
        if self.method == NATIVE and not (self.accept or self.method_option or self.canonical):
            return SignatureSettings(**numbers, **own, canonical=main, site_memory=self.site_memory)
        from streamer.sketch.scheme import check_exact, choose  # noqa: PLC0415 - imports all methods

        chosen = choose(
            self.method,
            accept=self.accept,
            options=self.method_option,
            canonical=(*self.canonical, *main),
            flags={n: value for n, value in numbers.items() if n in self.model_fields_set},
        )
        chosen = chosen.model_copy(update=own)
        check_exact(chosen)
        return chosen

    @cached_property
    def site_rules(self) -> tuple[Rule, ...]:
        """Return the rules for pages of some sites.

        Raises:
            SettingsError: their file cannot be used.
        """
        return read_rules(self.rules) if self.rules else ()

    @property
    def index(self) -> IndexSettings:
        """Return what shapes a verdict."""
        given, own = self.model_fields_set, self.signature
        return IndexSettings(
            threshold=self.threshold if "threshold" in given else own.threshold,
            measure=own.measure,
            exact=own.exact,
            shingles_min=self.min_shingles if "min_shingles" in given else own.min_shingles,
            expire_after_ms=round(1000 * seconds_of(self.expire_after)) if self.expire_after else 0,
            fallback_threshold=self._fallback_threshold,
            rules=self.site_rules,
            bucket_max=self.bucket_max,
            candidates_max=self.candidates_max,
            keep_pages=self.keep_pages,
            track_changes=self.track_changes,
            near_misses=self.near_misses,
        )

    @property
    def _fallback_threshold(self) -> float:
        """Return the setting; the default is of minhash, and means nothing for other measures."""
        own, is_given = self.signature, "fallback_threshold" in self.model_fields_set
        is_for_method = is_given or (own.method == NATIVE and not own.accept)
        return self.fallback_threshold if own.text == MAIN and is_for_method else 0

    def password(self, name: str) -> str | None:
        """Return the password that this setting is, of its file if there is one.

        Raises:
            SettingsError: the file cannot be read, or both are given.
        """
        given: SecretStr | None = getattr(self, name)
        file: Path | None = getattr(self, f"{name}_file")
        if file is None:
            return given.get_secret_value() if given else None
        if given is not None:
            raise SettingsError(f"Give {name} or {name}_file, not both.")
        try:
            return read_given(file).decode().strip()
        except (OSError, ValueError) as error:
            raise SettingsError(f"The password file {file} cannot be read: {error}.") from error

    @property
    def signing_threads(self) -> int:
        """Return the number of signing threads: while one waits for the disk, another goes on."""
        return self.threads or len(os.sched_getaffinity(0)) + 1

    @property
    def in_force(self) -> dict[str, Any]:
        """Return what is set, by name, as JSON has it: defaults included, secrets left out."""
        values = self.model_dump(mode="json", exclude={"sasl_password", "registry_password"})
        values |= {
            "threshold": self.index.threshold,
            "min_shingles": self.index.shingles_min,
            "threads": self.signing_threads,
            "index_memory": self.index_memory_bytes,
        }
        return {name: value for name, value in values.items() if value not in (None, "", [])}

    @property
    def index_memory_bytes(self) -> int:
        """Return the memory for what finds kept pages; limits of control groups are observed."""
        return self.index_memory or memory_limit_bytes() // 4


def load_settings(config: str | Path | None = None, **flags: Any) -> Settings:  # noqa: ANN401 - checked by the model
    """Return the settings; flags that are None were not given.

    Raises:
        SettingsError: one sentence that names the setting and what it may be.
    """

    class FromFile(Settings):
        pass

    FromFile.config_file = config = None if config is None else Path(config)
    if config is not None and not config.is_file():
        raise SettingsError(f"There is no settings file {config}.")
    _check_variables()
    try:
        settings = FromFile(**{name: value for name, value in flags.items() if value is not None})
    except ValidationError as error:
        raise _refusal(error.errors()[0], config) from None  # it would show the value
    except ValueError as error:
        raise SettingsError(f"The settings file {config} cannot be read: {error}.") from error
    _check_scope(settings)
    _check_sites(settings)
    if settings.per_partition and settings.tombstones == "forget":
        raise SettingsError(
            "--per-partition does not go with --tombstones forget: there a message's key is its "
            "URL, here it is what pages share that shall meet. Use `streamer forget`."
        )
    if own := [name for name in settings.pass_headers if name.startswith(panels.OWN_HEADERS)]:
        raise SettingsError(
            f"--pass-headers {own[0]} cannot be given: headers whose names begin with "
            f"{panels.OWN_HEADERS} are written by streamer. Leave it out."
        )
    is_given = "fallback_threshold" in settings.model_fields_set
    if is_given and settings.fallback_threshold and settings.signature.text != MAIN:
        raise SettingsError(
            "The setting fallback_threshold is for pages that have no main text, and needs --text "
            "main (or the preset balanced or broad). For the sites of rules with text = main, give "
            "their rules a threshold."
        )
    return settings


def _check_scope(settings: Settings) -> None:
    """Raise SettingsError where pages of one URL may be of two scopes, and URLs would join them."""
    if settings.scope == "domain":
        raise SettingsError(
            "There is no scope domain: which names are domains changes with a list. Use host, or "
            "send the domain as a field; /domain is the field of that name."
        )
    if settings.scope and settings.keep_pages:
        raise SettingsError(
            f"--scope {settings.scope} does not go with --keep-pages, which counts the pages of "
            "all scopes: one would displace those of another. Use --expire-after, or leave one out."
        )
    by_url = settings.track_changes or settings.tombstones == "forget"
    if settings.scope not in {"", HOST} and by_url:
        raise SettingsError(
            f"--scope {settings.scope} does not go with --track-changes or --tombstones forget: "
            "these know pages by URL, and two scopes may have one. Leave one out."
        )


def _check_sites(settings: Settings) -> None:
    """Raise SettingsError where a table of sites would not be asked, or is too small for any."""
    if not settings.site_memory:
        return
    if settings.site_memory < SITE_BYTES_MIN:
        raise SettingsError(
            f"The setting site_memory = {settings.site_memory} must be 1MiB or more, or 0 for none."
        )
    if settings.signature.text != MAIN or not settings.signature.is_native:
        raise SettingsError(
            "The setting site_memory is for main text by the method minhash. Give --text main (or "
            "the preset balanced or broad) too, or leave --site-memory out."
        )
    if other := _excludes_sites(settings.model_dump(include={"scope", "rules"})):
        raise SettingsError(
            f"--site-memory does not go with {other}: it holds for all of a host. Leave one out."
        )


def _check_variables() -> None:
    """Raise SettingsError for a variable STREAMER_* that is no setting's."""
    known = [name.upper() for name in Settings.model_fields]
    variables = [VARIABLES + one for one in known]
    if name := unknown_variable(os.environ, [*variables, *OTHER_VARIABLES]):
        near = did_you_mean(name[len(VARIABLES) :].upper(), known, VARIABLES)
        raise SettingsError(
            f"There is no setting for the environment variable {name}.{near} Unset it or correct "
            "its name; `streamer check --help-all` lists all settings."
        )


def _refusal(error: ErrorDetails, config: Path | None) -> SettingsError:
    """Return the error about a setting; no value of a secret or of an unknown name is in it."""
    name = str(error["loc"][0])
    if error["type"] == UNKNOWN:
        where = f" The settings file {config} has it." if config else ""
        near = did_you_mean(name, Settings.model_fields)
        return SettingsError(
            f"There is no setting {name}.{where}{near} `streamer check --help-all` lists all."
        )
    field = Settings.model_fields[name]
    is_secret = SecretStr in (field.annotation, *get_args(field.annotation))
    value = "" if is_secret else f" = {error['input']!r}"
    return SettingsError(f"The setting {name}{value} cannot be used: {why_wrong(error)}.")


class Declared(NamedTuple):
    """A setting as it is declared; `default` is how that is shown, "" where there is none."""

    name: str
    type: Any
    panel: str
    text: str
    default: str
    form: str
    flag: bool


def list_settings() -> list[Declared]:
    """Return all settings, in the order of their declaration."""
    return [
        _declare(panel, name, text)
        for panel in reversed(Settings.__bases__[:-1])
        for name, text in read_section(panel.__doc__, "Attributes")[1].items()
    ]


def _declare(panel: Any, name: str, described: Described) -> Declared:  # noqa: ANN401 - a model
    field = Settings.model_fields[name]
    extra, value = field.json_schema_extra, field.default
    own = ("no", "yes")[value] if isinstance(value, bool) else str(value)
    own = "" if value in (None, ()) else own
    shown, flag = (extra["shown"], extra["flag"]) if isinstance(extra, dict) else ("{}", True)
    return Declared(
        name, field.annotation, panel.panel, described.text, str(shown).format(own),
        described.form, bool(flag),
    )  # fmt: skip
