"""What judges the pages of one open index, whether files, a topic or a program brings them.

`Replay` (replay.py) and `Deduplicator` (deduplicator.py) use it: chunks are prepared in threads,
judged in order by the engine's judge, and with each flush goes the catalogue, which has the
position in each source.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from streamer.index.codec import Entry
from streamer.index.messages import Pages
from streamer.index.ports import Found
from streamer.pages.chunk import Chunk, PageBatch
from streamer.pages.parse import PageParser
from streamer.run.catalogue import Catalogue, pack_catalogue
from streamer.run.judge import Judge
from streamer.run.site_store import make_index_signer, site_entries
from streamer.run.stages import OneAThread, parse, sign
from streamer.run.totals import count_lost_characters
from streamer.sketch.settings import SignatureSettings
from streamer.sketch.signer import PageSigner
from streamer.sketch.site_memory import SiteTables
from streamer.sketch.site_signer import SignedRepeats, SiteSigner

if TYPE_CHECKING:
    from streamer.run.revisits import Original  # which imports what writes WARC


class Prepared(NamedTuple):
    """A chunk that is parsed, signed and, for the judge, looked up.

    `found` is what the index had for its pages, `originals` what revisits need of it, `texts` what
    its pages say, as JSON strings by their refs; each where somebody asks. `turn` is that in which
    it was signed, where signatures depend on sites; 0: it is judged next.
    """

    chunk: Chunk
    batch: PageBatch
    pages: Pages
    turn: int
    found: Found | None = None
    originals: Mapping[int, Original] = MappingProxyType({})
    texts: Mapping[int, bytes] = MappingProxyType({})


Work = Callable[[Chunk, int], Prepared]
Synced = Callable[[], Mapping[str, tuple[int, str]]]  # the lengths and digests of outputs, by keys
ReadTexts = Callable[..., Sequence[bytes]]  # of a batch, its pages, and their repeats, if any


@dataclass(slots=True)
class Signing:
    """What parses and signs chunks ahead, in threads; `sites` are those that signatures need.

    `read_texts` returns the texts of a batch's pages, where these are wanted too.
    """

    parser: PageParser
    signers: OneAThread[PageSigner]
    sites: SiteTables | None = None
    read_texts: ReadTexts | None = None

    @classmethod
    def of(
        cls, parser: PageParser, signature: SignatureSettings, secret: bytes,
        sites: SiteTables | None,
    ) -> Signing:  # fmt: skip
        """Return what signs for an index with these settings."""
        return cls(parser, OneAThread(partial(make_index_signer, sites, signature, secret)), sites)

    def submit(self, pool: Executor, chunk: Chunk, work: Work | None = None) -> Future[Prepared]:
        """Have a pool prepare a chunk, or do `work`, which does more; in the order of judging."""
        if self.sites is None:
            return pool.submit(work or self.parse_and_sign, chunk, 0)
        return self.sites.of(chunk.table).submit(pool, work or self.parse_and_sign, chunk)

    def parse_and_sign(self, chunk: Chunk, turn: int = 0) -> Prepared:
        """Parse and sign a chunk; in any thread.

        Raises:
            StoreMismatch: as `stages.parse`.
        """
        signer, repeats = self.signers.get(), list[SignedRepeats]()
        if self.sites is not None and isinstance(signer, SiteSigner):
            signer = signer.in_turn(self.sites.of(chunk.table), turn).telling(repeats.append)
        batch = parse(self.parser, chunk)
        pages = sign(signer, 0 if chunk.parts else chunk.source, batch)
        texts = self.read_texts and self.read_texts(batch, pages, *repeats)
        batch.lost = count_lost_characters(batch.bodies)
        batch.bodies = ()  # nothing needs them any more
        if chunk.parts:
            pages.refs = chunk.refs()[pages.refs]
        prepared = Prepared(chunk, batch, pages, turn)
        if texts:
            prepared = prepared._replace(texts=dict(zip(pages.refs.tolist(), texts, strict=True)))
        return prepared

    def is_next(self, prepared: Prepared) -> bool:
        """Return whether a chunk was signed after exactly the pages that are judged before it.

        If not, it has to be prepared again, without a turn.
        """
        return self.sites is None or self.sites.of(prepared.chunk.table).settle(prepared.turn)


@dataclass(slots=True)
class Engine:
    """The stages on one open index; `fingerprint` is what verdicts carry."""

    judge: Judge
    catalogue: Catalogue
    signing: Signing
    fingerprint: str

    def prepare(self, chunk: Chunk, turn: int = 0) -> Prepared:
        """Parse, sign and look up a chunk; as `Signing.parse_and_sign`."""
        prepared = self.signing.parse_and_sign(chunk, turn)
        return prepared._replace(found=self.judge.shard.look_up(prepared.pages))

    def begin_flush(
        self, outputs: Synced = dict, notes: Sequence[Entry] = (), *, sweep: bool = False
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

            own = [*blocks, *notes, *site_entries(self.signing.sites)]
            self.judge.begin_flush(owner_state, own, sweep=sweep)

    def flush_last(self) -> None:
        """Write all in this thread, where no other can be started any more."""
        state, blocks = self.catalogue.to_flush()
        self.judge.flush_last(pack_catalogue(state), [*blocks, *site_entries(self.signing.sites)])
