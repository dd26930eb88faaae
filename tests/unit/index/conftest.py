"""Rules of an index are tried with its pages in the memtable, and in the store."""

import pytest


@pytest.fixture(params=[False, True], ids=["in the memtable", "in the store"])
def flush(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)
