"""Sign pages by what is known of their sites: the text of a page depends on the pages before it.

A batch is read twice: first for its blocks, which the table of sites learns in its turn, then for
its text, with what the table says of each block. Reading twice takes a third of the time of
signing; keeping what was read would take ten times the memory of the pages.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from streamer.sketch.signer import NativeSigner, Signatures
from streamer.sketch.site_memory import SiteKeys, SiteMemory, SiteTables
from streamer.text.furniture import PageBlocks
from streamer.text.scan import Bytes
from streamer.text.visible import Buffer


@dataclass(frozen=True, slots=True)
class SiteSigner:
    """Sign pages of sites; one instance a thread.

    `repeats_of` returns the repeats of a batch's blocks: as made, those that the pages would get if
    they were judged next.
    """

    signer: NativeSigner
    keys: SiteKeys
    repeats_of: Callable[[PageBlocks], Bytes]

    @classmethod
    def of(cls, signer: NativeSigner, sites: SiteTables, secret: bytes) -> SiteSigner:
        """Return a signer that changes nothing in the tables."""
        return cls(signer, SiteKeys(secret), sites.repeats)

    def in_turn(self, table: SiteMemory, turn: int) -> SiteSigner:
        """Return a signer for a batch that a table learns in its turn; 0: it is judged next."""
        learn = partial(table.learn, turn) if turn else table.learn_judged
        return replace(self, repeats_of=learn)

    def learn(self, bodies: Sequence[Buffer], flags: Sequence[int], urls: Sequence[bytes]) -> None:
        """Have a table learn pages without signing them."""
        self.repeats_of(self._list_blocks(bodies, flags, urls))

    def sign(self, bodies: Sequence[Buffer], flags: Sequence[int]) -> Signatures:
        """Sign `bodies` (UTF-8 as `flags` say: text/visible.py) that are of no site."""
        return self.sign_pages(bodies, flags, [b""] * len(bodies))

    def sign_pages(
        self, bodies: Sequence[Buffer], flags: Sequence[int], urls: Sequence[bytes]
    ) -> Signatures:
        """Sign bodies as `sign`, of pages with these URLs."""
        found = self._list_blocks(bodies, flags, urls)
        return self.signer.sign(bodies, flags, (self.repeats_of(found), found.ends))

    def repeats(self, body: Buffer, flags: int, url: bytes) -> Bytes:
        """Return on how many other pages of its site each scored block of a page was."""
        return self.repeats_of(self._list_blocks([body], [flags], [url]))

    def _list_blocks(
        self, bodies: Sequence[Buffer], flags: Sequence[int], urls: Sequence[bytes]
    ) -> PageBlocks:
        hosts, pages = self.keys.hosts(urls), self.keys.urls(urls)
        return self.signer.list_blocks(bodies, flags, hosts, pages)
