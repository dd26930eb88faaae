"""`streamer warm`: compile the kernels ahead, so that the first run starts at once."""

from __future__ import annotations

from rich.console import Console

from streamer.stream.warm import warm_kernels


def warm() -> None:
    """Compile the kernels and keep them on disk; later runs of this version start at once."""
    with Console(stderr=True).status("compiling the kernels (once a version and machine)"):
        warm_kernels()
