"""The client library for code that waits: its event loop turns in a thread of its own.

What is fetched arrives while the caller computes. Every wait has an end: brokers that say nothing
for PATIENCE_S end the run with a message instead of keeping it for ever.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Self, TypeVar

from aiokafka.errors import KafkaError, OffsetOutOfRangeError

from streamer.errors import InputError, StreamerError

PATIENCE_S = 60.0

Result = TypeVar("Result")


class WaitingLoop:
    """An event loop to wait on; a context manager."""

    def __enter__(self) -> Self:
        started: concurrent.futures.Future[None] = concurrent.futures.Future()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._turn(started)))
        self._thread.start()
        started.result()
        return self

    async def _turn(self, started: concurrent.futures.Future[None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._ended = asyncio.Event()
        started.set_result(None)
        await self._ended.wait()

    def run(self, work: Coroutine[Any, Any, Result], patience_s: float = PATIENCE_S) -> Result:
        """Wait for `work`, done in the loop, and return its result.

        Raises:
            InputError: messages asked for are there no longer.
            StreamerError: the brokers refuse, or do not answer in time.
        """
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result(patience_s)
        except OffsetOutOfRangeError as error:
            raise InputError(
                f"Messages have expired while they were read: {error}. Run it again over what is "
                "left, with a new --index."
            ) from error
        except KafkaError as error:
            raise StreamerError(f"The brokers refused: {error!r}.") from error
        except TimeoutError as error:
            raise StreamerError(
                f"The brokers have sent nothing for {patience_s:.0f} seconds. Check that they "
                "run; the same command goes on if there is an --index."
            ) from error
        finally:
            future.cancel()  # of no effect on one that is done

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Cancel what is still going on, and end the thread."""
        del kind, error, trace
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join()
