"""Messages that are larger expanded than their topics take: a worker goes on behind each."""

from pathlib import Path

from streamer.kafka.topics import Names
from tests.helpers.broker import Sent, make_topic, messages_of, send
from tests.helpers.fleet import fleet
from tests.integration.test_worker import page

MEBIBYTE = 1 << 20
KEPT = 64 << 10


def test_what_no_topic_takes_stops_no_worker(brokers: str, names: Names, tmp_path: Path) -> None:
    large = b"{" + b"v" * (40 * MEBIBYTE)
    whole: list[Sent] = [
        (b"key", large),
        (large, b"{broken"),
        *((b"several", b"{" + b"s" * (100 << 10)) for _ in range(7)),
        (b"several", b"{" + b"v" * (4 * MEBIBYTE - 1000)),  # the topic's limit is 4 MiB
    ]
    keyed: list[Sent] = [(b"%d" % n + b"k" * MEBIBYTE, page(n)) for n in range(20)]
    pages: list[Sent] = [(b"p%d" % n, page(n)) for n in range(20, 40)]
    too_large: Sent = (b"key", 2 * large)
    make_topic(brokers, names.pages)
    everything = [*whole, too_large, *keyed, *pages]
    send(brokers, names.pages, everything, compression_type="zstd")
    with fleet(tmp_path, brokers, names) as workers:
        workers.start("all", "--index", tmp_path / "index")
        worker = workers.running["all"]
        workers.wait_until_settled()
        assert worker.poll() is None, workers.log("all")
        workers.see_that_all_holds()
    *letters, cut = messages_of(brokers, names.dead_letters)[0]
    assert [(m.key, m.value) for m in letters] == whole
    assert (cut.key, cut.value) == (b"key", large[:KEPT])
    reported = dict(cut.headers)
    assert reported["streamer.value_bytes"] == b"%d" % (2 * len(large))
    assert reported["streamer.code"] == b"record_too_large"
    assert reported["__connect.errors.offset"] == b"%d" % len(whole)
    verdicts = messages_of(brokers, names.verdicts)[0]
    by_url = [b"http://a.example/%d" % n for n in range(20)]
    assert [m.key for m in verdicts] == [*by_url, *(key for key, _ in pages)]
