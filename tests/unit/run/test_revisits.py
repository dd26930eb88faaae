"""What revisits need of kept pages: noted with a flush, and found again."""

from pathlib import Path

import pytest

from streamer.pages.chunk import Chunk, WarcPage
from streamer.run import revisits
from streamer.run.revisits import Original, Originals, RevisitPair, originals_of
from streamer.stored.store import Store


def original(number: int) -> Original:
    return Original(f"2026-01-01T00:00:{number % 60:02}Z", f"sha1:{number}", bytes(20))


def test_originals_are_found_before_a_flush_between_two_and_in_a_new_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(revisits, "_BLOCKS_KEPT", 3)
    store = Store.open(tmp_path / "store")
    originals = Originals(store)
    refs = [source << 40 | number for source in (0, 7) for number in range(0, 1000, 3)]
    for place, ref in enumerate(refs):
        originals.add(ref, original(ref))
        assert originals.find(refs[place // 2]) == original(refs[place // 2])
        if place % 100 == 99:
            for key, value in originals.to_flush():
                store.put_note(key, value)
    for key, value in originals.to_flush():
        store.put_note(key, value)
    assert originals.find(1) is None
    again = Originals(store)
    assert [again.find(ref) for ref in refs] == list(map(original, refs))
    assert again.to_flush() == []
    assert len(vars(again)["_blocks"]) <= 3
    store.close()


def test_the_payload_of_a_response_is_what_follows_its_http_headers() -> None:
    http = b"HTTP/1.1 200 OK\r\nServer: a\r\n\r\n"
    blocks = {
        "response": [http + b"text", http.replace(b"a", b"b") + b"text", b"text"],
        "resource": [b"text", http + b"text"],
    }
    pages = [
        WarcPage(number, kind, {"warc-date": "2026"}, block)
        for number, (kind, block) in enumerate(
            (kind, each) for kind, own in blocks.items() for each in own
        )
    ]
    found = originals_of(Chunk(0, 5, pages=pages))
    same, other = [found[number].payload for number in range(4)], found[4].payload
    assert len(set(same)) == 1
    assert other != same[0]
    assert found[0].digest == "sha1:G4XKBDFLGPTRYAWGKHN4QOSHJUZMM5XK"


def test_a_page_without_a_date_is_not_referred_to() -> None:
    own = original(1)
    assert RevisitPair(own, own).is_identical
    assert not RevisitPair(own, own._replace(date="")).is_identical
    assert not RevisitPair(own, own._replace(payload=bytes(range(20)))).is_identical
    assert not RevisitPair(own, None).is_identical
