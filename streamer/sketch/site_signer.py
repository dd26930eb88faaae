"""Sign pages by what is known of their sites: the text of a page depends on the pages before it.

A batch is read for its texts and blocks; the table of sites learns the blocks in the batch's turn,
and what it says of them chooses among the blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from streamer.sketch.scopes import Scopes
from streamer.sketch.signer import NativeSigner, Signatures
from streamer.sketch.site_memory import SiteKeys, SiteMemory, SiteTables
from streamer.text.scan import Bytes
from streamer.text.site_pages import PageBlocks, SitePages
from streamer.text.slices import Places
from streamer.text.visible import Buffer


class SignedRepeats(NamedTuple):
    """What a batch was signed by: repeats of its asked blocks, and where those of each page end."""

    repeats: Bytes
    ends: Places

    def of(self, page: int) -> Bytes:
        """Return the repeats of a page of the batch."""
        return self.repeats[self.ends[page - 1] if page else 0 : self.ends[page]]


@dataclass(frozen=True, slots=True)
class SiteSigner:
    """Sign pages of sites; one instance a thread.

    `repeats_of` returns the repeats of a batch's blocks: as made, those that the pages would get if
    they were judged next.
    """

    signer: NativeSigner
    keys: SiteKeys
    repeats_of: Callable[[PageBlocks], Bytes]
    scopes: Scopes | None = None

    @classmethod
    def of(cls, signer: NativeSigner, sites: SiteTables, secret: bytes) -> SiteSigner:
        """Return a signer that changes nothing in the tables."""
        scopes = Scopes(secret) if signer.settings.scope else None
        return cls(signer, SiteKeys(secret), sites.repeats, scopes)

    def in_turn(self, table: SiteMemory, turn: int) -> SiteSigner:
        """Return a signer for a batch that a table learns in its turn; 0: it is judged next."""
        learn = partial(table.learn, turn) if turn else table.learn_judged
        return replace(self, repeats_of=learn)

    def telling(self, tell: Callable[[SignedRepeats], object]) -> SiteSigner:
        """Return a signer that tells the repeats of each batch, too."""

        def repeats_of(pages: PageBlocks) -> Bytes:
            found = self.repeats_of(pages)
            tell(SignedRepeats(found, pages.ends))
            return found

        return replace(self, repeats_of=repeats_of)

    def learn(self, bodies: Sequence[Buffer], flags: Sequence[int], urls: Sequence[bytes]) -> None:
        """Have a table learn pages without signing them."""
        self.repeats_of(self._read(bodies, flags, urls).blocks)

    def sign(self, bodies: Sequence[Buffer], flags: Sequence[int]) -> Signatures:
        """Sign `bodies` (UTF-8 as `flags` say: text/visible.py) that are of no site."""
        return self.sign_pages(bodies, flags, [b""] * len(bodies))

    def sign_pages(
        self,
        bodies: Sequence[Buffer],
        flags: Sequence[int],
        urls: Sequence[bytes],
        scopes: Sequence[bytes] = (),
    ) -> Signatures:
        """Sign bodies as `sign`, of pages with these URLs, and with scopes where pages have one.

        Raises:
            StoreMismatch: pages have a scope, and these do not.
        """
        pages = self._read(bodies, flags, urls)
        signed = self.signer.sign_read(pages, self.repeats_of(pages.blocks))
        return signed if self.scopes is None else self.scopes.mix(signed, scopes)

    def repeats(self, body: Buffer, flags: int, url: bytes) -> Bytes:
        """Return on how many other pages of its site each scored block of a page was."""
        return self.repeats_of(self._read([body], [flags], [url]).blocks)

    def _read(
        self, bodies: Sequence[Buffer], flags: Sequence[int], urls: Sequence[bytes]
    ) -> SitePages:
        return self.signer.read(bodies, flags, self.keys.hosts(urls), self.keys.urls(urls))
