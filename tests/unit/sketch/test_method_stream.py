"""Every method runs in the stream: it finds copies by keys of its own."""

from functools import cache
from pathlib import Path

import pytest

from streamer.analysis.sample.crawl import Crawl
from streamer.config import load_settings
from streamer.pages.chunk import PageBatch
from streamer.pages.parse import PageParser
from streamer.pages.program_pages import chunk_of
from streamer.run.index_folder import IndexFolder
from streamer.run.judge import replay_judge
from streamer.run.stages import sign
from streamer.sketch.method_signer import make_signer
from streamer.sketch.scheme import PRESETS, methods
from tests.helpers.serial_index import judged

SECRET = bytes(range(32))
RECORDS, COPIES = 60, 20
CHOICES = {
    **{name: load_settings(method=name) for name in [*methods(), *PRESETS]},
    "banding by minhash": load_settings(method="banding", accept="minhash"),
    "minhash by simhash": load_settings(method="minhash", accept="simhash"),
    "bottom_k with tags": load_settings(method="bottom_k", canonical=["keep_tags=true"]),
    "minhash by words": load_settings(method="minhash", accept="words"),
    "words by minhash": load_settings(method="words", accept="minhash"),
    "stemmed minhash": load_settings(canonical=["stem=english"]),
}


@cache
def batch() -> PageBatch:
    """Return sample pages of some length, and behind them the same pages again."""
    lines = [planted.line for planted in Crawl(7).records(RECORDS)]
    found = PageParser().parse(chunk_of(lines))
    long = [i for i, body in enumerate(found.bodies) if len(body) > 3000][:COPIES]
    return PageParser().parse(chunk_of([lines[found.sequences[i]] for i in long] * 2))


@pytest.mark.parametrize("choice", CHOICES)
def test_a_copy_is_found_by_the_keys_of_the_method_alone(choice: str, tmp_path: Path) -> None:
    settings, known = CHOICES[choice], batch()
    pages = sign(make_signer(settings.signature, SECRET), 0, known)
    pages.keys[:, -1] = range(len(pages))  # that of equal content finds none
    index = IndexFolder.open(tmp_path / "index", settings.signature)
    judge = replay_judge(index, settings.index)
    [block] = judge.judge(0, 0, len(pages), pages)
    judge.close()
    assert all(verdict.similarity >= 0 for verdict in judged(block)[COPIES:])
