"""`streamer dead-letters`: counts, and the records as they were, of replays and of workers.

A worker goes on behind messages that are larger expanded than their topics take.
"""

import base64
import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from streamer.cli.dead_letters import CHARACTERS_SHOWN, LETTERS_SHOWN, REMEDIES, SOURCES_SHOWN
from streamer.kafka.topics import Names
from tests.helpers.broker import Sent, fill_topic, make_topic, messages_of, send, verdicts_of
from tests.helpers.fleet import exit_code, fleet
from tests.helpers.place import Place, lines, page

ROOT = Path(__file__).parents[2]
HOSTILE = '{"body": "\x1b[2J\u202e\\u0000 gr\u00fc\u00df"}'.encode() + b"\xff"
NO_URL = b'{"body": "text", "key": 1}'
BAD = [b"{broken", NO_URL, HOSTILE, b"[1]", b'{"url": "http://a.example/", "body": ""}']
CODES = ["invalid_json", "missing_url", "invalid_json", "not_an_object", "empty_body"]
LONG = b'{"url": "http://a.example/long", "body": "' + b"w" * (80 << 10)


class Command:
    """`streamer dead-letters`, in this process; `err` is what the last call said."""

    def __init__(self, printed: pytest.CaptureFixture[str]) -> None:
        self._printed = printed
        self.err = ""

    def __call__(self, *arguments: object, code: int = 0) -> str:
        """Return what it prints."""
        self._printed.readouterr()
        assert exit_code("dead-letters", *arguments) == code
        out, self.err = self._printed.readouterr()
        return out


@pytest.fixture
def command(capfd: pytest.CaptureFixture[str]) -> Command:
    return Command(capfd)


def letters_of(place: Place, name: str, *records: bytes, **files: Sequence[bytes]) -> Path:
    """Return the file of the dead letters of a replay of pages.jsonl and other files."""
    out = place.folder / name
    given = [place.write("pages.jsonl", *(record + b"\n" for record in records))]
    given += [place.write(f"{other}.jsonl", *parts) for other, parts in files.items()]
    options: list[str | Path] = ["--page-bytes-max", "80000", "--keep-going", "--dead-letters", out]
    assert place.streamer("replay", *given, "--verdicts", place.verdicts, *options) in (0, 1)
    return out


@pytest.mark.parametrize("name", ["dead.jsonl", "dead.jsonl.gz", "dead.jsonl.zst"])
def test_files_are_counted_by_code_and_source(place: Place, command: Command, name: str) -> None:
    letters = letters_of(place, name, page(1)[:-1], *BAD, other=[b"{\n", page(2), b"[2]\n"])
    found = {each["code"]: each for each in json.loads(command("list", letters, "--json"))}
    assert {code: each["letters"] for code, each in found.items()} == {
        "invalid_json": 3, "missing_url": 1, "not_an_object": 2, "empty_body": 1,
    }  # fmt: skip
    assert found["missing_url"]["remedy"] == "Check --fields."
    pages, other = str(place.folder / "pages.jsonl"), str(place.folder / "other.jsonl")
    first = {"topic": pages, "partition": 0, "offset": 2}
    detail = "none of the mapping's places holds one"
    assert found["missing_url"]["sources"] == [
        {"source": pages, "letters": 1, "page": first, "detail": detail}
    ]
    assert [each["source"] for each in found["invalid_json"]["sources"]] == [pages, other]
    shown = command("list", letters)
    example = f"        1 in {pages}, such as record 2: {detail}"
    assert f"missing_url: 1. Check --fields.\n{example}\n" in shown
    assert shown.endswith("7 dead letters\n")
    assert command("list", letters, "--code", "empty_body").startswith("empty_body: 1.")
    for action in ("list", "show"):
        assert command(action, letters, "--code", "empty-body", code=2) == ""
        assert "There is no code empty-body. Did you mean empty_body?" in command.err
    command("retry", "--index-name", "a", "--code", "wrong", code=2)
    assert "There is no code wrong. It may be" in command.err
    twice = json.loads(command("list", letters, letters, "--json"))
    assert sum(each["letters"] for each in twice) == 14


def test_of_many_sources_those_with_most_are_listed(place: Place, command: Command) -> None:
    many = {f"f{i}": [b"7\n"] * (i + 1) for i in range(SOURCES_SHOWN + 2)}
    letters = letters_of(place, "dead.jsonl", **many)
    *shown, rest, total = command("list", letters).splitlines()[1:]
    assert [int(line.split()[0]) for line in shown] == [*range(12, 2, -1)]
    assert rest.split() == ["3", "in", "2", "more", "sources,", "which", "--json", "lists"]
    assert total == "78 dead letters"


def test_records_are_lines_that_no_terminal_obeys(place: Place, command: Command) -> None:
    shown = command("show", letters_of(place, "dead.jsonl", *BAD, LONG))
    assert all(one.isprintable() or one == "\n" for one in shown)
    assert r'{"body": "\x1b[2J\u202e\u0000 grüß"}\xff' in shown
    source = place.folder / "pages.jsonl"
    assert f"invalid_json in {source}, record 0: " in shown
    assert "    26 bytes: " + NO_URL.decode() + "\n" in shown
    last = shown.splitlines()[-1]
    assert last.startswith(f"    {len(LONG):,} bytes, cut: {{")
    assert len(last) < CHARACTERS_SHOWN + 50
    assert last.endswith("www...")


def test_only_so_many_are_shown(place: Place, command: Command) -> None:
    letters = letters_of(place, "dead.jsonl", *[b"[1]"] * (LETTERS_SHOWN + 1))
    for options, count in [((), LETTERS_SHOWN), (("--limit", 1), 1), (("--limit", 11), 11)]:
        assert command("show", letters, *options).count("not_an_object in ") == count
        more = f"There are more than {count}: see --limit, or --out.\n"
        assert command.err == (more if count <= LETTERS_SHOWN else "")


def test_records_are_written_as_they_were_and_judged_again(place: Place, command: Command) -> None:
    letters = letters_of(place, "dead.jsonl", *BAD)
    out = place.folder / "again.jsonl"
    assert command("show", letters, "--out", out) == ""
    assert out.read_bytes() == b"".join(record + b"\n" for record in BAD)
    shown = command("show", letters, "--json")
    assert [json.loads(line)["code"] for line in shown.splitlines()] == CODES
    assert shown.encode() == letters.read_bytes()
    one = letters, "--code", "missing_url", "--limit", 1
    assert command("show", *one, "--out", "-").encode() == NO_URL + b"\n"
    fields = '{"url": "/key", "body": "/body"}'
    assert command("show", *one, "--out", out, "--overwrite") == ""
    assert place.streamer("replay", out, "--fields", fields, "--verdicts", place.folder / "v") == 0
    assert [each["url"] for each in lines(place.folder / "v")] == ["1"]


def test_what_is_cut_or_no_line_is_told_of(place: Place, command: Command) -> None:
    letters = letters_of(place, "dead.jsonl", LONG)
    out = place.folder / "out"
    command("show", letters, "--out", out)
    assert "1 of the records are cut" in command.err
    assert out.read_bytes() == LONG[: 64 << 10] + b"\n"
    block = b"HTTP/1.1 \r\n\r\nno status"
    record = b"WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: http://a.example/\r\n"
    record += b"Content-Type: application/http\r\nContent-Length: %d\r\n\r\n" % len(block)
    warc = place.write("a.warc", record + block + b"\r\n\r\n")
    options = "--verdicts", place.verdicts, "--dead-letters", place.folder / "warc.jsonl"
    assert place.streamer("replay", warc, "--keep-going", *options) == 1
    command("show", place.folder / "warc.jsonl", "--out", out, "--overwrite")
    assert "1 of the records are no lines" in command.err
    assert out.read_bytes() == block


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ((), 2, "Name files of dead letters"),
        (("verdicts.jsonl", "--from-topic", "pages-dlt"), 2, "Name files of dead letters"),
        (("verdicts.jsonl", "--index-name", "other"), 2, "Name files of dead letters"),
        (("verdicts.jsonl",), 1, "verdicts.jsonl:1: not a dead letter"),
        (("nothing.jsonl",), 1, "nothing.jsonl: No such file"),
        (("--index-name", "/"), 2, "--index-name cannot be '/'"),
    ],
)
def test_what_cannot_be_read_is_an_error(
    place: Place, arguments: Sequence[str], code: int, said: str,
    command: Command, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(place.folder)
    place.write("verdicts.jsonl", b'{"page": 1}\n')
    place.write("out", b"as it was")
    for words in (["list"], ["show"], ["show", "--out", "out", "--overwrite"]):
        assert command(*words, *arguments, code=code) == ""
        assert said in command.err
    assert (place.folder / "out").read_bytes() == b"as it was"


def test_no_input_is_written_over(place: Place, command: Command) -> None:
    letters = letters_of(place, "dead.jsonl", *BAD)
    before = letters.read_bytes()
    command("show", letters, "--out", letters, code=2)
    assert letters.read_bytes() == before
    damaged = json.loads(before.splitlines()[0]) | {"value_base64": "a"}
    place.write("damaged.jsonl", json.dumps(damaged).encode())
    command("show", place.folder / "damaged.jsonl", code=1)
    assert "record 0 is damaged" in command.err


def test_the_letters_of_a_worker_are_those_of_its_topic(
    brokers: str, names: Names, tmp_path: Path, command: Command
) -> None:
    sent: list[Sent] = [(b"\x00k%d" % i, record) for i, record in enumerate(BAD)]
    fill_topic(brokers, names.pages, [(b"page", page(1)), *sent], partitions=2)
    with fleet(tmp_path, brokers, names) as workers:
        workers.settle("all", "--index", tmp_path / "index")
    topic = "--from-topic", names.dead_letters, "--brokers", brokers
    send(brokers, names.dead_letters, [(None, b"of another program")])
    found = {each["code"]: each for each in json.loads(command("list", *topic, "--json"))}
    counts = {code: CODES.count(code) for code in CODES} | {"unknown": 1}
    assert {code: each["letters"] for code, each in found.items()} == counts
    first = {"topic": names.pages, "partition": 0, "offset": 2}
    assert found["missing_url"]["sources"][0]["page"] == first
    index = "--index-name", names.index, "--input-topic", names.pages, "--brokers", brokers
    assert json.loads(command("list", *index, "--json")) == [
        each for each in found.values() if each["code"] != "unknown"
    ]
    own = [json.loads(line) for line in command("show", *index, "--json").splitlines()]
    assert [each["page"]["offset"] for each in own] == [*range(1, 6)]
    assert [base64.b64decode(each["key_base64"]) for each in own] == [key for key, _ in sent if key]
    assert "    key: \\x00k1\n" in command("show", *topic)
    assert len(messages_of(brokers, names.dead_letters)[0]) == 6, "nothing is sent"
    for way in ("list", "retry"):
        command(way, *index[2:], "--index-name", "mistyped", code=1)
        assert "There is no index mistyped" in command.err
        make_topic(brokers, other := f"{names.pages}-{way}")
        make_topic(brokers, f"{other}-dlt")
        of_other = "--input-topic", other, "--index-name", names.index, "--brokers", brokers
        command(way, *of_other, code=3)
        assert "Name its topic with --input-topic" in command.err


def test_what_is_sent_again_gets_verdicts_and_no_loop(
    brokers: str, names: Names, tmp_path: Path, command: Command
) -> None:
    message = json.dumps({"uri": "http://a.example/", "body": "text"}).encode()
    cut = b'{"body": "' + b"w" * (2 << 20)
    bad: list[Sent] = [(b"k\x00", message), (b"bad", b"{broken"), (b"cut", cut)]
    fill_topic(brokers, names.pages, bad)
    topic = "--from-topic", names.dead_letters, "--brokers", brokers
    with fleet(tmp_path, brokers, names) as workers:
        workers.settle("all", "--index", tmp_path / "index")
        index = "--index-name", names.index, "--input-topic", names.pages
        shown = command("retry", *index, *topic[2:], "--code", "missing_url", "--dry-run")
        assert f"would be sent     1 to {names.pages}\n" in shown
        assert "not asked for     2\n" in shown
        assert len(messages_of(brokers, names.pages)[0]) == 3
        workers.kill("all")
        fields = json.dumps({"url": ["/url", "/uri"], "body": "/body"})
        workers.start("all", "--index", tmp_path / "index", "--fields", fields)
        workers.wait_for_log("all", "worker_started")
        offsets: list[str] = []
        for run in range(4):
            shown = command("retry", *topic, "--max-retries", "2", *offsets)
            offsets = shown.split("go on with")[1].split()
            workers.wait_until_settled()
            found = messages_of(brokers, names.pages)[0][3:]
            counts = [int(value) for message in found for _, value in message.headers]
            assert counts == [[1, 1, 1], [1, 1, 1, 2, 2]][min(run, 1)], shown
        assert "sent too often    0\n" in shown, "they are behind the offsets"
        workers.see_that_all_holds()
    assert {(message.key, message.value) for message in found} == set(bad)
    verdicts = [json.loads(each) for each in verdicts_of(brokers, names)]
    assert [(each["url"], each["page"]["offset"]) for each in verdicts] == [
        ("http://a.example/", 3)
    ]
    letters = len(messages_of(brokers, names.dead_letters)[0])
    assert offsets == ["--offsets", f"0:{letters}-"]
    assert "sent too often    4\n" in command("retry", *topic, "--max-retries", "1", "--dry-run")
    send(brokers, names.dead_letters, [(b"k", b"of another program"), (b"k", None)])
    assert "not asked for     2\n" in command("retry", *topic, *offsets)
    for options, code, said in (
        (("--from-topic", names.pages), 2, "is no topic of dead letters"),
        (("--from-topic", "none-dlt", *topic[2:]), 1, "There is no topic none"),
        ((), 2, "give it to `streamer replay`"),
    ):
        command("retry", *options, code=code)
        assert said in command.err


def test_each_code_has_the_remedy_of_the_document() -> None:
    document = (ROOT / "docs" / "dead-letters.md").read_text("utf-8")
    table = document.split("## Codes of dead letters")[1].split("## Codes of skipped")[0]
    rows = re.findall(r"^\| `(\w+)` \| .+? \| (.+?) \|$", table, re.MULTILINE)
    assert {code: remedy.replace("`", "") for code, remedy in rows} == REMEDIES


def test_each_code_that_a_record_may_get_is_known() -> None:
    sources = (path.read_text("utf-8") for path in (ROOT / "streamer" / "pages").glob("*.py"))
    source = "\n".join(sources)
    raised = {*re.findall(r'(?:InvalidPage\(|RejectedRecord\([^"]*)"(\w+)"', source)}
    for name in {*re.findall(r"InvalidPage\((\w+)\b", source)}:
        raised |= {*re.findall(rf'^{name} = "(\w+)"', source, re.MULTILINE)}
    assert raised == REMEDIES.keys()


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
