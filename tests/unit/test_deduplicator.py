"""The face: the same verdicts as a replay, questions that change nothing, and an orderly end."""

import base64
import itertools
import json
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import msgspec
import numpy as np
import pytest

import streamer
from streamer import Deduplicator, Page, Rejected, SettingsError, Verdict
from tests.helpers.added import added
from tests.helpers.commands import run


def text_of(seed: int, words: int = 120) -> str:
    rng = random.Random(seed)
    return " ".join(f"w{rng.randrange(1_000_000)}" for _ in range(words))


def crawl(pages: int, seed: int = 1) -> Iterator[dict[str, Any]]:
    """Yield pages of which about a third are copies with a few other words."""
    rng = random.Random(seed)
    for number in range(pages):
        kind = rng.random()
        text = text_of(rng.randrange(pages // 3) if kind < 0.6 else pages + number)
        if kind < 0.3:
            text += f" and {text_of(number, rng.randrange(1, 30))}"
        yield {"url": f"https://h{number % 7}.example/{number}", "body": text}


@pytest.mark.parametrize(
    "options",
    [{}, {"exact": True}, {"track_changes": True, "threshold": 0.6}],
    ids=lambda options: "-".join(options) or "defaults",
)
def test_it_judges_as_a_replay(tmp_path: Path, key_file: Path, options: dict[str, Any]) -> None:
    pages = list(crawl(2500))
    lines = tmp_path / "pages.jsonl"
    lines.write_text("".join(json.dumps(page) + "\n" for page in pages), encoding="utf-8")
    out = tmp_path / "verdicts.jsonl"
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
    flags = [flag.removesuffix("=True") for flag in flags]
    run("replay", lines, "--verdicts", out, "--key-file", key_file, *flags)
    with Deduplicator(key_file=key_file, **options) as dedup:
        said = list(added(dedup, pages))
    replayed = out.read_bytes().replace(str(lines).encode(), b"added")  # the name of their source
    assert msgspec.json.Encoder().encode_lines(said) == replayed
    assert 0.2 < sum(each.is_duplicate for each in said) / len(said) < 0.8


def test_a_page_is_a_page_in_every_form() -> None:
    text = text_of(1)
    pages: list[streamer.AnyPage] = [
        ("https://a.example/1", text),
        ("https://a.example/2", text.encode("utf-16")),
        {"url": "https://a.example/3", "body": text.encode()},
        {"url": "https://a.example/4", "body": f"<p>{text}</p>", "content_type": "text/html"},
        Page("https://a.example/5", body=text),
        Page("https://a.example/6", body_base64=base64.b64encode(text.encode()).decode()),
        {"url": "https://a.example/7", "body": bytearray(text.encode())},
        {"url": "https://a.example/8", "body": memoryview(text.encode())},
    ]
    with Deduplicator() as dedup:
        verdicts = list(added(dedup, pages))
        assert all(dedup.check(page).is_duplicate for page in pages)
    assert [verdict.url for verdict in verdicts] == [f"https://a.example/{i}" for i in range(1, 9)]
    assert [verdict.is_duplicate for verdict in verdicts] == [False, *[True] * 7]
    assert {verdict.similarity for verdict in verdicts[1:]} == {1.0}


def test_with_a_mapping_pages_are_dicts_whose_fields_are_mapped_and_carried() -> None:
    page = {"u": "https://a.example/", "b": {"text": text_of(1)}, "rank": 7}
    with Deduplicator(fields='{"url": "/u", "body": "/b/text"}', carry=("rank",)) as dedup:
        (verdict,) = added(dedup, [page])
        with pytest.raises(TypeError, match="pages are dicts"):
            list(dedup.add([("u", "text")]))
    assert verdict.carried == {"rank": 7}


def test_each_item_has_one_result_in_order(tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text('[[rule]]\nhost = "b.example"\nskip = true\n', encoding="utf-8")
    pages: list[streamer.AnyPage] = [
        {"url": "https://a.example/1"},
        {"body": "text"},
        ("https://a.example/2", ""),
        ("https://a.example/3", text_of(3)),
        {"url": "https://a.example/4", "body": "x", "content_type": "image/png"},
        ("https://a.example/5", text_of(3)),
        ("https://b.example/", text_of(3)),
    ]
    with Deduplicator(rules=rules) as dedup:
        results = list(dedup.add(iter(pages)))
        assert [result.page.offset for result in results] == [*range(7)]
        codes = [each.code if isinstance(each, Rejected) else each.verdict for each in results]
        assert codes == [
            "missing_body", "missing_url", "empty_body", "unique", "type_not_text", "duplicate",
            "rule",
        ]  # fmt: skip
        assert [each.is_duplicate for each in results] == [*[False] * 5, True, False]
        assert dedup.rejected == {
            "missing_body": 1, "missing_url": 1, "empty_body": 1, "type_not_text": 1, "rule": 1,
        }  # fmt: skip
        with pytest.raises(streamer.InvalidPage) as caught:
            dedup.check(pages[0])
        assert caught.value.code == "missing_body"
        with pytest.raises(streamer.InvalidPage, match="type_not_text"):
            dedup.check(pages[4])


def test_the_nearest_pages_are_found() -> None:
    text = text_of(1)
    texts = [text, f"{text} {text_of(2, 10)}", text_of(3)]
    with Deduplicator(threshold=0.99) as dedup:
        list(dedup.add((f"https://a.example/{n}", each) for n, each in enumerate(texts)))
        before = dedup.nearest(text)
        assert [match.url[-1] for match in before] == ["0", "1"]
        assert before[0].similarity == 1.0 > before[1].similarity > 0.6
        assert before[0].page.offset == 0
        assert dedup.nearest(text, limit=1) == before[:1]
        assert dedup.nearest(text_of(9)) == []


def test_forgotten_pages_answer_no_more() -> None:
    with Deduplicator() as dedup:
        list(dedup.add((f"https://h{i % 3}.example/{i}", text_of(i)) for i in range(30)))
        assert len(dedup) == 30
        assert dedup.forget(host="h1.example") == 10
        assert len(dedup) == 20
        dedup.flush()
        list(dedup.add([("https://h1.example/more", text_of(100))]))
        assert dedup.forget(url="https://h1.example/more") == 1
        assert not dedup.check(("https://x.example/", text_of(1))).is_duplicate
        assert dedup.check(("https://x.example/", text_of(2))).is_duplicate
        assert dedup.forget(before_ms=1) == len(range(20))
        for moment in (1.5, 2**70, np.datetime64("2024-01-01")):
            with pytest.raises((TypeError, OverflowError)):
                dedup.forget(before_ms=moment)  # type: ignore[arg-type]  # what is tested
        assert dedup.forget(before_ms=cast("int", np.int64(1))) == 0
        with pytest.raises(SettingsError, match="Say what to forget"):
            dedup.forget()


def test_a_kept_page_is_explained() -> None:
    text = text_of(1)
    with Deduplicator(threshold=0.95) as dedup:
        list(dedup.add([("https://a.example/1", text), ("https://a.example/2", text + " more")]))
        list(dedup.add([("https://a.example/3", f"{text} {text_of(2, 20)}")]))
        nearest = dedup.explain(" https://a.example/3").nearest
        assert (nearest and nearest.page.url) == "https://a.example/1"
        with pytest.raises(streamer.InputError, match="no kept page"):
            dedup.explain("https://a.example/2")


def test_an_index_goes_on_and_refuses_other_settings(tmp_path: Path) -> None:
    index = tmp_path / "index"
    with Deduplicator(index) as dedup:
        (first,) = added(dedup, [("https://a.example/1", text_of(1))])
    with Deduplicator(str(index)) as dedup:
        (second,) = added(dedup, [("https://a.example/2", text_of(1))])
    assert (second.representative and second.representative.page) == first.page
    assert second.page.offset == first.page.offset + 1
    with pytest.raises(SettingsError, match="is closed"):
        len(dedup)
    with pytest.raises(streamer.StoreMismatch, match="bands"):
        Deduplicator(index, bands=20)
    with pytest.raises(SettingsError, match="is the empty text"):
        Deduplicator("")
    with pytest.raises(SettingsError, match="threshold"):
        Deduplicator(index, threshold=7)
    with Deduplicator(index):
        pass  # what was refused has let go of it


def test_an_index_that_was_not_used_leaves_nothing_but_files_of_others(tmp_path: Path) -> None:
    with Deduplicator(tmp_path / "deep" / "index") as dedup:
        assert len(dedup) == 0
        assert dedup.nearest(text_of(1)) == []
    assert not (tmp_path / "deep").exists()
    with Deduplicator(tmp_path / "index"):
        (tmp_path / "index" / "notes").write_text("of somebody", encoding="utf-8")
    assert [path.name for path in (tmp_path / "index").iterdir()] == ["notes"]


def test_pages_are_read_as_verdicts_are_taken() -> None:
    def pages() -> Iterator[tuple[str, str]]:
        for number in itertools.count():
            yield f"https://a.example/{number}", "some words " * (number % 7)

    with Deduplicator() as dedup:
        assert len(list(itertools.islice(dedup.add(pages()), 3000))) == 3000


@pytest.mark.parametrize("closing", ["", "dedup.close()"])
def test_a_process_that_ends_leaves_all_that_it_was_given(tmp_path: Path, closing: str) -> None:
    program = f"""
from streamer import Deduplicator
dedup = Deduplicator({str(tmp_path / "index")!r})
verdicts = list(dedup.add([("https://a.example/1", {text_of(1)!r})]))
{closing}
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    with Deduplicator(tmp_path / "index") as dedup:
        assert dedup.check(("https://a.example/2", text_of(1))).is_duplicate


def test_a_killed_process_leaves_the_index_as_of_its_last_flush(tmp_path: Path) -> None:
    program = f"""
import os, signal
from streamer import Deduplicator
dedup = Deduplicator({str(tmp_path / "index")!r})
list(dedup.add([("https://a.example/1", {text_of(1)!r})]))
dedup.flush()
list(dedup.add([("https://a.example/2", {text_of(2)!r})]))
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL
    with Deduplicator(tmp_path / "index") as dedup:
        assert dedup.check(("https://a.example/3", text_of(1))).is_duplicate
        (again,) = dedup.add([("https://a.example/2", text_of(2))])
        assert not again.is_duplicate
        assert again.page.offset == 1


def test_threads_take_turns() -> None:
    texts = [text_of(i) for i in range(300)]
    found: list[list[Verdict]] = [[] for _ in range(4)]
    with Deduplicator() as dedup:

        def add_part(number: int) -> None:
            for part in (texts[i : i + 20] for i in range(0, 300, 20)):
                pages = [(f"https://t{number}.example/{hash(text)}", text) for text in part]
                found[number] += added(dedup, pages)
                dedup.nearest(part[0])
                dedup.check(pages[0])
                dedup.flush()

        threads = [threading.Thread(target=add_part, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(dedup) == len(texts)
    verdicts = [*itertools.chain.from_iterable(found)]
    assert sorted(verdict.page.offset for verdict in verdicts) == list(range(1200))
    assert sum(not verdict.is_duplicate for verdict in verdicts) == len(texts)


def test_names_are_imported_when_they_are_used() -> None:
    program = (
        "import sys, streamer; "
        "print([m for m in ('numba', 'numpy', 'aiokafka', 'pydantic') if m in sys.modules]); "
        "from streamer import *; print('numba' in sys.modules)"
    )
    shown = subprocess.check_output([sys.executable, "-c", program], text=True)
    assert shown == "[]\nTrue\n"
    assert set(dir(streamer)) == set(streamer.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = streamer.nothing
