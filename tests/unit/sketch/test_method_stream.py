"""Every method runs in the stream: it finds copies by keys of its own."""

from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from streamer.analysis.sample.crawl import Crawl
from streamer.config import Settings, load_settings
from streamer.index.messages import Pages
from streamer.pages.chunk import PageBatch
from streamer.pages.parse import PageParser
from streamer.run.index_folder import IndexFolder
from streamer.run.judge import Judge, replay_judge
from streamer.run.stages import sign
from streamer.sketch.method import ABSENT_KEY, PageText
from streamer.sketch.method_signer import make_signer
from streamer.sketch.scheme import PRESETS, methods, scheme_of
from tests.helpers.serial_index import Judged, judged

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


class Signed(NamedTuple):
    """Pages, the last of which are copies; `has_key` says which of these have a key."""

    pages: Pages
    has_key: list[bool]


@cache
def batch() -> PageBatch:
    """Return sample pages, and behind them copies of the first of some length."""
    lines = [planted.line for planted in Crawl(7).records(RECORDS)]
    found = PageParser().parse_messages(0, RECORDS, [(i, None, x) for i, x in enumerate(lines)])
    long = [i for i, body in enumerate(found.bodies) if len(body) > 3000][:COPIES]
    lines += [lines[found.sequences[i]] for i in long]
    numbered = [(i, None, line) for i, line in enumerate(lines)]
    return PageParser().parse_messages(0, len(lines), numbered)


@cache
def signed(choice: str) -> Signed:
    """Sign the pages; only a key of the method's own can bring a copy to its original."""
    settings, known = CHOICES[choice], batch()
    pages = sign(make_signer(settings.signature, SECRET), 0, known)
    scheme = scheme_of(settings.signature, SECRET)
    has_key = []
    for i in range(len(pages) - COPIES, len(pages)):
        body, flags = known.bodies[i], known.flags[i]
        page = PageText.of_body(body, flags, scheme.canonical)
        keys = set(scheme.sign(page).keys) - {ABSENT_KEY}
        has_key.append(bool(keys))
        for column, key in enumerate(pages.keys[i].tolist()):
            if key not in keys:
                pages.keys[i, column] = 1000 * i + column
    return Signed(pages, has_key)


def judge_part(judge: Judge, pages: Pages, first: int, end: int) -> list[Judged]:
    part = pages.take(range(first, end))
    return [verdict for block in judge.judge(0, first, end, part) for verdict in judged(block)]


def opened(folder: Path, settings: Settings) -> Judge:
    key_file = folder.parent / "key"
    key_file.write_text(SECRET.hex())
    return replay_judge(IndexFolder.open(folder, settings.signature, key_file), settings.index)


@pytest.mark.parametrize("choice", CHOICES)
def test_a_copy_is_found_by_the_keys_of_the_method_alone(choice: str, tmp_path: Path) -> None:
    pages, has_key = signed(choice)
    judge = opened(tmp_path / "index", CHOICES[choice])
    verdicts = judge_part(judge, pages, 0, len(pages))
    judge.close()
    assert [verdict.similarity >= 0 for verdict in verdicts[-COPIES:]] == has_key
    assert sum(has_key) > COPIES // 2
