"""A lock that many threads share, and one has alone: look-ups share the store, a change has them.

Who waits to have it alone comes before others that would share it, so that a change need not wait
for a moment without look-ups.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class SharedLock:
    """A readers-writer lock; a thread must not take it twice."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._sharing = 0
        self._waiting = 0

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Hold it together with others that share it."""
        with self._changed:
            while self._waiting:
                self._changed.wait()
            self._sharing += 1
        try:
            yield
        finally:
            with self._changed:
                self._sharing -= 1
                self._changed.notify_all()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Hold it while nobody shares it."""
        with self._changed:
            self._waiting += 1
            try:
                while self._sharing:
                    self._changed.wait()
                yield
            finally:
                self._waiting -= 1
                self._changed.notify_all()
