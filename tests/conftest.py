"""What holds for every test: how Hypothesis runs, and that no setting comes from outside."""

from __future__ import annotations

import os

from hypothesis import settings

# A kernel's first call compiles it, which takes seconds: no example has a deadline.
settings.register_profile("streamer", deadline=None, print_blob=True)
settings.load_profile("streamer")

# Where tests find a broker and tools; no settings.
OURS = {"STREAMER_TEST_BROKER", "STREAMER_TOOLS", "STREAMER_CRDS"}
for name in [name for name in os.environ if name.upper().startswith("STREAMER_")]:
    if name not in OURS:
        del os.environ[name]
