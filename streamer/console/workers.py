"""What workers say of themselves at their health ports: memory, index, flush, snapshot.

Brokers do not know this, so the console asks the workers that it is given the addresses of. One
that does not answer is shown as such, and delays nothing but the figures of the others.
"""

from __future__ import annotations

import asyncio
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from aiohttp import ClientError, ClientResponse, ClientSession, ClientTimeout
from prometheus_client.parser import text_string_to_metric_families

from streamer.console.state import WorkerFigures, moment
from streamer.errors import SettingsError

_SECONDS = 2.0  # for an answer
_BYTES_MAX = 4 << 20  # of it
_COUNT_MAX = 1 << 60  # which JSON has room for
_ADDRESS = re.compile(r"https?://[^/?#@\s]+")


def checked_addresses(given: Iterable[str]) -> list[str]:
    """Return the addresses of workers, without a path.

    Raises:
        SettingsError: one is none.
    """
    found = [address.rstrip("/") for address in given]
    for address in found:
        if not _ADDRESS.fullmatch(address):
            raise SettingsError(
                f"--worker {address} is no address of a health port. Give one as "
                "http://127.0.0.1:8080."
            )
    return found


class WorkerWatch:
    """Asks workers again and again, in a thread of its own: a silent one delays no caller.

    Attributes:
        figures: what they have answered last, in the order of their addresses.
    """

    def __init__(self, addresses: Sequence[str]) -> None:
        self.figures: list[WorkerFigures] = []
        self._addresses = addresses
        self._thread = ThreadPoolExecutor(1)
        self._asked: Future[list[WorkerFigures]] | None = None

    def look(self) -> None:
        """Take the answers if all have come, and ask again."""
        if self._asked is not None:
            if not self._asked.done():
                return
            self.figures = self._asked.result()
        if self._addresses:
            self._asked = self._thread.submit(asyncio.run, ask_workers(self._addresses))

    def close(self) -> None:
        """Ask no more."""
        self._thread.shutdown(wait=False)


async def ask_workers(addresses: Sequence[str]) -> list[WorkerFigures]:
    """Return what the workers say, in this order; ask them all at once."""
    async with ClientSession(timeout=ClientTimeout(total=_SECONDS)) as session:
        return [*await asyncio.gather(*(_ask(session, address) for address in addresses))]


async def _ask(session: ClientSession, address: str) -> WorkerFigures:
    try:
        async with session.get(f"{address}/metrics", allow_redirects=False) as response:
            response.raise_for_status()
            return figures_in(address, (await _body(response)).decode())
    except (ClientError, TimeoutError, OSError) as error:
        return WorkerFigures(address, f"It does not answer ({error or 'in time'}).")
    except (ValueError, ArithmeticError, LookupError) as error:  # of the parser, too
        return WorkerFigures(address, f"Its answer cannot be read ({error}): is it a worker?")


async def _body(response: ClientResponse) -> bytes:
    body = bytearray()
    async for part in response.content.iter_chunked(1 << 16):
        body += part
        if len(body) > _BYTES_MAX:
            raise ValueError("it is too long")
    return bytes(body)


def figures_in(address: str, text: str) -> WorkerFigures:
    """Return the figures in what a worker's /metrics answers.

    Raises:
        ValueError: it has none of ours, or one that is no count.
    """
    sums: defaultdict[str, float] = defaultdict(float)
    newest = 0.0
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            sums[sample.name] += sample.value
            if sample.name == "streamer_shard_snapshot_timestamp_seconds":
                newest = max(newest, sample.value)
    if "streamer_ready" not in sums:
        raise ValueError("no streamer_ready")

    def of_shards(name: str) -> int | None:
        full = f"streamer_shard_{name}"
        return _count(sums[full]) if full in sums else None

    position, flushed = of_shards("log_position"), of_shards("flushed_offset")
    memory = sums.get("process_resident_memory_bytes")
    return WorkerFigures(
        address, "", sums["streamer_ready"] > 0,
        None if memory is None else _count(memory), _count(sums["streamer_memory_limit_bytes"]),
        of_shards("kept_pages"), of_shards("index_bytes"), of_shards("disk_free_bytes"),
        None if position is None or flushed is None else max(0, position - flushed),
        moment(newest) if newest else "",
    )  # fmt: skip


def _count(figure: float) -> int:
    if not abs(figure) < _COUNT_MAX:  # neither infinite nor NaN
        raise ValueError(f"{figure} is no count")
    return int(figure)
