"""Listings of object stores that hold what is not a path, or do not end."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote_plus, urlsplit
from xml.sax.saxutils import escape

import pytest

from streamer.errors import InputError, StoreUnavailable
from streamer.pages.files import open_sources
from streamer.pages.remote import Stores, look_up
from tests.helpers.object_store import running_store
from tests.helpers.web_server import HttpAnswers, serving

PAGE_KEYS = 3


class FakeStore:
    """The listing of a bucket; `endless` says how it goes on for ever."""

    def __init__(self) -> None:
        self.keys: list[str] = []
        self.endless = ""
        self.asked = 0

    def page(self, query: dict[str, list[str]]) -> str:
        self.asked += 1
        begin = int(query.get("continuation-token", ["0"])[0])
        keys = sorted(key for key in self.keys if key.startswith(query["prefix"][0]))
        shown = keys[begin : begin + PAGE_KEYS]
        is_last = begin + PAGE_KEYS >= len(keys)
        if self.endless:
            is_last, begin = False, begin if self.endless == "token" else begin + 1
            new = [f"p/{begin}-{n}.jsonl" for n in range(1000)]
            shown = {"new": new, "empty": []}.get(self.endless, self.keys)
        token = (
            "" if is_last else f"<NextContinuationToken>{begin + PAGE_KEYS}</NextContinuationToken>"
        )
        is_encoded = "encoding-type" in query
        items = "".join(
            f"<Contents><Key>{escape(quote_plus(key) if is_encoded else key)}</Key><Size>5</Size>"
            '<LastModified>2026-01-01T00:00:00.000Z</LastModified><ETag>"a"</ETag></Contents>'
            for key in shown
        )
        return (
            '<?xml version="1.0"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
            f"<IsTruncated>{'false' if is_last else 'true'}</IsTruncated>{items}"
            f"{token}</ListBucketResult>"
        )


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeStore]:
    pytest.importorskip("obstore")
    served = FakeStore()

    class Listing(HttpAnswers):
        def answer(self) -> None:
            query = parse_qs(urlsplit(self.path).query, keep_blank_values=True)
            self.give(200, served.page(query).encode())

    with serving(Listing) as url:
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            monkeypatch.delenv(name)
        monkeypatch.setenv("AWS_ENDPOINT", url)
        monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
        monkeypatch.setenv("AWS_REGION", "us-east-1")
        yield served


@pytest.fixture(params=["signed", "public"])
def credentials(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, fake: FakeStore
) -> None:
    assert not fake.asked, "it has removed those of the machine"
    if request.param == "public":
        monkeypatch.setenv("AWS_SKIP_SIGNATURE", "true")
    else:
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "tester")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "not-a-secret")


BAD = [
    "p/../x.jsonl", "p/..", "p/./x.jsonl", "p//x.jsonl", "p/a\tb.jsonl", "p/a\x7fb.jsonl",
    "p/a\x85b.jsonl",
]  # fmt: skip


@pytest.mark.usefixtures("credentials")
@pytest.mark.parametrize("bad", [*([key] for key in BAD), BAD])
def test_a_key_that_is_no_path_is_passed_over_and_reported(fake: FakeStore, bad: list[str]) -> None:
    good = [f"p/{n} +é.jsonl" for n in range(7)]
    fake.keys = [*good, *bad, "q/other.jsonl"]
    found = open_sources(["s3://bucket/p/"])
    assert [each.name for each in found.sources] == [f"s3://bucket/{key}" for key in good]
    assert len(found.skipped) == len(bad)
    assert all(name.startswith("s3://bucket/p/") for name in found.skipped)
    assert all(name.isprintable() for name in found.skipped)


@pytest.mark.usefixtures("credentials")
@pytest.mark.parametrize("bad", [[], ["p/../x.jsonl"]])
@pytest.mark.parametrize(
    ("endless", "reported"),
    [
        ("token", "the same files again"), ("again", "the same files again"),
        ("new", "more than 5,000 files"), ("empty", "no further file for 0.5 seconds"),
    ],
)  # fmt: skip
def test_a_listing_that_does_not_end_is_refused(
    fake: FakeStore, bad: list[str], endless: str, reported: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streamer.pages.listing.FILES_MAX", 5_000)
    monkeypatch.setattr("streamer.pages.listing.PART_SECONDS", 0.5 if endless == "empty" else 60)
    fake.keys, fake.endless = ["p/a.jsonl", *bad], endless
    with pytest.raises(
        InputError, match=rf"s3://bucket/p/: cannot be listed: .*{reported}.*\.paths"
    ):
        look_up(["s3://bucket/p/"])


def test_a_listing_of_snapshots_that_does_not_end_is_refused(
    fake: FakeStore, credentials: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    del credentials
    from streamer.upkeep import snapshot_bucket  # noqa: PLC0415 - an extra

    monkeypatch.setattr(snapshot_bucket, "_LISTING_SECONDS", 0.5)
    fake.keys, fake.endless = ["p/a"], "again"
    with pytest.raises(
        StoreUnavailable, match=r"s3://bucket/p cannot be used: the listing does not"
    ):
        snapshot_bucket.Bucket("s3://bucket/p").sizes()


def test_signed_urls_get_a_stores_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("obstore")
    from streamer.pages import listing  # noqa: PLC0415 - an extra

    with running_store(tmp_path / "store") as store:
        for name, value in store.environment.items():
            monkeypatch.setenv(name, value)
        for number in range(1100):
            file = store.files / f"p/folder {number % 3}/{number}.jsonl"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(b"{}")
        opened: Any = Stores().of("s3://bucket/p")[0]
        pages = listing._pages_of_s3(opened, "p")  # noqa: SLF001 - this gateway refuses bad keys
        found = {key: meta for page in pages for key, meta in page.items()}
        wanted = {each["path"]: each for each in listing.list_below(opened, "p", "p")[0]}
        files = {key: meta for key, meta in found.items() if meta}
        assert len(files) == len(wanted) == 1100
        assert {key: (meta["size"], meta["e_tag"]) for key, meta in files.items()} == {
            key: (meta["size"], meta["e_tag"]) for key, meta in wanted.items()
        }
