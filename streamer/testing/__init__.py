"""What tests of a crawl need: replays that give the same verdicts each time, and comparisons.

    from streamer.testing import KILL, assert_same_verdicts

    def test_a_copy_is_a_duplicate(streamer_replay):
        first, copy = streamer_replay([("http://a/", TEXT), KILL, ("http://b/", TEXT)])
        assert copy.is_duplicate

The fixtures are in `plugin`, which pytest loads by itself; docs/testing.md has them all. Nothing in
this package imports numpy or numba before it is called, and only `plugin` imports pytest.
"""

from streamer.testing.replays import (
    KEY,
    KILL,
    GoldenVerdicts,
    KillMarker,
    Pages,
    Replayer,
    ReplayVerdicts,
    assert_same_verdicts,
)

__all__ = [
    "KEY",
    "KILL",
    "GoldenVerdicts",
    "KillMarker",
    "Pages",
    "ReplayVerdicts",
    "Replayer",
    "assert_same_verdicts",
]
