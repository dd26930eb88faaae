"""`python -m streamer`."""

from streamer.cli.main import run

run()
