"""`streamer warm`: compile the kernels ahead, so that the first run starts at once."""

from __future__ import annotations

from typing import Annotated

from streamer.cli.options import command
from streamer.cli.progress import compile_with_bar
from streamer.config import Settings


@command
def warm(*, settings: Annotated[Settings, "text"]) -> None:
    """Compile the kernels and keep them on disk; later runs of this version start at once.

    What only main text needs is left out unless it is asked for.

    Example: streamer warm --text main
    """
    compile_with_bar(main_text=settings.signature.takes_main_text)
