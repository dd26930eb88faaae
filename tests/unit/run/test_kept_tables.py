"""The refs of a table's rows, and the files that these are in."""

from pathlib import Path
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from streamer.model import page_ref
from streamer.pages.files import Source
from streamer.run import kept_tables
from streamer.run.catalogue import Catalogue
from streamer.run.kept_tables import KeptTable, pack_refs

PLACES = st.sets(st.tuples(st.integers(0, 2), st.integers(0, 2**40 - 1)), max_size=20)


def test_a_ref_of_a_table_has_eight_bytes() -> None:
    assert pack_refs(np.array([page_ref(1, 2)], np.uint64)) == b"\2\0\0\0\0\1\0\0"


@given(PLACES, st.randoms(use_true_random=False), st.integers(1, 4))
def test_rows_come_by_their_files_ascending_whatever_the_order_of_verdicts(
    tmp_path_factory: pytest.TempPathFactory, places: set[tuple[int, int]], draw: object, step: int
) -> None:
    folder = tmp_path_factory.mktemp("refs")
    shuffled = sorted(places, key=lambda _place: draw.random())  # type: ignore[attr-defined]
    refs = folder / "clean.parquet.rows"
    catalogue = Catalogue()
    for number in range(3):
        path = folder / f"{number}.parquet"
        parquet.write_table(pa.table({"url": ["u"]}), path)
        catalogue.enter(Source(str(path), is_regular=True))
    data = pack_refs(np.array([page_ref(*place) for place in shuffled], np.uint64))
    refs.write_bytes(data + b"a part that no flush knows")
    table = KeptTable("kept", str(folder / "clean.parquet"), str(refs), catalogue)
    with mock.patch.object(kept_tables, "_STEP_REFS", step):
        chosen = table.chosen(len(data))
        found = [(int(Path(own.name).stem), own_rows.tolist()) for own, own_rows in chosen]
    assert found == [
        (source, rows)
        for source in range(3)
        if (rows := sorted(row for own, row in places if own == source))
    ]
