"""The interpreter's garbage collector, set for a process that handles millions of small objects.

What a page needs has no cycles and goes by its reference count. Yet each collection of the oldest
generation looks at all that imports and compiled kernels have made, some hundred thousand objects:
a twelfth of the time of a run. So what is there at the start is left out for good, and collections
come less often; cycles that arise later are still found.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

YOUNG_OBJECTS = 50_000  # between collections of the youngest; Python's default is 700
YOUNG_COLLECTIONS = 20  # between those of the middle generation
MIDDLE_COLLECTIONS = 50  # between those of the oldest


def freeze_gc() -> None:
    """Take all objects that are there out of collection; to be called once all is set up."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, YOUNG_COLLECTIONS, MIDDLE_COLLECTIONS)


@contextmanager
def pause_collections() -> Iterator[None]:
    """Import without the collector, which would go through all modules again and again.

    What is there afterwards stays: later collections leave it out.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if enabled:
            gc.enable()
