from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from streamer import Deduplicator, InvalidPage, StoreMismatch, Verdict
from streamer.run.page_check import ASKED, PageChecker
from tests.helpers.added import message_of
from tests.helpers.damage import digests
from tests.unit.test_deduplicator import text_of


def page(number: int, seed: int, more: str = "") -> dict[str, Any]:
    return {"url": f"https://h{number % 7}.example/{number}", "body": f"{text_of(seed)} {more}"}


KEPT = [page(number, number) for number in range(60)]
# Copies, near copies, pages too short to compare, without text, and new ones.
ASKED_PAGES = [
    *(page(100 + n, n) for n in range(20)),
    *(page(200 + n, n, text_of(900 + n, 3 * n)) for n in range(20)),
    *(page(300 + n, 500 + n) for n in range(20)),
    {"url": "https://short.example/", "body": "two words"},
    {"url": "https://empty.example/", "body": " <p> "},
    KEPT[3],
]


def without_place(verdict: Verdict) -> bytes:
    return msgspec.json.encode(msgspec.structs.replace(verdict, page=ASKED))


@pytest.mark.parametrize("exact", [False, True])
def test_a_check_is_that_of_the_writer_and_changes_nothing(
    tmp_path: Path, key_file: Path, *, exact: bool
) -> None:
    folder = tmp_path / "index"
    with Deduplicator(folder, key_file=key_file, exact=exact) as dedup:
        assert not any(verdict.is_duplicate for verdict in dedup.add(KEPT))
        dedup.flush()
        expected = [without_place(dedup.check(each)) for each in ASKED_PAGES]
        before = digests(folder)
        with closing(PageChecker(folder, key_file)) as checker:  # while the writer has it open
            found = [checker.check(message_of(each)) for each in ASKED_PAGES]
            assert [without_place(each) for each in found] == expected
            assert digests(folder) == before
    assert {each.page for each in found} == {ASKED}
    assert 20 <= sum(each.is_duplicate for each in found) < 50


def test_rules_of_the_index_hold(tmp_path: Path, key_file: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text('[[rule]]\nhost = "strict.example"\nthreshold = 1.0\n', "utf-8")
    folder = tmp_path / "index"
    with Deduplicator(folder, key_file=key_file, rules=rules) as dedup:
        list(dedup.add(KEPT[:1]))
    near = f"{KEPT[0]['body']} and three words"
    with closing(PageChecker(folder, key_file)) as checker:
        urls = "https://strict.example/", "https://other.example/"
        found = [checker.check(message_of({"url": url, "body": near})) for url in urls]
    assert [each.is_duplicate for each in found] == [False, True]


def test_pages_of_other_indexes_count(tmp_path: Path, key_file: Path) -> None:
    clean, folder = tmp_path / "clean", tmp_path / "index"
    with Deduplicator(clean, key_file=key_file) as dedup:
        list(dedup.add(KEPT[:1]))
    also = f"clean={clean}"
    with Deduplicator(folder, key_file=key_file, also=(also,)) as dedup:
        list(dedup.add(KEPT[1:2]))
    with closing(PageChecker(folder, key_file, also=[also])) as checker:
        other = checker.check(message_of(KEPT[0])).representative
        assert (other and other.index) == "clean"
    with (
        closing(PageChecker(folder, key_file)) as checker,
        pytest.raises(StoreMismatch, match="--also clean"),
    ):
        checker.check(message_of(KEPT[0]))


def test_what_cannot_be_judged_is_said_so(tmp_path: Path, key_file: Path) -> None:
    folder = tmp_path / "index"
    with Deduplicator(folder, key_file=key_file) as dedup:
        list(dedup.add(KEPT[:1]))
    with closing(PageChecker(folder, key_file, page_bytes_max=1000)) as checker:
        for message, code in [
            (b"", "deletion"),
            (b"{", "invalid_json"),
            (b'{"url": "https://a.example/"}', "missing_body"),
            (message_of(("https://a.example/", "x" * 2000)), "record_too_large"),
        ]:
            with pytest.raises(InvalidPage, match=code):
                checker.check(message)
    (tmp_path / "other").write_text("34" * 32, encoding="ascii")
    with pytest.raises(StoreMismatch, match="another key file"):
        PageChecker(folder, tmp_path / "other")
