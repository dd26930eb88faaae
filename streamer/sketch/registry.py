"""Which methods there are: every subclass of Method in sketch/methods/, found by looking there.

A new method is a new file, and nothing else needs an edit. A preset is a method with options for a
purpose; its name goes wherever a method's name goes.
"""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, Final

from streamer.errors import SettingsError
from streamer.sketch import methods as _folder
from streamer.sketch.method import Method
from streamer.sketch.options import read_options
from streamer.sketch.settings import MIN_SHINGLES


@dataclass(frozen=True)
class MethodPreset:
    """A method with options and a threshold, for a purpose.

    `min_shingles` is how many distinct words or shingles a page must have to be compared.
    """

    method: str
    options: Mapping[str, str]
    threshold: float
    purpose: str
    min_shingles: int = MIN_SHINGLES


PRESETS: Final[Mapping[str, MethodPreset]] = {
    "short-texts": MethodPreset(
        "bottom_k",
        {"shingle_width": "2", "bands": "24", "rows": "2"},
        0.4,
        "Titles, comments and messages, where a changed word changes most shingles of five words.",
        min_shingles=3,
    ),
}


@cache
def methods() -> dict[str, type[Method[Any]]]:
    """Return the methods by name, in the order of names."""
    found: dict[str, type[Method[Any]]] = {}
    for module in pkgutil.iter_modules(_folder.__path__, _folder.__name__ + "."):
        for _, one in inspect.getmembers(import_module(module.name), inspect.isclass):
            if issubclass(one, Method) and "name" in vars(one):
                assert found.setdefault(one.name, one) is one, one.name
    return dict(sorted(found.items()))


def method_class(name: str) -> type[Method[Any]]:
    """Return the method of that name.

    Raises:
        SettingsError: there is none; the message lists those that there are.
    """
    if name in PRESETS:
        one = PRESETS[name].method
        raise SettingsError(f"{name} is a preset, which decides by itself; here, name {one}.")
    if name not in methods():
        names = ", ".join([*methods(), *PRESETS])
        raise SettingsError(f"There is no method {name}; there are {names}.")
    return methods()[name]


def method(name: str, parameters: Mapping[str, object], secret: bytes) -> Method[Any]:
    """Return the method with these parameters, the others at their defaults.

    Raises:
        SettingsError: there is no such method or parameter, or a value cannot be.
    """
    one = method_class(name)
    return one(read_options(one.defaults, parameters, f"the method {name}"), secret)
