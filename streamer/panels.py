"""All settings, each declared once: its type, default and bounds; in a docstring its help.

The flags of the commands (cli/options.py), the variables STREAMER_NAME, the keys of a TOML file,
what `streamer check` shows and the table in docs/settings.md are made from it. Nothing needs to be
set.

What shapes signatures and verdicts has its default and bounds where it is used (SignatureSettings,
IndexSettings).
"""

import re
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ByteSize, Field, SecretStr
from pydantic_core import PydanticUndefined
from pydantic_settings import NoDecode

from streamer.index.memtable import HEAD_PAGES
from streamer.index.messages import IndexSettings
from streamer.pages.chunk import PAGE_BYTES_MAX
from streamer.pages.mapping import MessageValue
from streamer.sketch.settings import NATIVE, SignatureSettings

# The panels of a command's help, and the parts of the table in docs/settings.md, in their order.
SUBJECTS = (
    FIELDS := "Pages and their fields",
    OUTPUTS := "Outputs",
    VERDICTS := "What counts as a near-duplicate",
    TEXT := "What text counts (fixed when an index is made)",
    SIGNATURE := "How pages are compared (fixed when an index is made)",
    RUNNING := "Threads, memory and limits",
    KAFKA := "Kafka",
    WORKER := "Worker",
    TOPICS := "Topics that a worker writes",
    SNAPSHOTS := "Snapshots",
    HEALTH := "Health and logs",
    SECURITY := "Security",
    REGISTRY := "Schema registry",
)

OWN_HEADERS = "streamer."  # what the names of headers begin with that streamer writes

Protocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
OAUTHBEARER = "OAUTHBEARER"
Mechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]


class Role(StrEnum):
    """What a worker does."""

    ALL = "all"
    SIGN = "sign"
    INDEX = "index"


def _split(value: object) -> object:
    return tuple(value.split()) if isinstance(value, str) else value


def split_names(value: object) -> object:
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


def seconds_of(duration: str) -> float:
    """Return a duration as a setting has it in seconds."""
    return float(duration[:-1]) * _SECONDS[duration[-1]]


def duration_of(seconds: int) -> str:
    """Return so many seconds as a setting has them, in the largest unit that they fill."""
    units = (each for each in _SECONDS if seconds % _SECONDS[each] == 0)
    unit = max(units, key=_SECONDS.__getitem__)
    return f"{seconds // _SECONDS[unit]}{unit}"


Duration = Annotated[str, AfterValidator(_duration)]
DurationOrNone = Annotated[str, AfterValidator(lambda value: value and _duration(value))]


def _setting(
    default: object = PydanticUndefined,
    *,
    shown: str = "{}",
    flag: bool = True,
    **bounds: Any,  # noqa: ANN401 - what pydantic's Field takes
) -> Any:  # noqa: ANN401 - as that, it takes the place of a value of the field's type
    """Declare how the default of a setting is `shown`, and its bounds.

    One that is no `flag` is taken from the environment and the file only.
    """
    return Field(default, json_schema_extra={"shown": shown, "flag": flag}, **bounds)


_SIGNED, _JUDGED = SignatureSettings.model_fields, IndexSettings.model_fields


class FieldsPanel(BaseModel):
    """Where a page's fields are, and which files are read.

    Attributes:
        fields: Field mapping as JSON, or a file that contains it: {"url": "/uri", "body": "/html"}.
        value: What a message's value is: a page in JSON, or a body, with fields in /key and
            /headers/NAME.
        carry: Input field to copy into the verdict.
        url_prefix: Prefix of the URLs of HTML and text files, for example https://example.org/. The
            path below their folder is appended.
        cdx_base: Folder or URL of the archives that CDX files name, for example
            https://data.commoncrawl.org.
        include (GLOB): Only these files of folders, by name or by path below the folder, for
            example *.html.
        exclude (GLOB): Not these files, named as for include.
    """

    panel: ClassVar = FIELDS
    fields: str = ""
    value: MessageValue = "page"
    carry: Words = ()
    url_prefix: str = _setting("", shown="none: the URL is the path")
    cdx_base: str = _setting(
        "", shown="the folder of the CDX file, or the root of its store or server"
    )
    include: Words = ()
    exclude: Words = ()


class VerdictPanel(BaseModel):
    """What is a near-duplicate, and which pages answer.

    Attributes:
        preset: What counts as a near-duplicate: strict, balanced, broad; or the field mapping of a
            crawler: browsertrix, frontera, norconex, nutch, page, scrapy-cluster, warc; or one of
            each. Explicit settings override it.
        threshold: Minimum similarity of duplicates, 0 to 1. For minhash, similarity is the share of
            five-word sequences that two pages have in common.
        fallback_threshold: With --text main: minimum similarity of a page that has no main text and
            is compared by all of its text, unless the threshold is higher; 0: the threshold.
        min_shingles: Minimum number of distinct shingles (sequences of words). A page with fewer is
            a duplicate only of pages with equal content.
        bucket_max: Maximum number of kept pages under one band key; the earliest stay.
        candidates_max: Maximum number of kept pages that a page is compared with; the earliest
            count.
        expire_after (AGE): Age after which a kept page matches no page any more: 30d, 12h, 90m or
            45s. Times are those of messages; in files, those of fetched_at.
        keep_pages: Only the newest so many kept pages match later pages; 0: no limit.
        track_changes: Keep the newest version of each URL, and add `change` to verdicts: new,
            unchanged, edited or replaced.
        near_misses (MARGIN): Add `nearest` to verdicts on unique pages: the most similar kept page
            that misses the threshold by so much at most, such as 0.15; 0: none.
        rules: TOML file with rules for hosts and paths: another threshold, min_shingles or text, or
            skip. What rules say about `text` is fixed when an index is created.
        also (NAME=FOLDER): Reference index, which is only read. A page that is near to one of its
            kept pages is a duplicate. Of several with one name, the last counts from here on.
        tombstones: What to do about a message without a value: only count it, or forget earlier
            pages whose URL is its key.
    """

    panel: ClassVar = VERDICTS
    preset: Annotated[Words, BeforeValidator(split_names)] = ()
    threshold: Annotated[float, _JUDGED["threshold"]] = _setting(shown="the method's, {}")
    fallback_threshold: Annotated[float, _JUDGED["fallback_threshold"]] = _setting(
        0.7, shown="{} for minhash"
    )
    min_shingles: Annotated[int, _JUDGED["shingles_min"]] = _setting(shown="the method's, {}")
    bucket_max: Annotated[int, _JUDGED["bucket_max"]] = _setting()
    candidates_max: Annotated[int, _JUDGED["candidates_max"]] = _setting()
    expire_after: DurationOrNone = _setting("", shown="never")
    keep_pages: Annotated[int, _JUDGED["keep_pages"]] = _setting()
    track_changes: bool = False
    near_misses: Annotated[float, _JUDGED["near_misses"]] = _setting()
    rules: Path | None = None
    also: Words = ()
    tombstones: Literal["ignore", "forget"] = "ignore"


class TextPanel(BaseModel):
    """What of a page's text is compared.

    Attributes:
        text: Text of HTML that is compared: visible (all) or main (without navigation and other
            boilerplate; all text of a page without main text).
        site_memory (BYTES): With --text main: memory for the blocks of text that sites repeat, for
            example 64MiB, which the presets balanced and broad have; of a topic, for each
            partition. A block that stood on other pages of the host counts less as main text. 0:
            none.
        canonical (NAME=VALUE): Option of the canonical form of words, for example
            stop_words=english.
    """

    panel: ClassVar = TEXT
    text: Literal["visible", "main"] = "visible"
    site_memory: ByteSize = _setting(ByteSize(0), ge=0)
    canonical: Words = ()


class SignaturePanel(BaseModel):
    """How pages are signed.

    Attributes:
        method: Method or preset by which pages are compared; `streamer methods` lists them. Two can
            be combined: simhash+minhash.
        accept: Second method, which decides on the candidates of the first.
        method_option (NAME=VALUE): Parameter of the method; accept.NAME=VALUE for the second
            method.
        exact: Store the shingles of kept pages, and decide by exact resemblance if the estimate is
            near the threshold. For minhash, one_permutation and words.
        shingle_width: Tokens (words) per shingle.
        scope (host|FIELD): Compare pages only with pages of the same scope: `host`, or the field
            that names it, for example tenant. A page without it is a dead letter.
        bands: Band keys per page. 14 bands of 6 rows find 98.6 % of pairs of similarity 0.8.
        rows: Min-hashes per band.
        key_file: File with the secret key of all hashes (64 hexadecimal digits). By default an
            index creates a random key.
    """

    panel: ClassVar = SIGNATURE
    method: str = NATIVE
    accept: str = ""
    method_option: Words = ()
    exact: bool = False
    shingle_width: Annotated[int, _SIGNED["shingle_width"]] = _setting()
    scope: str = _setting("", shown="all pages")
    bands: int = _setting(_SIGNED["bands"].default, ge=1, le=48)
    rows: Annotated[int, _SIGNED["rows"]] = _setting()
    key_file: Path | None = None


class RunningPanel(BaseModel):
    """What a run may use of its machine.

    Attributes:
        threads: Number of threads that sign pages.
        head_pages: Number of kept pages in memory (in the memtable) that makes a flush due.
        index_memory (BYTES): Maximum memory for the keys of kept pages, for example 512MiB. Other
            keys go to disk, with filters in memory that take 23 bytes per page.
        page_bytes_max: Maximum size of a record, and of its expanded body, in bytes.
        chunk_seconds: Maximum time in seconds that a record of a pipe waits for others to be judged
            with it.
    """

    panel: ClassVar = RUNNING
    threads: int = _setting(0, shown="one more than cores", ge=0, le=256)
    head_pages: int = _setting(HEAD_PAGES, ge=1)
    index_memory: ByteSize = _setting(
        ByteSize(0), shown="a quarter of the memory that the process may use", ge=0
    )
    page_bytes_max: int = _setting(PAGE_BYTES_MAX, shown=f"{PAGE_BYTES_MAX >> 20} MiB", ge=1024)
    chunk_seconds: float = _setting(1.0, gt=0.0, le=3600.0)


class KafkaPanel(BaseModel):
    """Which topics of which brokers.

    Attributes:
        brokers: HOST:PORT of some brokers, separated by commas.
        input_topic: Topic of crawled pages.
        index_name: Prefix of the names of the index's topics and groups.
    """

    panel: ClassVar = KAFKA
    brokers: str = "localhost:9092"
    input_topic: str = "pages"
    index_name: str = "streamer"


class WorkerPanel(BaseModel):
    """What a worker does, and with what.

    Attributes:
        role: Role of a worker: `sign` pages, `index` them, or `all`.
        per_partition: Have an index for each partition of the pages: what shall meet must share a
            key.
        own_shards: Shards that a worker owns: 0,2, or 1/3 for the second of each three.
        window: Number of open pages at which signing pauses.
        instance_id: Unique name that a worker keeps across restarts, so that a quick restart causes
            no rebalance.
        accept_loss: Continue although messages expired before they were read; those messages are
            lost.
    """

    panel: ClassVar = WORKER
    role: Role = Role.ALL
    per_partition: bool = False
    own_shards: str = _setting("", shown="all")
    window: int = _setting(65536, ge=1000)
    instance_id: str = ""
    accept_loss: bool = False


class TopicsPanel(BaseModel):
    """What a worker writes.

    Attributes:
        replicas: Replication factor of topics that the worker creates.
        verdict_partitions: Number of partitions of the topic of verdicts.
        kept_topic (NAME): Topic to which the worker copies the message of each unique page, byte
            for byte and exactly once (for readers with isolation level read_committed).
        kept_expired: What to do if a message expired before it was copied to --kept-topic: stop, or
            skip it and count it.
        pass_headers (NAME): Header of a page's message to copy to the message of its verdict, for
            example traceparent.
    """

    panel: ClassVar = TOPICS
    replicas: int = _setting(1, ge=1, le=32)
    verdict_partitions: int = _setting(0, shown="as many as the pages", ge=0)
    kept_topic: str = _setting("", shown="none")
    kept_expired: Literal["stop", "skip"] = "stop"
    pass_headers: Words = ()


class SnapshotPanel(BaseModel):
    """The snapshots that a worker takes.

    Attributes:
        snapshot_to (DIR): Folder for snapshots of the index, with one folder per shard; or a URL
            such as s3://bucket/index.
        snapshot_every: Time between two snapshots: 30m, 1h or 1d.
        snapshot_keep: Number of snapshots per shard that are kept, the newest ones.
    """

    panel: ClassVar = SNAPSHOTS
    snapshot_to: str = ""
    snapshot_every: Duration = "1h"
    snapshot_keep: int = _setting(3, ge=1)


class HealthPanel(BaseModel):
    """What a worker says of itself.

    Attributes:
        health_host: Address of the health port.
        health_port: Port for health and metrics; 0: none.
        log_format: Format of a worker's logs: json or console.
        log_level: Minimum level of a worker's logs: debug, info, warning or error.
    """

    panel: ClassVar = HEALTH
    health_host: str = "127.0.0.1"
    health_port: int = _setting(8080, ge=0, le=65535)
    log_format: Literal["json", "console"] = "json"
    log_level: Literal["debug", "info", "warning", "error"] = "info"


class SecurityPanel(BaseModel):
    """The connection to the brokers.

    Attributes:
        security_protocol: Protocol of the connection to brokers: PLAINTEXT, SSL, SASL_PLAINTEXT or
            SASL_SSL.
        ssl_cafile: File with the CA certificates that verify brokers.
        ssl_certfile: File with the client certificate.
        ssl_keyfile: File with the private key of the client certificate.
        sasl_mechanism: SASL mechanism: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER.
        sasl_username: SASL user name.
        sasl_password_file: File with the SASL password; or set STREAMER_SASL_PASSWORD.
        sasl_password: SASL password. It is not a flag, because other users can see command lines.
        sasl_token_command (COMMAND): Command that prints a token for OAUTHBEARER: a JWT, or
            {"access_token": ..., "expires_in": SECONDS}.
    """

    panel: ClassVar = SECURITY
    security_protocol: Protocol = "PLAINTEXT"
    ssl_cafile: Path | None = None
    ssl_certfile: Path | None = None
    ssl_keyfile: Path | None = None
    sasl_mechanism: Mechanism | None = None
    sasl_username: str | None = None
    sasl_password_file: Path | None = None
    sasl_password: SecretStr | None = _setting(None, flag=False)
    sasl_token_command: str | None = None


class RegistryPanel(BaseModel):
    """The schema registry.

    Attributes:
        registry_url (URL): Schema registry for messages that name their schema (Avro, JSON Schema),
            for example https://registry.example.org; for Apicurio, append /apis/ccompat/v7.
        registry_cafile: File with the CA certificates that verify the registry.
        registry_username: User name for the registry.
        registry_password_file: File with that user's password; or set STREAMER_REGISTRY_PASSWORD.
        registry_password: That user's password. It is not a flag either.
    """

    panel: ClassVar = REGISTRY
    registry_url: str = _setting("", shown="none")
    registry_cafile: Path | None = None
    registry_username: str | None = None
    registry_password_file: Path | None = None
    registry_password: SecretStr | None = _setting(None, flag=False)
