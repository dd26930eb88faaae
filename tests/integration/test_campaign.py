"""A slice of each campaign: `make campaign` does the whole of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.campaign.campaign import Campaign, campaigns
from tests.campaign.clock import faketime
from tests.campaign.one import run_apart
from tests.helpers.broker import need_broker
from tests.helpers.missing import leave_out

SEED = 1
SECONDS_MAX = 600  # for what hangs; a slice takes about a minute
SLICES = [campaign for campaign in campaigns().values() if campaign.rounds_in_ci]


@pytest.mark.parametrize("campaign", SLICES, ids=lambda campaign: campaign.name)
def test_no_promise_is_broken_in_the_campaign(campaign: Campaign, tmp_path: Path) -> None:
    need_broker()
    if campaign.name == "clock" and faketime() is None:
        leave_out("libfaketime", ".ci/tools campaign, as root")
    outcome = run_apart(campaign, campaign.rounds_in_ci, SEED, tmp_path, SECONDS_MAX)
    assert outcome.violations == []
