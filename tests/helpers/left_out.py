"""What a test needs of the machine and does not find: it fails in CI, and is left out elsewhere."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def leave_out(missing: str, remedy: str) -> NoReturn:
    """End a test for which something is missing; `remedy` is the command that brings it."""
    reason = f"{missing}: {remedy}"
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)
