"""The fold of a log, for an audit or a count."""

from pathlib import Path

from streamer.index.shard import Shard
from streamer.kafka.log_upkeep import FreshShard
from streamer.kafka.wire import unpack_record
from tests.helpers.audited_index import small_index
from tests.helpers.memory_index import MemoryLookup, said
from tests.helpers.signed_pages import BANDS


def test_a_fold_that_flushes_often_emits_the_same_and_its_memtable_is_small(tmp_path: Path) -> None:
    index = small_index(pages=400)
    whole = Shard(BANDS, MemoryLookup())
    fresh = FreshShard(tmp_path, BANDS, None)
    fresh._head_pages = 8  # noqa: SLF001 - else a flush takes a thousand times as many
    for data in index.log:
        log_record = unpack_record(data)
        assert said(fresh.take(log_record)) == said(whole.apply(log_record))
        assert fresh.shard.unflushed_rows < 8
    fresh.close()
    assert whole.unflushed_rows > 100
