"""What settings make: parser and reader of pages, an open index, the engine that judges with them.

`Deduplicator` and the commands have theirs from here, so the same settings mean the same to both.
"""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from streamer.config import Settings
from streamer.errors import SettingsError, StoreUnavailable
from streamer.pages.folders import FolderChoice
from streamer.pages.mapping import DEFAULT_MAPPING, PRESETS, RAW_MAPPING, parse_fields
from streamer.pages.parse import PageParser
from streamer.pages.schema_registry import RegistryAddress, SchemaRegistry
from streamer.run.catalogue import Catalogue
from streamer.run.engine import Engine, Signing
from streamer.run.index_folder import IndexFolder, own_key
from streamer.run.judge import JudgeOptions, replay_judge
from streamer.run.reading import PageReader
from streamer.run.reference_indexes import ReferenceIndexes
from streamer.run.site_store import read_sites
from streamer.stored.witness import NAME as WITNESS


def page_parser(settings: Settings) -> PageParser:
    """Return the parser that `--preset`, `--fields` and `--carry` ask for.

    Raises:
        SettingsError: one of them cannot be used, or both mappings are given.
    """
    if settings.mapping and settings.fields:
        raise SettingsError(f"Give --preset {settings.mapping} or --fields, not both.")
    if settings.mapping and settings.value == "body":
        raise SettingsError(
            f"The preset {settings.mapping} is of messages in JSON, and --value body says that "
            "there are none. Leave one of both out."
        )
    mapping = RAW_MAPPING if settings.value == "body" else DEFAULT_MAPPING
    if settings.mapping:
        mapping = PRESETS[settings.mapping]
    elif settings.fields:
        mapping = parse_fields(settings.fields, settings.value)
    if settings.track_changes and not mapping.url:
        raise SettingsError("--track-changes needs URLs. Name where they are in --fields.")
    try:
        return PageParser(
            mapping, settings.carry, settings.page_bytes_max, settings.site_rules, settings.text,
            _registry(settings), settings.scope,
        )  # fmt: skip
    except ValueError as error:
        raise SettingsError(f"--carry or --scope cannot be used: {error}.") from error


def reader_of(settings: Settings, parser: PageParser) -> PageReader:
    """Return what reads pages of files as settings say."""
    limit, prefix, base = settings.page_bytes_max, settings.url_prefix, settings.cdx_base
    choice = FolderChoice(settings.include, settings.exclude, parser.bodies)
    return PageReader(parser, limit, prefix, cdx_base=base, choice=choice)


def _registry(settings: Settings) -> SchemaRegistry | None:
    """Return the client of the schema registry, if there is one."""
    login = settings.registry_username, settings.password("registry_password")
    if settings.registry_url:
        address = RegistryAddress(settings.registry_url, settings.registry_cafile, *login)
        return SchemaRegistry(address)
    if any((*login, settings.registry_cafile)):
        raise SettingsError("The settings of a schema registry need --registry-url too. Give it.")
    return None


@contextmanager
def open_index(path: Path | None, settings: Settings) -> Iterator[IndexFolder]:
    """Open an index; what was made of it goes again unless a flush has begun.

    None stands for a temporary one, which goes at the end.
    """
    if path is None:
        with _temporary_folder() as below, open_index(below / "index", settings) as index:
            yield index
        return
    before = set(path.iterdir()) if path.is_dir() else set()
    with removing_empty_folders(path):
        folder = IndexFolder.open(path, settings.signature, settings.key_file)
        try:
            yield folder
        finally:
            made = {own_key(path), path / WITNESS} - before
            folder.store.close(remove=() if folder.store.was_written else made)


@contextmanager
def _temporary_folder() -> Iterator[Path]:
    # Python's own TemporaryDirectory is removed by a forked process too, when that ends.
    try:
        folder = tempfile.mkdtemp(prefix="streamer-")
    except OSError as error:
        raise StoreUnavailable(
            f"No temporary index can be made: {error.strerror or error}. Set TMPDIR to a folder "
            "that can be written, or name an index."
        ) from error
    try:
        yield Path(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def open_engine(
    folder: IndexFolder,
    catalogue: Catalogue,
    settings: Settings,
    parser: PageParser,
    references: ReferenceIndexes,
) -> Iterator[Engine]:
    """Start what judges pages in an open index with this catalogue; its threads end with it."""
    options = JudgeOptions(
        head_pages=settings.head_pages, index_memory=settings.index_memory_bytes,
        references=references,
    )  # fmt: skip
    judge = replay_judge(folder, references.name_in(settings.index), options)
    sites = read_sites(folder.store, settings.signature)
    signing = Signing.of(parser, settings.signature, folder.secret, sites)
    try:
        yield Engine(judge, catalogue, signing, folder.fingerprint)
    finally:
        judge.stop()


@contextmanager
def removing_empty_folders(path: Path) -> Iterator[None]:
    """Remove the folders at and above `path` that were made meanwhile and are empty."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    try:
        yield
    finally:
        with suppress(OSError):  # the first that is not empty
            for folder in missing:
                folder.rmdir()
