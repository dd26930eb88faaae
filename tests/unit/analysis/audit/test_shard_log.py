"""The fold of a log under audit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from streamer.analysis.audit.shard_log import FreshShard, item_digests
from streamer.index.messages import Decisions
from streamer.index.shard import Shard
from streamer.kafka.wire import unpack_record
from tests.helpers.audited_index import small_index
from tests.helpers.shard_cases import SAME
from tests.helpers.shard_network import MemoryLookup, said
from tests.helpers.signed_pages import BANDS as SIGNED_BANDS
from tests.helpers.signed_pages import made_pages


def test_a_fold_that_flushes_often_emits_the_same_and_keeps_its_head_small(tmp_path: Path) -> None:
    index = small_index(pages=400)
    whole = Shard(0, 1, SIGNED_BANDS, MemoryLookup())
    fresh = FreshShard(tmp_path, 0, 1, SIGNED_BANDS, head_pages=8)
    for data in index.logs[0]:
        log_record = unpack_record(data)
        assert said(fresh.take(log_record)) == said(whole.apply(log_record))
        assert fresh.shard.kept_in_memtable < 8
    fresh.close()
    assert whole.kept_in_memtable > 100


def test_a_digest_of_an_item_covers_all_that_a_shard_makes_use_of() -> None:
    refs, kept = np.array([7, 8], np.uint64), np.array([True, False])
    decisions = [item_digests(Decisions(refs, each)).tolist() for each in (kept, ~kept)]
    assert len({digest for each in decisions for digest in each}) == 4
    pages = made_pages([list(range(SIGNED_BANDS + 1))], [SAME])
    others = []
    for name in ("refs", "keys", "sketches", "distinct", "tokens", "text_bytes"):
        others.append(pages.take([0]))
        getattr(others[-1], name).reshape(-1)[-1] += 1
    others += [replace(pages, urls=[b"o"]), replace(pages, carried=[b"o"])]
    others += [replace(pages, message_keys=[b""]), replace(pages, headers=[[("a", b"")]])]
    others += [replace(pages, renews=np.array([7], np.uint64))]
    found = [item_digests(each).tolist() for each in (pages, *others)]
    assert len(set(map(tuple, found))) == 12
    assert item_digests(pages).tolist() == found[0]
