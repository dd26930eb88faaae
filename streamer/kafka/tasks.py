"""Tasks that may not fail silently: what one raises goes to a function that ends the process."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

Fail = Callable[[BaseException], None]


@contextmanager
def fail_on_error(fail: Fail) -> Iterator[None]:
    """Give `fail` whatever is raised: the process may not go on then."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - whatever it is
        fail(error)


def begin_task(work: Coroutine[Any, Any, None], fail: Fail) -> asyncio.Task[None]:
    """Begin some work as a task of its own; `fail` is given what it raises."""

    async def run() -> None:
        with fail_on_error(fail):
            await work

    return asyncio.create_task(run())
