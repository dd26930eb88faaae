"""`streamer warm`: compile the kernels ahead, so that the first run starts at once."""

from __future__ import annotations

from streamer.cli.progress import compile_with_bar


def warm() -> None:
    """Compile the kernels and keep them on disk; later runs of this version start at once."""
    compile_with_bar()
