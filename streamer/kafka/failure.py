"""The end of a process that may not go on: one message, the error's exit code, at once.

What is not committed is repeated by the next start, and repeats change nothing. To go on after a
failure, or to wind down in order, could publish what follows a hole.
"""

from __future__ import annotations

import logging
import os
import sys

import structlog

from streamer.errors import StreamerError

_log = structlog.get_logger()


def end_process(error: BaseException) -> None:
    """Report the error and end this process without any cleaning up."""
    if isinstance(error, StreamerError):
        _log.critical("worker_failed", reason=str(error), exit_code=error.exit_code)
        code = error.exit_code
    else:
        _log.critical("worker_failed", reason=repr(error), exit_code=1, exc_info=error)
        code = 1
    logging.shutdown()
    sys.stderr.flush()
    os._exit(code)
