"""What the process has loaded that all programs of tests are forked from: commands and kernels.

It opens no index, since the threads of one would not be there in a child.
"""

import streamer.cli.replay
import streamer.testing.child  # noqa: F401 - so that it is loaded
from streamer.run import warm

warm._compile_text(main_text=False)  # noqa: SLF001 - what most programs need, without an index
warm._compile_rule()  # noqa: SLF001 - as above
