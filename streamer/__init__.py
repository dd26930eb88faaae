"""Streaming near-duplicate detection: crawled pages in, one verdict a page out.

What this module has is the interface for programs; all else is internal and may change.

    from streamer import Deduplicator

    with Deduplicator("my-index") as dedup:
        for verdict in dedup.add(pages):
            ...
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # a name is imported when it is first used: numba alone takes half a second
    from streamer.config import Settings as Settings
    from streamer.deduplicator import Deduplicator as Deduplicator
    from streamer.errors import InputError as InputError
    from streamer.errors import InvalidPage as InvalidPage
    from streamer.errors import SettingsError as SettingsError
    from streamer.errors import StoreDamaged as StoreDamaged
    from streamer.errors import StoreMismatch as StoreMismatch
    from streamer.errors import StoreUnavailable as StoreUnavailable
    from streamer.errors import StreamerError as StreamerError
    from streamer.kafka.follow import follow as follow
    from streamer.model import DeadLetter as DeadLetter
    from streamer.model import KeptMatch as KeptMatch
    from streamer.model import Location as Location
    from streamer.model import Page as Page
    from streamer.model import Rejected as Rejected
    from streamer.model import Representative as Representative
    from streamer.model import Verdict as Verdict
    from streamer.pages.program_pages import AnyPage as AnyPage
    from streamer.run.page_texts import ExtractedText as ExtractedText
    from streamer.run.page_texts import TextBlock as TextBlock
    from streamer.run.page_texts import extract as extract
    from streamer.run.verdict_files import read_verdicts as read_verdicts
    from streamer.sketch.text_signer import Signature as Signature
    from streamer.sketch.text_signer import Signer as Signer
    from streamer.version import __version__ as __version__

_NAMES = {
    "config": "Settings",
    "deduplicator": "Deduplicator",
    "errors": "InputError InvalidPage SettingsError StreamerError "
    "StoreDamaged StoreMismatch StoreUnavailable",
    "kafka.follow": "follow",
    "model": "DeadLetter KeptMatch Location Page Rejected Representative Verdict",
    "pages.program_pages": "AnyPage",
    "run.page_texts": "ExtractedText TextBlock extract",
    "run.verdict_files": "read_verdicts",
    "sketch.text_signer": "Signature Signer",
    "version": "__version__",
}
_MODULE_OF = {name: module for module, names in _NAMES.items() for name in names.split()}
__all__ = list(_MODULE_OF)


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever has this name
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'streamer' has no attribute {name!r}")
    value = getattr(import_module(f"streamer.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
