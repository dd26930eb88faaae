"""Which methods an evaluation runs, as the command line names them.

NAME is a method or a preset. NAME+ACCEPT takes the keys of one and the decision of the other, as
Henzinger combined them. Either may be followed by parameters: `digests:variant=con:keywords=8`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from streamer.errors import SettingsError
from streamer.index.settings import IndexSettings
from streamer.sketch.registry import PRESETS, method_class, methods
from streamer.sketch.scheme import ACCEPT, choose
from streamer.sketch.settings import SignatureSettings

ALL = "all"
COMBINATIONS = ("simhash+minhash", "minhash+simhash")
COLLECTION = "collection"


class Selected(NamedTuple):
    """A method with everything that its pass needs."""

    name: str
    signature: SignatureSettings
    rules: IndexSettings


def select(names: Iterable[str], collection: Path | None = None) -> list[Selected]:
    """Return the methods of `names`; `all` stands for every method and both combinations.

    A method that weighs words takes them from the file `collection`, where there is one.

    Raises:
        SettingsError: there is no such method or parameter, or no name at all.
    """
    wanted: dict[str, None] = {}
    for given in names:
        for name in filter(None, given.split(",")):
            more = [*methods(), *COMBINATIONS] if name == ALL else [name]
            wanted.update(dict.fromkeys(more))
    if not wanted:
        raise SettingsError("No method is named; leave --methods out for all of them.")
    return [_selected(name, collection) for name in wanted]


def _selected(name: str, collection: Path | None) -> Selected:
    both, *options = name.split(":")
    first, _, accept = both.partition("+")
    preset = PRESETS.get(first)
    if collection is not None:
        own = preset.method if preset else first
        options = [*_collection_options(own, accept, collection), *options]
    signature = choose(both, options=options)
    return Selected(name, signature, _index_settings(signature))


def _collection_options(first: str, accept: str, collection: Path) -> list[str]:
    prefixes: Mapping[str, str] = {first: "", **({accept: ACCEPT} if accept else {})}
    return [
        f"{prefix}{COLLECTION}={collection}"
        for method, prefix in prefixes.items()
        if COLLECTION in method_class(method).defaults.model_fields
    ]


def _index_settings(signature: SignatureSettings) -> IndexSettings:
    return IndexSettings(
        threshold=signature.threshold,
        measure=signature.measure,
        shingles_min=signature.min_shingles,
    )
