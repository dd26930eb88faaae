"""Streaming near-duplicate detection: crawled pages in, one verdict a page out.

What this module has is the interface for programs; all else is internal and may change.

    from streamer import Deduplicator

    with Deduplicator("my-index") as dedup:
        for verdict in dedup.add(pages):
            ...
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from streamer.version import __version__

if TYPE_CHECKING:  # a name is imported when it is first used: numba alone takes half a second
    from streamer.config import Settings
    from streamer.deduplicator import Deduplicator
    from streamer.errors import (
        InputError,
        InvalidPage,
        SettingsError,
        StoreDamaged,
        StoreMismatch,
        StoreUnavailable,
        StreamerError,
    )
    from streamer.kafka.follow import follow
    from streamer.model import (
        DeadLetter,
        KeptMatch,
        Location,
        Page,
        Rejected,
        Representative,
        Verdict,
    )
    from streamer.pages.program_pages import AnyPage
    from streamer.run.page_texts import ExtractedText, TextBlock, extract
    from streamer.run.verdict_files import read_verdicts
    from streamer.sketch.text_signer import Signature, Signer

_MODULES = {
    "config": ("Settings",),
    "deduplicator": ("Deduplicator",),
    "errors": (
        "InputError",
        "InvalidPage",
        "SettingsError",
        "StoreDamaged",
        "StoreMismatch",
        "StoreUnavailable",
        "StreamerError",
    ),
    "kafka.follow": ("follow",),
    "model": (
        "DeadLetter",
        "KeptMatch",
        "Location",
        "Page",
        "Rejected",
        "Representative",
        "Verdict",
    ),
    "pages.program_pages": ("AnyPage",),
    "run.page_texts": ("ExtractedText", "TextBlock", "extract"),
    "run.verdict_files": ("read_verdicts",),
    "sketch.text_signer": ("Signature", "Signer"),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "AnyPage",
    "DeadLetter",
    "Deduplicator",
    "ExtractedText",
    "InputError",
    "InvalidPage",
    "KeptMatch",
    "Location",
    "Page",
    "Rejected",
    "Representative",
    "Settings",
    "SettingsError",
    "Signature",
    "Signer",
    "StoreDamaged",
    "StoreMismatch",
    "StoreUnavailable",
    "StreamerError",
    "TextBlock",
    "Verdict",
    "__version__",
    "extract",
    "follow",
    "read_verdicts",
]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever has this name
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'streamer' has no attribute {name!r}")
    value = getattr(import_module(f"streamer.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
