"""Libraries of extras: who needs none of them need not have installed them.

They are imported when something of them is asked for. A module that wants one of them with its
types imports it `if TYPE_CHECKING`, and makes an `Extra` of it else.
"""

import importlib
from typing import Any


class Extra:
    """Imports the module of this name when it is used."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:  # noqa: ANN401 - whatever the module has
        """Return what the module has; raise ImportError where it is not installed."""
        if attribute.startswith("__"):  # as tools ask any object, which shall import nothing
            raise AttributeError(attribute)
        return getattr(importlib.import_module(self._name), attribute)


pa: Any = Extra("pyarrow")
parquet: Any = Extra("pyarrow.parquet")
