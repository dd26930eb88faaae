"""The short rounds of each row of the campaigns; `make campaign` does the long ones."""

import os
from pathlib import Path

import pytest

from tests.campaign.campaign import CAMPAIGNS, Row, rows_of
from tests.campaign.chaos import faketime
from tests.helpers.broker import need_broker
from tests.helpers.missing import leave_out

ROWS = {f"{name}-{row.name}": row for name in CAMPAIGNS for row in rows_of(name)}


# The client library drops a connection that the broker has ended, without closing it, if a request
# comes before it notices; the crawler of these tests is such a client.
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_no_promise_is_broken_by(row: Row, tmp_path: Path) -> None:
    if row.needs == "broker":
        need_broker()
    if row.needs == "faketime" and faketime() is None:
        leave_out("libfaketime", ".ci/tools campaign, as root")
    if row.needs == "root" and os.geteuid():
        leave_out("the right to mount", "run as root")
    assert row.run(row.short, 1, tmp_path) == []
