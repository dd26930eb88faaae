"""Topics whose messages are the bodies of pages: a worker and replays judge them alike."""

import base64
import gzip
import json
from collections import Counter
from pathlib import Path

from streamer.compression import zstd
from streamer.kafka.dead_letters import CODE
from streamer.kafka.topics import Names
from tests.helpers.broker import make_topic, messages_of, send, verdicts_of
from tests.helpers.commands import run
from tests.helpers.fleet import fleet, streamer
from tests.integration.chaos import make_crawl
from tests.unit.test_deduplicator import text_of

RAW = ("--value", "body")
FIELDS = json.dumps(
    {
        "url": ["/headers/page-url", "/key"],
        "content_type": "/headers/type",
        "charset": "/headers/charset",
        "status": "/headers/status",
    }
)
NOWHERE = gzip.compress(b"<p>a page without a URL</p>", mtime=0)


def html(number: int) -> bytes:
    return f"<html><body><p>{text_of(number)}</p></body></html>".encode()


def url(number: int) -> bytes:
    return f"https://a.example/{number}".encode()


def message(
    key: bytes | None, value: bytes | None, **headers: bytes
) -> tuple[bytes | None, bytes | None, None, list[tuple[str, bytes]]]:
    return key, value, None, [(name.replace("_", "-"), each) for name, each in headers.items()]


MESSAGES = [
    message(url(0), html(0), type=b"text/html"),
    message(None, gzip.compress(html(0)), page_url=url(1)),
    message(b"\xff", zstd.compress(html(0)), page_url=url(2), type=b"text/html"),
    message(url(3), text_of(1).encode(), type=b"text/plain"),
    message(url(4), "é".encode("latin-1") + html(2), charset=b"iso-8859-1", type=b"text/html"),
    message(url(5), "é".encode() + html(2), type=b"text/html"),
    message(url(6), b"%PDF-1.7 ..."),
    message(url(7), html(3), status=b"404"),
    message(url(8), None),
    message(url(9), b""),
    message(None, NOWHERE, traceparent=b"00-1"),
    message(b"\xff\xfe", html(4), page_url=b"\xff"),
    message(url(10), gzip.compress(html(5))[:-9]),
    message(url(11), b'{"url": "https://b.example/", "body": "JSON is a text too"}'),
]
SKIPPED = {"skipped: body_pdf": 1, "skipped: status_not_2xx": 1, "skipped: deletion": 2}
DEAD = {10: "missing_url", 11: "missing_url", 12: "bad_content_encoding"}


def test_workers_and_replays_judge_bodies_alike(brokers: str, names: Names, tmp_path: Path) -> None:
    make_topic(brokers, names.pages)
    send(brokers, names.pages, MESSAGES)
    options = (*RAW, "--fields", FIELDS, "--carry", "/headers/type")
    with fleet(tmp_path / "fleet", brokers, names, options=options) as workers:
        workers.settle("all", "--index", workers.folder / "index", "--pass-headers", "type")
        found = verdicts_of(brokers, names)
        verdicts = {each["page"]["offset"]: each for each in map(json.loads, found)}
        assert [*verdicts] == [0, 1, 2, 3, 4, 5, 13]
        assert [verdicts[n]["url"].encode() for n in range(6)] == [url(n) for n in range(6)]
        assert Counter(each["verdict"] for each in verdicts.values()) == {
            "unique": 4, "duplicate": 3,
        }  # fmt: skip
        assert [verdicts[n]["basis"] for n in (1, 2, 5)] == ["content"] * 3
        assert verdicts[3]["carried"] == {"/headers/type": "text/plain"}
        passed = [message.headers[1:] for message in messages_of(brokers, names.verdicts)[0]]
        assert [dict(each).get("type") for each in passed[:4]] == [
            b"text/html", None, b"text/html", b"text/plain",
        ]  # fmt: skip
        codes = {}
        for each in messages_of(brokers, names.dead_letters)[0]:
            headers = dict(each.headers)
            offset = int(headers["__connect.errors.offset"])
            key, value, _, own = MESSAGES[offset]
            assert (each.key, each.value) == (key, value)
            assert {*own} <= {*each.headers}
            codes[offset] = headers[CODE].decode()
        assert codes == DEAD
        assert sorted(workers.replayed()) == sorted(found)
        verified = workers.verify(
            "--settled", *options[:4], "--json", str(tmp_path / "counts.json")
        )
        assert verified.returncode == 0, verified.stdout + verified.stderr
        counts = json.loads((tmp_path / "counts.json").read_text())["counts"]
        assert {name: counts[name] for name in counts if name.startswith("skipped:")} == SKIPPED
        topic = ("--from-topic", names.dead_letters, "--brokers", brokers)
        run("dead-letters", "retry", *topic)
        workers.wait_until_settled()
        again = messages_of(brokers, names.pages)[0][len(MESSAGES)]
        assert (again.key, again.value) == (None, NOWHERE)
        assert ("traceparent", b"00-1") in again.headers
    check_replay(brokers, names, tmp_path, found)


def check_replay(brokers: str, names: Names, folder: Path, found: list[bytes]) -> None:
    """See that a replay of the topic alone has the same verdicts, and what else it writes."""
    verdicts, kept = folder / "v.jsonl", folder / "kept.jsonl"
    run(
        "replay", "--from-topic", names.pages, "--brokers", brokers, "--kept", kept, "--offsets",
        f"0:0-{len(MESSAGES)}", "--verdicts", verdicts, *RAW, "--fields", FIELDS, "--carry",
        "/headers/type", "--key-file", folder / "fleet" / "key",
    )  # fmt: skip
    assert verdicts.read_bytes().splitlines() == found
    letters = [*map(json.loads, (folder / "v.jsonl.dead.jsonl").read_text().splitlines())]
    assert {each["page"]["offset"]: each["code"] for each in letters} == DEAD
    assert base64.b64decode(letters[0]["value_base64"]) == NOWHERE
    unique = [
        each["page"]["offset"] for each in map(json.loads, found) if each["verdict"] == "unique"
    ]
    for line, offset in zip(kept.read_text().splitlines(), unique, strict=True):
        page = json.loads(line)
        body = (
            base64.b64decode(page["body_base64"])
            if "body_base64" in page
            else page["body"].encode()
        )
        assert body == MESSAGES[offset][1]
        assert page["headers"] == {name: value.decode() for name, value in MESSAGES[offset][3]}


def test_produced_bodies_are_judged_as_pages(
    brokers: str, names: Names, tmp_path: Path, key_file: Path
) -> None:
    crawl, verdicts = make_crawl(tmp_path, 300), {}
    for name, value in (("pages", "page"), ("bodies", "body")):
        topic, lines = f"{names.pages}-{name}", tmp_path / f"{name}.jsonl"
        own = ("--brokers", brokers, "--value", value)
        run("produce", crawl, "--topic", topic, "--partitions", 1, *own)
        run("replay", "--from-topic", topic, "--verdicts", lines, *own, "--key-file", key_file)
        found = [json.loads(line) for line in lines.read_text().splitlines()]
        verdicts[name] = [
            (each["url"], each["verdict"], each["similarity"], each["text_bytes"]) for each in found
        ]
    assert len(verdicts["bodies"]) > 250
    assert verdicts["bodies"] == verdicts["pages"]


def test_what_does_not_go_with_bodies_ends_the_start(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("{}\n")
    verdicts = ("--verdicts", tmp_path / "v.jsonl")
    for options, said in (
        (("--from-topic", "t", "--preset", "nutch"), "The preset nutch is of messages in JSON"),
        ((tmp_path / "a.jsonl",), "Give --from-topic"),
    ):
        done = streamer("replay", *options, *RAW, *verdicts)
        assert (done.returncode, said in " ".join(done.stderr.split())) == (2, True), done.stderr
