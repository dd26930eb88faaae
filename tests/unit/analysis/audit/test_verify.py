"""The audit of an index: clean where it is right, and each way of being wrong is noticed."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any

import numpy as np
import pytest

from streamer.errors import StoreMismatch
from streamer.index.messages import CONFIG, Record
from streamer.kafka.wire import LogIdentity, pack_record, unpack_record
from tests.helpers import audited_index
from tests.helpers.audited_index import IDENTITY, Message, SmallIndex, small_index


@pytest.fixture
def index() -> SmallIndex:
    return small_index()


@pytest.mark.parametrize("seed", range(4))
def test_an_index_at_rest_is_clean_and_all_of_it_is_looked_at(seed: int) -> None:
    index = small_index(seed)
    report = index.audit(settled=True)
    assert report.broken == []
    assert report.settled is not None
    assert report.settled.looked_at == report.outcomes.looked_at == len(index.records)
    counts = report.counts
    assert counts["pages unique"] + counts["pages duplicate"] == len(index.verdicts) == 120
    assert report.representatives.looked_at == counts["pages duplicate"] > 20
    assert counts["pages dead-lettered"] == len(index.dead_letters)
    assert counts["skipped: deletion"] == 6
    assert report.numbers.looked_at == report.verdict_bytes.looked_at == 120
    assert report.kept_pairs.looked_at > 50
    assert 0 < counts["kept pages"] <= counts["pages unique"]
    assert report.as_json()["clean"] is True


def test_what_a_unique_page_names_is_looked_at_and_must_be_kept_and_indexed_before() -> None:
    index = small_index(7, near_misses=0.3)
    report = index.audit(settled=True)
    assert report.broken == []
    near = [place for place, m in enumerate(index.verdicts) if m.json.get("nearest")]
    assert len(near) > 5
    assert report.representatives.looked_at == report.counts["pages duplicate"] + len(near)
    right, last = index.verdicts[near[0]], index.verdicts[-1].json["page"]
    copy = index.verdicts[index.place("duplicate")].json["page"]
    for page, example in ((copy, "is not kept itself"), (last, "was not indexed before")):
        wrong = {**right.json["nearest"], "page": page}
        index.verdicts[near[0]] = right.with_json(nearest=wrong)
        report = index.audit()
        assert "representatives" in report.broken
        assert "verdict_bytes" in report.broken
        assert example in " ".join(report.representatives.examples)


@pytest.mark.parametrize("seed", range(12))
def test_an_index_in_motion_is_clean_and_what_is_open_is_counted(seed: int) -> None:
    random = Random(seed)
    index = small_index(seed, steps=random.randrange(10, 60))
    index.applied = random.randint(max(0, index.applied - 5), index.applied)
    index.signed = {p: random.randint(0, end) for p, end in index.signed.items()}
    index.verdicts = [
        message for message in index.verdicts if index.emitted_at[message.number] < index.applied
    ]
    report = index.audit()
    assert report.broken == []
    judged = len(index.verdicts)
    pages_open = report.counts["open: in the index"] + report.counts["open: not read"]
    bad = len(index.dead_letters) + report.counts["skipped: deletion"]
    assert pages_open == len(index.records) - judged - bad > 0


def test_open_pages_are_violations_where_a_settled_index_is_asked_for() -> None:
    report = small_index(steps=8).audit(settled=True)
    assert report.broken == ["settled"]
    assert report.settled is not None
    opened = report.counts["open: in the index"] + report.counts["open: not read"]
    assert report.settled.violations == opened > 0


def test_a_header_of_a_page_that_its_verdict_lacks_is_noticed(index: SmallIndex) -> None:
    place = next(i for i, each in enumerate(index.verdicts) if len(each.headers) > 1)
    right = index.verdicts[place]
    index.verdicts[place] = replace(right, headers=right.headers[:1])
    assert index.audit().broken == ["verdict_bytes"]
    index.verdicts[place] = right
    index.verdicts.append(replace(right, headers=(*right.headers, ("other", b""))))
    assert index.audit().broken == ["repeats", "verdict_bytes"]


# ---- outcomes ------------------------------------------------------------------------------------


def test_a_dead_letter_of_another_index_is_none_of_this_one(index: SmallIndex) -> None:
    letter = index.dead_letters.pop()
    other = tuple((name, b"other" if name == "streamer.index" else v) for name, v in letter.headers)
    index.dead_letters.append(replace(letter, headers=other))
    report = index.audit()
    assert report.broken == ["outcomes"]
    assert report.counts["dead letters of others"] == 1


def _letter_of(index: SmallIndex, partition: int, offset: int) -> Message:
    changed = {
        "__connect.errors.partition": b"%d" % partition,
        "__connect.errors.offset": b"%d" % offset,
    }
    letter = index.dead_letters[0]
    return replace(letter, headers=tuple((n, changed.get(n, v)) for n, v in letter.headers))


def test_verdicts_of_records_that_have_expired_are_counted(index: SmallIndex) -> None:
    gone = [m for m in index.records if m.partition == 0 and m.offset < 10]
    index.records = [m for m in index.records if m not in gone]
    ends = {p: max(m.offset for m in index.records if m.partition == p) + 1 for p in (0, 1, 2)}
    bounds = {p: (10 if p == 0 else 0, ends[p]) for p in ends}
    report = index.audit(page_bounds=bounds)
    assert report.broken == []
    outcomes = [m for m in gone if m.value is not None]
    assert report.counts["outcomes of records that have expired"] == len(outcomes) > 0


# ---- verdicts ------------------------------------------------------------------------------------


def _forge(index: SmallIndex, **page: Any) -> None:
    """Publish a verdict on a page that is not there."""
    place = {"topic": "pages", "partition": 0, **page}
    forged = index.verdicts[index.place("unique")].with_json(page=place)
    index.verdicts.append(
        replace(forged, partition=place["partition"] % audited_index.VERDICT_PARTITIONS)
    )


def _repeat(index: SmallIndex, **changed: Any) -> None:
    index.verdicts.append(replace(index.verdicts[3], **changed))


def _number(index: SmallIndex, *headers: bytes) -> None:
    """Publish a verdict again under other numbers; b"": without one."""
    passed = index.verdicts[3].headers[1:]
    for each in headers:
        own = (("streamer.sequence", each),) if each else ()
        _repeat(index, headers=(*own, *passed))


def _put(index: SmallIndex, **fields: Any) -> None:
    """Change the first verdict of a duplicate."""
    place = index.place("duplicate")
    index.verdicts[place] = index.verdicts[place].with_json(**fields)


def _name_last(index: SmallIndex, kind: str) -> None:
    """Name the last page of a kind as the representative of the first duplicate."""
    last = [m for m in index.verdicts if m.json["verdict"] == kind][-1]
    _put(index, representative={"page": last.json["page"], "url": "u"})


def _name_a_duplicate(index: SmallIndex) -> None:
    index.verdicts.reverse()  # the first duplicate is the last page now, which may name any other
    _name_last(index, "duplicate")


def _letter(index: SmallIndex, *offsets: int) -> None:
    index.dead_letters += [_letter_of(index, 0, offset) for offset in offsets]


NOWHERE = {"page": {"topic": "pages", "partition": 0, "offset": 9999}, "url": "https://a.example/"}
WRONG: dict[str, tuple[Callable[[SmallIndex], object], str, int, str]] = {
    "a lost verdict": (
        lambda i: i.verdicts.pop(-1), "outcomes numbers", 2, "but the verdict is not there"),
    "a similarity below the threshold": (
        lambda i: _put(i, similarity=0.7999), "representatives verdict_bytes", 2, "less than"),
    "another similarity": (lambda i: _put(i, similarity=0.8), "verdict_bytes", 1, "not the"),
    "a lost dead letter": (
        lambda i: i.dead_letters.pop(), "outcomes", 1, "nothing became of it"),
    "dead letters of no record": (lambda i: _letter(i, 10_000, -1), "existing", 2, "no such"),
    "a repeat of another value": (
        lambda i: _repeat(i, value=i.verdicts[3].with_json(text_bytes=77).value),
        "repeats verdict_bytes", 2, "another one than before"),
    "another partition": (
        lambda i: _repeat(i, partition=1 - i.verdicts[3].partition), "places", 1, "whose place"),
    "beyond the end": (
        lambda i: _forge(i, offset=10_000), "existing verdict_bytes", 2, "there is no record"),
    "of another topic": (
        lambda i: _forge(i, topic="other", offset=1), "existing verdict_bytes", 2, "is no record"),
    "numbers that no fold gives": (
        lambda i: _number(i, b"0:120", b"1:0"), "numbers", 2, "the fold gives no verdict 1:0"),
    "no numbers": (
        lambda i: _number(i, b"", b"0", b"0:-1", b"0:1x", b"0:%d" % 10**18), "verdict_bytes", 5,
        "no number, but b'0:1x'"),
    "another verdict in its place": (
        lambda i: _put(i, same_url=True), "verdict_bytes", 1, "not the verdict 0:"),
    "a representative that is none": (
        _name_a_duplicate, "representatives verdict_bytes", 2, "is not kept itself"),
    "a representative that came later": (
        lambda i: _name_last(i, "unique"), "representatives verdict_bytes", 2, "indexed before"),
    "no representative": (
        lambda i: _put(i, representative=None), "representatives verdict_bytes", 2,
        "no page that exists"),
    "a representative that is nowhere": (
        lambda i: _put(i, representative=NOWHERE), "representatives verdict_bytes", 2,
        "no page that exists"),
    **{
        f"no verdict: {value!r}": (
            partial(_repeat, value=value), "verdict_bytes", 1,
            "no verdict of this schema")
        for value in (None, b"{", b'{"page": 1}')
    },
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_is_noticed_and_nothing_else_is(index: SmallIndex, what: str) -> None:
    change, broken, violations, example = WRONG[what]
    change(index)
    report = index.audit()
    assert report.broken == broken.split()
    checks = [report.checks[name] for name in report.broken]
    assert sum(check.violations for check in checks) == violations
    assert example in " ".join(each for check in checks for each in check.examples)


def test_an_identical_repeat_is_fine_and_a_verdict_beats_a_dead_letter(index: SmallIndex) -> None:
    index.verdicts += index.verdicts[3:9]
    page = index.verdicts[0].json["page"]
    index.dead_letters.append(_letter_of(index, page["partition"], page["offset"]))
    report = index.audit()
    assert report.broken == []
    assert report.repeats.looked_at == 6
    assert report.counts["dead letters that a verdict beats"] == 1


# ---- representatives -----------------------------------------------------------------------------


def test_the_verdict_of_a_representative_may_be_on_its_way_but_not_lost(index: SmallIndex) -> None:
    page = index.verdicts[index.place("duplicate")].json["representative"]["page"]
    kept = next(m for m in index.verdicts if m.json["page"] == page)
    index.verdicts.remove(kept)
    lost = index.audit()
    assert lost.broken == ["outcomes", "representatives", "numbers"]
    index.applied = index.emitted_at[kept.number]
    assert index.audit().broken == []


def test_the_threshold_is_that_in_force_where_the_page_came() -> None:
    index = small_index(threshold=0.5)
    stricter = index.settings.model_copy(update={"threshold": 0.99})
    index.log.append(pack_record(Record(CONFIG, 1, 2, np.array([1]), stricter), IDENTITY))
    index.applied += 1
    assert any((m.json["similarity"] or 1) < 0.8 for m in index.verdicts)
    assert index.audit().broken == []


# ---- logs ----------------------------------------------------------------------------------------


def test_a_record_that_is_missing_in_a_log_is_noticed(index: SmallIndex) -> None:
    at = next(i for i in range(3, 99) if len(unpack_record(index.log[i]).numbers))
    del index.log[at]
    report = index.audit()
    assert {"holes", "numbers", "verdict_bytes"} <= set(report.broken)
    assert report.holes.violations == 1


def test_a_hole_that_is_filled_later_is_counted(index: SmallIndex) -> None:
    log = index.log
    of_one = [i for i, data in enumerate(log) if unpack_record(data).source == "pages:0"]
    log.insert(of_one[2], log[of_one[4]])
    index.applied += 1
    report = index.audit()
    assert report.broken == []
    assert report.counts["log records skipped, after a hole"] == 1


def test_a_log_without_its_beginning_is_refused(index: SmallIndex) -> None:
    del index.log[0]
    with pytest.raises(StoreMismatch, match="its beginning is lost"):
        index.audit()


def test_a_record_of_another_index_is_refused(index: SmallIndex) -> None:
    record = unpack_record(index.log[1])
    index.log[1] = pack_record(record, LogIdentity("another", IDENTITY.origin))
    with pytest.raises(StoreMismatch, match="written with the fingerprint another"):
        index.audit()


def test_a_page_that_was_committed_and_never_came_to_the_log_is_lost(index: SmallIndex) -> None:
    end = max(m.offset for m in index.records if m.partition == 1) + 1
    late = Message(1, end, None, b'{"url": "http://a.example", "body": "b"}')
    index.records.append(late)
    assert index.audit().counts["open: not read"] == 1
    index.signed[1] = end + 1
    report = index.audit()
    assert report.broken == ["outcomes"]
    assert "committed, but not in the log" in report.outcomes.examples[0]
