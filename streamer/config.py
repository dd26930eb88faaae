"""All settings, in one frozen tree: flags before environment before a file before defaults.

Every setting `name` can be given as a flag, as the environment variable STREAMER_NAME, or in a TOML
file. Nothing needs to be set. The tree is built at the edge; each part of the program gets only the
part that it needs.
"""

from __future__ import annotations

import os
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, SecretStr, ValidationError
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from streamer.errors import SettingsError
from streamer.index.head import HEAD_PAGES
from streamer.index.types import IndexSettings
from streamer.sketch.settings import NATIVE, SignatureSettings


def _split(value: object) -> object:
    return tuple(value.split()) if isinstance(value, str) else value


# A list in the file; in the environment, words with spaces between.
Words = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split)]


class Settings(BaseSettings):
    """The settings of a run; see each field's description."""

    model_config = SettingsConfigDict(frozen=True, extra="forbid", env_prefix="STREAMER_")
    config_file: ClassVar[Path | None] = None

    threshold: float = Field(
        0.8, gt=0, le=1, description="least similarity of duplicates; not set: the method's"
    )
    method: str = Field(NATIVE, description="method or preset; `streamer methods` lists them")
    accept: str = Field("", description="method that decides on the candidates of `method`")
    method_option: Words = Field((), description="parameters of the method, as name=value")
    canonical: Words = Field((), description="options of the canonical form, as name=value")
    shingle_width: int = Field(5, ge=1, le=32, description="tokens a shingle")
    bands: int = Field(14, ge=1, le=48, description="band keys a page")
    rows: int = Field(6, ge=1, le=32, description="min-hashes a band")
    min_shingles: int = Field(
        5, ge=1, le=32, description="fewer distinct ones match equal content only"
    )
    bucket_max: int = Field(
        64, ge=1, le=4096, description="pages under one band key; the earliest stay"
    )
    candidates_max: int = Field(1024, ge=1, le=4096, description="candidates verified a page")
    shards: int = Field(1, ge=1, le=48, description="shards that the bands are split over")
    key_file: Path | None = Field(None, description="file with the secret of all hashes")
    threads: int = Field(
        0, ge=0, le=256, description="threads that sign pages; 0: one more than cores"
    )
    page_bytes_max: int = Field(16 << 20, ge=1024, description="bytes of a record, and of its body")
    head_pages: int = Field(HEAD_PAGES, ge=1, description="kept pages in memory before a flush")

    brokers: str = Field("localhost:9092", description="HOST:PORT of some brokers, with commas")
    input_topic: str = Field("pages", description="topic of crawled pages")
    index_name: str = Field("streamer", description="how the topics and groups of an index begin")
    role: Literal["all", "sign", "index"] = Field("all", description="what a worker does")
    own_shards: str = Field("", description="shards that a worker owns, as 0,2; empty: all")
    replicas: int = Field(1, ge=1, le=32, description="copies of topics that are made")
    verdict_partitions: int = Field(
        0, ge=0, description="partitions of the verdicts; 0: as many as the pages"
    )
    window: int = Field(65_536, ge=1000, description="open pages at which signing pauses")
    instance_id: str = Field(
        "", description="name that a worker keeps over restarts; so these cause no rebalance"
    )
    accept_loss: bool = Field(
        default=False, description="go on where messages have expired before they were read"
    )
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = Field(
        "PLAINTEXT", description="how brokers are talked to"
    )
    ssl_cafile: Path | None = Field(None, description="certificates that brokers may show")
    ssl_certfile: Path | None = Field(None, description="certificate to show to brokers")
    ssl_keyfile: Path | None = Field(None, description="its private key")
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] | None = Field(
        None, description="how a password is proved"
    )
    sasl_username: str | None = Field(None, description="user to log in as")
    sasl_password: SecretStr | None = Field(None, description="its password")
    sasl_password_file: Path | None = Field(None, description="file with the password")
    health_host: str = Field("127.0.0.1", description="address of the health port")
    health_port: int = Field(8080, ge=0, le=65_535, description="health and metrics; 0: none")
    log_format: Literal["json", "console"] = Field("json", description="form of a worker's logs")
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="least level of a worker's logs"
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
        """Order the sources: flags, environment, file."""
        del dotenv_settings, file_secret_settings
        file = TomlConfigSettingsSource(settings_cls, cls.config_file)
        return init_settings, env_settings, file

    @cached_property
    def signature(self) -> SignatureSettings:
        """Return what shapes a signature.

        Raises:
            SettingsError: there is no such method, or it cannot take what is set.
        """
        if self._is_native:
            return SignatureSettings(
                shingle_width=self.shingle_width, bands=self.bands, rows=self.rows
            )
        from streamer.sketch.scheme import choose  # noqa: PLC0415 - imports every method

        numbers = ("shingle_width", "bands", "rows")
        return choose(
            self.method,
            accept=self.accept,
            options=self.method_option,
            canonical=self.canonical,
            flags={n: getattr(self, n) for n in numbers if n in self.model_fields_set},
        )

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
            shingles_min=self.min_shingles if "min_shingles" in given else own.min_shingles,
            bucket_max=self.bucket_max,
            candidates_max=self.candidates_max,
            shards=self.shards,
        )

    @property
    def password(self) -> str | None:
        """Return the password for the brokers, of its file if there is one.

        Raises:
            SettingsError: the file cannot be read, or both are given.
        """
        if self.sasl_password_file is None:
            return self.sasl_password.get_secret_value() if self.sasl_password else None
        if self.sasl_password is not None:
            raise SettingsError("Give sasl_password or sasl_password_file, not both.")
        try:
            return self.sasl_password_file.read_text(encoding="utf-8").strip()
        except (OSError, ValueError) as error:
            raise SettingsError(
                f"The password file {self.sasl_password_file} cannot be read: {error}."
            ) from error

    @property
    def signing_threads(self) -> int:
        """Return the number of signing threads: while one waits for the disk, another goes on."""
        return self.threads or len(os.sched_getaffinity(0)) + 1


def load_settings(config_file: Path | None = None, **flags: Any) -> Settings:  # noqa: ANN401 - checked by the model
    """Return the settings; flags that are None were not given.

    Raises:
        SettingsError: one sentence that names the setting and what it may be.
    """

    class FromFile(Settings):
        pass

    FromFile.config_file = config_file
    if config_file is not None and not config_file.is_file():
        raise SettingsError(f"There is no settings file {config_file}.")
    try:
        settings = FromFile(**{name: value for name, value in flags.items() if value is not None})
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"]))
        raise SettingsError(
            f"The setting {name} = {first['input']!r} cannot be: {first['msg']}."
        ) from error
    except ValueError as error:
        raise SettingsError(f"The settings file {config_file} cannot be read: {error}.") from error
    if settings.shards > settings.signature.bands:
        raise SettingsError(
            f"{settings.shards} shards need as many bands, there are {settings.signature.bands}."
        )
    return settings
