"""What is to be forgotten: which rows a term names, and when a command has its answer.

property/test_index_forgetting.py has the same in a whole index, next to a serial one.
"""

import numpy as np
import pytest

from streamer.errors import SettingsError
from streamer.index import forgetting
from streamer.index.codec import PendingForget
from streamer.index.forgetting import ASK, BEFORE, HOST, URL, Forgetting, Terms, terms_of
from streamer.index.messages import Forget, Term
from streamer.index.ports import BEFORE_ALL, KeptRows

URLS = [b"https://a.example/1", b"https://b.a.example/2", b"http://other.example/3"]
ROWS, REFS, TIMES = np.arange(3), np.array([7, 8, 9], np.uint64), np.array([100, 200, 300])


def named(*terms: Term, row_end: int = 3) -> list[int]:
    """Return the places of the rows that terms name, of those before a row."""
    return [*Terms.of(Forget([*terms], "c"), row_end).find(ROWS, REFS, URLS, TIMES)]


@pytest.mark.parametrize(
    ("term", "places"),
    [
        ((URL, URLS[0]), [0]),
        ((URL, b"http://a.example/1/"), []),
        ((HOST, b"a.example"), [0]),
        ((HOST, b".a.example"), [0, 1]),
        ((HOST, b".example"), [0, 1, 2]),
        ((BEFORE, 200), [0]),
        ((BEFORE, 201), [0, 1]),
        ((forgetting.REF, 9), [2]),
        ((ASK, b"c"), []),
    ],
    ids=str,
)
def test_which_rows_a_term_names(term: Term, places: list[int]) -> None:
    assert named(term) == places


def test_a_term_names_no_row_that_comes_after_it() -> None:
    assert [named((HOST, b".example"), row_end=end) for end in (0, 1, 2)] == [[], [0], [0, 1]]


def test_of_equal_terms_the_later_one_holds() -> None:
    terms = Terms.of(Forget([(URL, URLS[2])], "early"), 1)
    assert terms.find(ROWS, REFS, URLS, TIMES) == {}
    terms.add(Terms.of(Forget([(URL, URLS[2])], "late"), 3))
    assert terms.find(ROWS, REFS, URLS, TIMES) == {2: "late"}
    assert Terms(terms.pack()).find(ROWS, REFS, URLS, TIMES) == {2: "late"}


def test_what_a_user_names_becomes_terms_and_no_text_is_refused() -> None:
    terms = terms_of([" u\n"], [".A.example"], 5)
    assert terms == [(URL, b"u"), (HOST, b".a.example"), (BEFORE, 5)]
    with pytest.raises(SettingsError, match="is not UTF-8"):
        terms_of(["https://a.example/\udcff"], [], None)


def test_a_stored_row_is_hidden_from_the_term_until_the_sweep_has_ended() -> None:
    own = Forgetting(PendingForget())
    kept = KeptRows(np.zeros((3, 33), np.uint64), REFS.tolist(), URLS, TIMES)
    assert not own.hides
    wanted = Forget([(URL, URLS[1]), (ASK, b"c")], "c")
    own.accept(wanted, Terms.of(wanted, 3))
    own.begin_sweep()
    assert (own.hides, own.pending, own.done) == (True, 0, {})
    assert own.hide(kept, ROWS).times.tolist() == [100, BEFORE_ALL, 300]
    own.end_sweep({"c": 1})
    assert (own.hides, own.done) == (False, {"c": 1})
    assert own.hide(kept, ROWS).times.tolist() == TIMES.tolist()


def test_what_arrives_during_a_sweep_waits_for_the_next_one() -> None:
    own = Forgetting(PendingForget())
    first, second = (Forget([(URL, url), (ASK, url)], url.decode()) for url in URLS[:2])
    own.accept(first, Terms.of(first, 3))
    own.begin_sweep()
    own.accept(second, Terms.of(second, 3))
    own.end_sweep({})
    assert (own.pending, own.is_asked, [*own.done]) == (1, True, [URLS[0].decode()])


def test_a_command_whose_answer_was_not_published_waits_for_another_sweep() -> None:
    own = Forgetting(PendingForget(done={"c": 4}))
    assert (own.is_asked, own.done) == (True, {})
    own.begin_sweep()
    own.end_sweep({"c": 1})
    assert own.done == {"c": 5}
