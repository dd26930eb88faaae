"""docs/upgrade.md names the formats and versions that the code has."""

from __future__ import annotations

from pathlib import Path

from streamer.index.codec import FORMAT, READ_FORMATS
from streamer.index.settings import MACHINE_VERSION, IndexSettings
from streamer.kafka.wire import READ_VERSIONS, WIRE_VERSION

PAGE = (Path(__file__).parents[2] / "docs" / "upgrade.md").read_text(encoding="utf-8")


def several(numbers: tuple[int, ...]) -> str:
    return f"{', '.join(map(str, numbers[:-1]))} and {numbers[-1]}"


def test_the_page_names_the_formats_that_are_written_and_read() -> None:
    assert f"| index on disk | format {FORMAT} | {several(READ_FORMATS)} |" in PAGE
    assert f"| records of the logs | version {WIRE_VERSION} | {several(READ_VERSIONS)} |" in PAGE
    plain = IndexSettings().version
    near = IndexSettings(near_misses=0.1).version
    main = IndexSettings(fallback_threshold=0.8).version
    across = IndexSettings(across_scopes=True).version
    inside = IndexSettings(contained=0.9).version
    renews = IndexSettings(renew_on_match=True).version
    versions = (
        f"version {MACHINE_VERSION} with `--prefer`, {renews} with `--renew-on-match`, "
        f"{inside} with `--contained`, "
        f"{across} with `--scope-not`, "
        f"{main} with `--text main`, "
        f"{near} with `--near-misses`, else {plain}"
    )
    assert f"| rules in the logs | {versions} | 1 to {MACHINE_VERSION} |" in PAGE
