"""What judges the pages of one open index, whether files, a topic or a program brings them.

`Replay` and `Deduplicator` stand on it: chunks are prepared in threads, judged in order by the
engine's judge, and with each flush goes the catalogue, which has the position in each source.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from streamer.index.codec import Entry
from streamer.index.messages import Pages
from streamer.index.ports import Found
from streamer.pages.chunk import Chunk, PageBatch
from streamer.pages.parse import PageParser
from streamer.run.catalogue import Catalogue, pack_catalogue
from streamer.run.judge import Judge
from streamer.run.site_store import site_entries
from streamer.run.small_files import signed
from streamer.run.stages import OneAThread
from streamer.sketch.signer import PageSigner
from streamer.sketch.site_memory import SiteTables
from streamer.sketch.site_signer import SiteSigner

Item = TypeVar("Item")
Result = TypeVar("Result")


class SignedChunk(NamedTuple):
    """A chunk that is parsed and signed, and what the index had for its pages.

    `turn` is that in which it was signed, where signatures depend on sites; 0: it is judged next.
    """

    batch: PageBatch
    pages: Pages
    found: Found
    turn: int = 0


def _no_outputs() -> Mapping[str, tuple[int, str]]:
    return {}


@dataclass(slots=True)
class Engine:
    """The stages on one open index.

    `fingerprint` is what verdicts carry, `sites` what is known of sites, where anything is asked.
    """

    judge: Judge
    catalogue: Catalogue
    parser: PageParser
    signers: OneAThread[PageSigner]
    fingerprint: str
    sites: SiteTables | None = None

    def submit(
        self, pool: Executor, work: Callable[[Item, int], Result], item: Item
    ) -> Future[Result]:
        """Have a pool work on what comes next; `work` gets the turn for `prepare`, too."""
        if self.sites is None:
            return pool.submit(work, item, 0)
        table = item.table if isinstance(item, Chunk) else 0
        return self.sites.of(table).submit(pool, work, item)

    def prepare(self, chunk: Chunk, turn: int = 0) -> SignedChunk:
        """Parse, sign and look up a chunk; in any thread.

        Raises:
            StoreMismatch: other records are pages than the chunk says.
        """
        signer = self.signers.get()
        if self.sites is not None and isinstance(signer, SiteSigner):
            signer = signer.in_turn(self.sites.of(chunk.table), turn)
        batch, pages = signed(self.parser, signer, chunk)
        return SignedChunk(batch, pages, self.judge.look_up(pages), turn)

    def is_next(self, turn: int, table: int = 0) -> bool:
        """Return whether a chunk was signed for the pages before it, as it is judged next.

        If not, others were judged meanwhile, or are not: it has to be prepared again, without turn.
        """
        return self.sites is None or self.sites.of(table).settle(turn)

    def begin_flush(
        self,
        outputs: Callable[[], Mapping[str, tuple[int, str]]] = _no_outputs,
        notes: Sequence[Entry] = (),
        *,
        sweep: bool = False,
    ) -> None:
        """Begin to write the index and the catalogue in one atomic step; as `Judge.begin_flush`.

        `outputs` is called in another thread: it returns the length and the digest of each output
        by its key, once so much of them is on the disk.
        """
        with self.judge.whole_step():
            state, blocks = self.catalogue.to_flush()

            def owner_state() -> bytes:
                for key, (length, digest) in outputs().items():
                    state.outputs[key], state.digests[key] = length, digest
                return pack_catalogue(state)

            self.judge.begin_flush(
                owner_state, [*blocks, *notes, *site_entries(self.sites)], sweep=sweep
            )

    def flush_last(self) -> None:
        """Write all in this thread, where no other can be started any more."""
        state, blocks = self.catalogue.to_flush()
        self.judge.flush_last(pack_catalogue(state), [*blocks, *site_entries(self.sites)])
