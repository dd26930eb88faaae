"""All settings, each declared once, in one frozen tree: flags, environment, file, preset, defaults.

A field of `Settings` is all that there is to a setting: its type, default, bounds, help text and
panel. The flags of the commands (cli/options.py), the variables STREAMER_NAME, the keys of a TOML
file, what `streamer check` shows and the table in docs/settings.md are made from it; `python -m
streamer.config` prints that table. Nothing needs to be set.

What shapes signatures and verdicts has its default and bounds where it is used (SignatureSettings,
IndexSettings). The tree is built at the edge; each part of the program gets only the part that it
needs.
"""

# cli/options.py makes typer's options, because the command line of pydantic-settings is argparse's.
# A preset is a source of values after the file, so explicit settings override it. It is refused
# with another method, because a threshold means something for one measure only.

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, get_args

from pydantic import AfterValidator, BeforeValidator, ByteSize, Field, SecretStr, ValidationError
from pydantic.config import JsonDict
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails, PydanticUndefined
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from streamer.errors import SettingsError
from streamer.given_file import read_given
from streamer.index.memtable import HEAD_PAGES
from streamer.index.settings import IndexSettings
from streamer.metrics import memory_limit_bytes
from streamer.pages.chunk import PAGE_BYTES_MAX
from streamer.pages.mapping import PRESETS
from streamer.rules import MAIN, Rule, read_rules, text_rules
from streamer.sketch.settings import MAIN_TEXT, NATIVE, SignatureSettings
from streamer.wrong_values import UNKNOWN, VARIABLES, did_you_mean, unknown_variable, why_wrong

SITE_BYTES_MIN = 1 << 20  # of a table of sites that is of use

# The panels of a command's help, and the parts of the table in docs/settings.md.
VERDICTS = "Verdicts"
SIGNATURE = "Signature (fixed when an index is made)"
FIELDS = "Fields of a page"
RUNNING = "Running"
KAFKA = "Kafka"
WORKER = "Worker"
SECURITY = "Security"
REGISTRY = "Schema registry"

# Variables that are no settings: of kernel.py, of a worker's --index, of the tests and their tools.
OTHER_VARIABLES = (
    "STREAMER_CACHE_DIR",
    "STREAMER_CONSOLE_TOKEN",
    "STREAMER_INDEX",
    "STREAMER_CRDS",
    "STREAMER_TEST_BROKER",
    "STREAMER_TOOLS",
)


OWN_HEADERS = "streamer."  # what the names of headers begin with that streamer writes

Protocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
Mechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]


class Role(StrEnum):
    """What a worker does."""

    ALL = "all"
    SIGN = "sign"
    INDEX = "index"


def _split(value: object) -> object:
    return tuple(value.split()) if isinstance(value, str) else value


def _names(value: object) -> object:
    """Return the words of a text, or of all texts of a list."""
    if isinstance(value, list | tuple) and all(isinstance(one, str) for one in value):
        value = " ".join(value)
    return _split(value)


# A list in the file; in the environment, words with spaces between; as a flag, one a time.
Words = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split)]


_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def _duration(value: str) -> str:
    if not re.fullmatch("[1-9][0-9]{0,5}[smhdw]", value):
        raise ValueError("give a number and s, m, h, d or w, as 30m, 1h or 30d")
    return value


def _seconds(duration: str) -> float:
    return float(duration[:-1]) * _SECONDS[duration[-1]]


def duration_of(seconds: int) -> str:
    """Return so many seconds as a setting has them, in the largest unit that they fill."""
    unit = max(
        (each for each in _SECONDS if seconds % _SECONDS[each] == 0), key=_SECONDS.__getitem__
    )
    return f"{seconds // _SECONDS[unit]}{unit}"


Duration = Annotated[str, AfterValidator(_duration)]
DurationOrNone = Annotated[str, AfterValidator(lambda value: value and _duration(value))]


def _setting(
    panel: str,
    text: str,
    default: object = PydanticUndefined,
    *,
    shown: str = "{}",
    form: str = "",
    flag: bool = True,
    **bounds: Any,  # noqa: ANN401 - what pydantic's Field takes
) -> Any:  # noqa: ANN401 - as that, it stands for a value of the field's own type
    """Declare a setting.

    `shown` is how its default is shown, `form` what a value looks like. One that is no `flag` is
    taken from the environment and the file only.
    """
    extra: JsonDict = {"panel": panel, "shown": shown, "form": form, "flag": flag}
    return Field(default, description=text, json_schema_extra=extra, **bounds)


_SIGNED, _JUDGED = SignatureSettings.model_fields, IndexSettings.model_fields

# What is taken for a near-duplicate, as values of settings; docs/quality.md has how well each does.
PURPOSES: Mapping[str, Mapping[str, Any]] = {
    "strict": {"method": NATIVE, "threshold": 0.8, "bands": 14, "rows": 6},
    "balanced": {"method": NATIVE, "threshold": 0.65, "bands": 24, "rows": 4, "text": "main"},
    "broad": {"method": NATIVE, "threshold": 0.5, "bands": 40, "rows": 3, "text": "main"},
}


class _OfPurpose(PydanticBaseSettingsSource):
    """The values of a preset for a purpose, which yield to all that is given otherwise."""

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        """Return no value: all are given at once."""
        del field
        return None, field_name, False

    def __call__(self) -> dict[str, Any]:
        """Return the values.

        Raises:
            SettingsError: there is no such preset, there are two of a kind, or another method is
                given, for which the values mean something else.
        """
        names = _names(self.current_state.get("preset", ()))
        if not isinstance(names, tuple):
            return {}  # which is refused as any wrong value is
        for kind in (PURPOSES, PRESETS):
            if len(both := [name for name in names if name in kind]) > 1:
                raise SettingsError(f"The presets {both[0]} and {both[1]} exclude each other.")
        for name in names:
            if name not in PURPOSES and name not in PRESETS:
                known = ", ".join([*PURPOSES, *sorted(PRESETS)])
                raise SettingsError(f"There is no preset {name}; there are {known}.")
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
        return dict(own)


class Settings(BaseSettings):
    """The settings of a run; see each field's text."""

    model_config = SettingsConfigDict(frozen=True, extra="forbid", env_prefix="STREAMER_")
    config_file: ClassVar[Path | None] = None

    preset: Annotated[Words, BeforeValidator(_names)] = _setting(
        VERDICTS,
        f"What counts as a near-duplicate: {', '.join(PURPOSES)}; or the field mapping of a "
        f"crawler: {', '.join(sorted(PRESETS))}; or one of each. Explicit settings override it.",
        (),
    )
    threshold: Annotated[float, _JUDGED["threshold"]] = _setting(
        VERDICTS,
        "Minimum similarity of duplicates, 0 to 1. For minhash, similarity is the share of "
        "five-word sequences that two pages have in common.",
        shown="the method's, {}",
    )
    fallback_threshold: Annotated[float, _JUDGED["fallback_threshold"]] = _setting(
        VERDICTS,
        "With --text main: minimum similarity of a page that has no main text and is compared by "
        "all of its text, unless the threshold is higher; 0: the threshold.",
        0.8,
        shown="{} for minhash",
    )
    min_shingles: Annotated[int, _JUDGED["shingles_min"]] = _setting(
        VERDICTS,
        "Minimum number of distinct shingles (sequences of words). A page with fewer is a "
        "duplicate only of pages with equal content.",
        shown="the method's, {}",
    )
    bucket_max: Annotated[int, _JUDGED["bucket_max"]] = _setting(
        VERDICTS, "Maximum number of kept pages under one band key; the earliest stay."
    )
    candidates_max: Annotated[int, _JUDGED["candidates_max"]] = _setting(
        VERDICTS, "Maximum number of kept pages that a page is compared with; the earliest count."
    )
    expire_after: DurationOrNone = _setting(
        VERDICTS,
        "Age after which a kept page matches no page any more: 30d, 12h, 90m or 45s. Times are "
        "those of messages; in files, those of fetched_at.",
        "",
        shown="never",
        form="AGE",
    )
    keep_pages: Annotated[int, _JUDGED["keep_pages"]] = _setting(
        VERDICTS, "Only the newest so many kept pages match later pages; 0: no limit."
    )
    track_changes: bool = _setting(
        VERDICTS,
        "Keep the newest version of each URL, and add `change` to verdicts: new, unchanged, edited "
        "or replaced.",
        default=False,
        shown="no",
    )

    near_misses: Annotated[float, _JUDGED["near_misses"]] = _setting(
        VERDICTS,
        "Add `nearest` to verdicts on unique pages: the most similar kept page that misses the "
        "threshold by so much at most, such as 0.15; 0: none.",
        form="MARGIN",
    )

    rules: Path | None = _setting(
        VERDICTS,
        "TOML file with rules for hosts and paths: another threshold, min_shingles or text, or "
        "skip. What rules say about `text` is fixed when an index is created.",
        None,
    )

    also: Words = _setting(
        VERDICTS,
        "Reference index, which is only read. A page that is near to one of its kept pages is a "
        "duplicate. Of several with one name, the last counts from here on.",
        (),
        form="NAME=FOLDER",
    )

    tombstones: Literal["ignore", "forget"] = _setting(
        VERDICTS,
        "What to do about a message without a value: only count it, or forget earlier pages whose "
        "URL is its key.",
        "ignore",
    )

    method: str = _setting(
        SIGNATURE,
        "Method or preset by which pages are compared; `streamer methods` lists them. Two can be "
        "combined: simhash+minhash.",
        NATIVE,
    )
    accept: str = _setting(
        SIGNATURE, "Second method, which decides on the candidates of the first.", ""
    )
    method_option: Words = _setting(
        SIGNATURE,
        "Parameter of the method; accept.NAME=VALUE for the second method.",
        (),
        form="NAME=VALUE",
    )
    canonical: Words = _setting(
        SIGNATURE,
        "Option of the canonical form of words, for example stop_words=english.",
        (),
        form="NAME=VALUE",
    )
    text: Literal["visible", "main"] = _setting(
        SIGNATURE,
        "Text of HTML that is compared: visible (all) or main (without navigation and other "
        "boilerplate; all text of a page without main text).",
        "visible",
    )
    site_memory: ByteSize = _setting(
        SIGNATURE,
        "With --text main: memory for the blocks of text that sites repeat, for example 64MiB; of "
        "a topic, for each partition. A block that stood on other pages of the host counts less as "
        "main text. 0: none.",
        ByteSize(0),
        form="BYTES",
        ge=0,
    )
    exact: bool = _setting(
        SIGNATURE,
        "Store the shingles of kept pages, and decide by exact resemblance if the estimate is near "
        "the threshold. For minhash, one_permutation and words.",
        default=False,
        shown="no",
    )
    shingle_width: Annotated[int, _SIGNED["shingle_width"]] = _setting(
        SIGNATURE, "Tokens (words) per shingle."
    )
    scope: str = _setting(
        SIGNATURE,
        "Compare pages only with pages of the same scope: `host`, or the field that names it, for "
        "example tenant. A page without it is a dead letter.",
        "",
        shown="all pages",
        form="host|FIELD",
    )
    bands: int = _setting(
        SIGNATURE,
        "Band keys per page. 14 bands of 6 rows find 98.6 % of pairs of similarity 0.8.",
        _SIGNED["bands"].default,
        ge=1,
        le=48,
    )
    rows: Annotated[int, _SIGNED["rows"]] = _setting(SIGNATURE, "Min-hashes per band.")
    key_file: Path | None = _setting(
        SIGNATURE,
        "File with the secret key of all hashes (64 hexadecimal digits). By default an index "
        "creates a random key.",
        None,
    )

    fields: str = _setting(
        FIELDS,
        'Field mapping as JSON, or a file that contains it: {"url": "/uri", "body": "/html"}.',
        "",
    )
    carry: Words = _setting(FIELDS, "Input field to copy into the verdict.", ())
    url_prefix: str = _setting(
        FIELDS,
        "Prefix of the URLs of HTML and text files, for example https://example.org/. The path "
        "below their folder is appended.",
        "",
        shown="none: the URL is the path",
    )
    cdx_base: str = _setting(
        FIELDS,
        "Folder or URL of the archives that CDX files name, for example "
        "https://data.commoncrawl.org.",
        "",
        shown="the folder of the CDX file, or the root of its store or server",
    )
    include: Words = _setting(
        FIELDS,
        "Only these files of folders, by name or by path below the folder, for example *.html.",
        (),
        form="GLOB",
    )
    exclude: Words = _setting(
        FIELDS, "Not these files of folders, by name or by path below it.", (), form="GLOB"
    )

    threads: int = _setting(
        RUNNING, "Number of threads that sign pages.", 0, shown="one more than cores", ge=0, le=256
    )
    head_pages: int = _setting(
        RUNNING,
        "Number of kept pages in memory (in the memtable) that makes a flush due.",
        HEAD_PAGES,
        ge=1,
    )
    index_memory: ByteSize = _setting(
        RUNNING,
        "Maximum memory for the keys of kept pages, for example 512MiB. Other keys go to disk, "
        "with filters in memory that take 23 bytes per page.",
        ByteSize(0),
        shown="a quarter of the memory that the process may use",
        form="BYTES",
        ge=0,
    )
    page_bytes_max: int = _setting(
        RUNNING,
        "Maximum size of a record, and of its expanded body, in bytes.",
        PAGE_BYTES_MAX,
        shown=f"{PAGE_BYTES_MAX >> 20} MiB",
        ge=1024,
    )
    chunk_seconds: float = _setting(
        RUNNING,
        "Maximum time in seconds that a record of a pipe waits for others to be judged with it.",
        1.0,
        gt=0.0,
        le=3600.0,
    )

    brokers: str = _setting(
        KAFKA, "HOST:PORT of some brokers, separated by commas.", "localhost:9092"
    )
    input_topic: str = _setting(KAFKA, "Topic of crawled pages.", "pages")
    index_name: str = _setting(
        KAFKA, "Prefix of the names of the index's topics and groups.", "streamer"
    )

    role: Role = _setting(
        WORKER, "Role of a worker: `sign` pages, `index` them, or `all`.", Role.ALL
    )
    per_partition: bool = _setting(
        WORKER,
        "Have an index for each partition of the pages: what shall meet must share a key.",
        default=False,
        shown="no",
    )
    own_shards: str = _setting(
        WORKER,
        "Shards that a worker owns: 0,2, or 1/3 for the second of each three.",
        "",
        shown="all",
    )
    replicas: int = _setting(
        WORKER, "Replication factor of topics that the worker creates.", 1, ge=1, le=32
    )
    verdict_partitions: int = _setting(
        WORKER,
        "Number of partitions of the topic of verdicts.",
        0,
        shown="as many as the pages",
        ge=0,
    )
    kept_topic: str = _setting(
        WORKER,
        "Topic to which the worker copies the message of each unique page, byte for byte and "
        "exactly once (for readers with isolation level read_committed).",
        "",
        shown="none",
        form="NAME",
    )
    kept_expired: Literal["stop", "skip"] = _setting(
        WORKER,
        "What to do if a message expired before it was copied to --kept-topic: stop, or skip it "
        "and count it.",
        "stop",
    )
    pass_headers: Words = _setting(
        WORKER,
        "Header of a page's message to copy to the message of its verdict, for example "
        "traceparent.",
        (),
        form="NAME",
    )
    window: int = _setting(WORKER, "Number of open pages at which signing pauses.", 65_536, ge=1000)
    instance_id: str = _setting(
        WORKER,
        "Unique name that a worker keeps across restarts, so that a quick restart causes no "
        "rebalance.",
        "",
    )
    accept_loss: bool = _setting(
        WORKER,
        "Continue although messages expired before they were read; those messages are lost.",
        default=False,
        shown="no",
    )
    snapshot_to: str = _setting(
        WORKER,
        "Folder for snapshots of the index, with one folder per shard; or a URL such as "
        "s3://bucket/index.",
        "",
        form="DIR",
    )
    snapshot_every: Duration = _setting(WORKER, "Time between two snapshots: 30m, 1h or 1d.", "1h")
    snapshot_keep: int = _setting(
        WORKER, "Number of snapshots per shard that are kept, the newest ones.", 3, ge=1
    )
    health_host: str = _setting(WORKER, "Address of the health port.", "127.0.0.1")
    health_port: int = _setting(
        WORKER, "Port for health and metrics; 0: none.", 8080, ge=0, le=65_535
    )
    log_format: Literal["json", "console"] = _setting(
        WORKER, "Format of a worker's logs: json or console.", "json"
    )
    log_level: Literal["debug", "info", "warning", "error"] = _setting(
        WORKER, "Minimum level of a worker's logs: debug, info, warning or error.", "info"
    )

    security_protocol: Protocol = _setting(
        SECURITY,
        "Protocol of the connection to brokers: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.",
        "PLAINTEXT",
    )
    ssl_cafile: Path | None = _setting(
        SECURITY, "File with the CA certificates that verify brokers.", None
    )
    ssl_certfile: Path | None = _setting(SECURITY, "File with the client certificate.", None)
    ssl_keyfile: Path | None = _setting(
        SECURITY, "File with the private key of the client certificate.", None
    )
    sasl_mechanism: Mechanism | None = _setting(
        SECURITY, "SASL mechanism: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512.", None
    )
    sasl_username: str | None = _setting(SECURITY, "SASL user name.", None)
    sasl_password_file: Path | None = _setting(
        SECURITY, "File with the SASL password; or set STREAMER_SASL_PASSWORD.", None
    )
    sasl_password: SecretStr | None = _setting(
        SECURITY,
        "SASL password. It is not a flag, because other users can see command lines.",
        None,
        flag=False,
    )

    registry_url: str = _setting(
        REGISTRY,
        "Schema registry for messages that name their schema (Avro, JSON Schema), for example "
        "https://registry.example.org; for Apicurio, append /apis/ccompat/v7.",
        "",
        shown="none",
        form="URL",
    )
    registry_cafile: Path | None = _setting(
        REGISTRY, "File with the CA certificates that verify the registry.", None
    )
    registry_username: str | None = _setting(REGISTRY, "User name for the registry.", None)
    registry_password_file: Path | None = _setting(
        REGISTRY, "File with that user's password; or set STREAMER_REGISTRY_PASSWORD.", None
    )
    registry_password: SecretStr | None = _setting(
        REGISTRY,
        "That user's password. It is not a flag, because other users can see command lines.",
        None,
        flag=False,
    )

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
        return init_settings, env_settings, file, _OfPurpose(settings_cls)

    @property
    def mapping(self) -> str:
        """Return the name of the crawler whose field mapping is a preset; "" where none is."""
        return next((name for name in self.preset if name in PRESETS), "")

    @cached_property
    def signature(self) -> SignatureSettings:
        """Return what shapes a signature.

        Raises:
            SettingsError: there is no such method, or it cannot take what is set.
        """
        numbers = {n: getattr(self, n) for n in ("shingle_width", "bands", "rows")}
        rules = text_rules(self.site_rules)
        if self._is_native:
            return SignatureSettings(
                **numbers, canonical=self._of_text, text_rules=rules, exact=self.exact,
                scope=self.scope, site_memory=self.site_memory,
            )  # fmt: skip
        from streamer.sketch.scheme import check_exact, choose  # noqa: PLC0415 - imports all methods

        chosen = choose(
            self.method,
            accept=self.accept,
            options=self.method_option,
            canonical=(*self.canonical, *self._of_text),
            flags={n: value for n, value in numbers.items() if n in self.model_fields_set},
        )
        more = {"text_rules": rules, "exact": self.exact, "scope": self.scope}
        chosen = chosen.model_copy(update=more)
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
    def _of_text(self) -> tuple[str, ...]:
        """Return what `text` says as an option of the canonical form."""
        return MAIN_TEXT if self.text == "main" else ()

    @property
    def _is_native(self) -> bool:
        return self.method == NATIVE and not (self.accept or self.method_option or self.canonical)

    @property
    def index(self) -> IndexSettings:
        """Return what shapes a verdict."""
        given, own = self.model_fields_set, self.signature
        return IndexSettings(
            threshold=self.threshold if "threshold" in given else own.threshold,
            measure=own.measure,
            exact=own.exact,
            shingles_min=self.min_shingles if "min_shingles" in given else own.min_shingles,
            bucket_max=self.bucket_max,
            candidates_max=self.candidates_max,
            expire_after_ms=self._expire_after_ms,
            keep_pages=self.keep_pages,
            track_changes=self.track_changes,
            near_misses=self.near_misses,
            fallback_threshold=self._fallback_threshold,
            rules=self.site_rules,
        )

    @property
    def _fallback_threshold(self) -> float:
        """Return the setting; the default is of minhash, and means nothing for other measures."""
        own, is_given = self.signature, "fallback_threshold" in self.model_fields_set
        is_for_method = is_given or (own.method == NATIVE and not own.accept)
        return self.fallback_threshold if own.text == MAIN and is_for_method else 0

    @property
    def _expire_after_ms(self) -> int:
        return round(1000 * _seconds(self.expire_after)) if self.expire_after else 0

    @property
    def password(self) -> str | None:
        """Return the password for the brokers, of its file if there is one.

        Raises:
            SettingsError: the file cannot be read, or both are given.
        """
        return self._password("sasl_password")

    @property
    def password_of_registry(self) -> str | None:
        """Return the password for the schema registry, as `password`.

        Raises:
            SettingsError: as `password`.
        """
        return self._password("registry_password")

    def _password(self, name: str) -> str | None:
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
    def snapshot_seconds(self) -> float:
        """Return the time between two snapshots."""
        return _seconds(self.snapshot_every)

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


def load_settings(config: Path | None = None, **flags: Any) -> Settings:  # noqa: ANN401 - checked by the model
    """Return the settings; flags that are None were not given.

    Raises:
        SettingsError: one sentence that names the setting and what it may be.
    """

    class FromFile(Settings):
        pass

    FromFile.config_file = config
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
    _check_partitions(settings)
    if own := [name for name in settings.pass_headers if name.startswith(OWN_HEADERS)]:
        raise SettingsError(
            f"--pass-headers {own[0]} cannot be given: headers whose names begin with "
            f"{OWN_HEADERS} are written by streamer. Leave it out."
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
            "all scopes: those of one would displace those of another. Use --expire-after, or "
            "leave one out."
        )
    by_url = settings.track_changes or settings.tombstones == "forget"
    if settings.scope not in {"", "host"} and by_url:
        raise SettingsError(
            f"--scope {settings.scope} does not go with --track-changes or --tombstones forget: "
            "these know pages by URL, and two scopes may have one. Leave one out."
        )


def _check_sites(settings: Settings) -> None:
    """Raise SettingsError where a table of sites would not be asked, or is too small for any."""
    if not settings.site_memory:
        return
    signature = settings.signature
    if settings.site_memory < SITE_BYTES_MIN:
        raise SettingsError(
            f"The setting site_memory = {settings.site_memory} cannot be used: it must be 1MiB or "
            "more, or 0 for none."
        )
    if signature.text != MAIN or not signature.is_native:
        raise SettingsError(
            "The setting site_memory is for main text by the method minhash. Give --text main (or "
            "the preset balanced or broad) too, or leave --site-memory out."
        )
    if signature.text_rules or signature.scope:
        other = "rules with a text" if signature.text_rules else "--scope"
        raise SettingsError(
            f"--site-memory does not go with {other}: it holds for all pages alike. Leave one out."
        )


def _check_partitions(settings: Settings) -> None:
    """Raise SettingsError where an index for each partition would do what is not meant."""
    if settings.per_partition and settings.tombstones == "forget":
        raise SettingsError(
            "--per-partition does not go with --tombstones forget: there a message's key is its "
            "URL, here it is what pages share that shall meet. Use `streamer forget`."
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
            f"There is no setting {name}.{where}{near} `streamer check --help-all` lists all "
            "settings."
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


def declared() -> list[Declared]:
    """Return all settings, in the order of their declaration."""
    result = []
    for name, field in Settings.model_fields.items():
        extra = field.json_schema_extra
        assert isinstance(extra, dict)
        own = "" if field.default in (None, ()) else str(field.default)
        text = field.description or ""
        panel, shown, form = (str(extra[key]) for key in ("panel", "shown", "form"))
        default, flag = shown.format(own), bool(extra["flag"])
        result.append(Declared(name, field.annotation, panel, text, default, form, flag))
    return result


def settings_table() -> str:
    """Return the table of all settings in Markdown, as docs/settings.md has it."""
    lines = ["| setting | default | meaning |", "|---|---|---|"]
    panel = ""
    for one in declared():
        if one.panel != panel:
            panel = one.panel
            lines.append(f"| **{panel}** | | |")
        lines.append(f"| `{one.name}` | {one.default} | {one.text} |".replace("|  |", "| |"))
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(settings_table())
