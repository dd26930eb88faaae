"""What holds for every test: how Hypothesis runs, and that no setting comes from outside."""

from __future__ import annotations

import os

from hypothesis import settings

# A kernel's first call compiles it, which takes seconds: no example has a deadline.
settings.register_profile("streamer", deadline=None, print_blob=True)
settings.load_profile("streamer")

BROKER = "STREAMER_TEST_BROKER"  # names the tests' own broker; no setting
for name in [name for name in os.environ if name.upper().startswith("STREAMER_")]:
    if name != BROKER:
        del os.environ[name]
