"""What a test lacks on this machine."""

import os
from typing import NoReturn

import pytest


def leave_out(missing: str, remedy: str) -> NoReturn:
    """Skip a test for which something is missing, and say how to install it; under CI, fail."""
    reason = f"{missing}: {remedy}"
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)
