"""What the process has loaded that all programs of tests are forked from: commands and kernels.

It opens no index, since the threads of one would not be there in a child.
"""

from __future__ import annotations

import streamer.cli.replay
import streamer.testing.child  # noqa: F401 - so that it is loaded
from streamer.run.warm import load_most

load_most()
