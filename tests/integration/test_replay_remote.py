"""Files in object stores, on web servers and on the hub are to all commands what files here are.

The hub of Hugging Face itself cannot be had in tests: a server on loopback answers as it does, and
its own client library reads the same of that server. The folder that its library has saved was
written by that of `datasets`, 5.2.
"""

import gzip
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from huggingface_hub import HfApi, hf_hub_download
from pyarrow import parquet

from streamer.pages import remote
from tests.helpers.hub import NAME, TOKEN, Hub, running_hub
from tests.helpers.object_store import ObjectStore
from tests.helpers.place import Place, lines, page, said
from tests.helpers.web_server import WebServer

PAGES = [page(number - (number % 5 == 4)) for number in range(400)]
SIGNED = "X-Amz-Signature=SECRET"
pytest.importorskip("obstore")


def test_verdicts_are_those_of_the_file_here_though_the_connection_is_cut_ten_times(
    place: Place, web: WebServer
) -> None:
    path = place.write("pages.jsonl", *PAGES)
    url = web.put("/pages.jsonl", path.read_bytes())
    web.cuts, web.cut_bytes = 10, path.stat().st_size // 15
    there = place.judged("there", f"{url}?{SIGNED}")
    assert web.cuts == 0
    assert there.replace(url.encode(), str(path).encode()) == place.judged("here", path)
    assert url.encode() in there
    for made in place.folder.rglob("*"):
        assert not made.is_file() or b"SECRET" not in made.read_bytes(), made


def test_a_file_is_passed_over_while_its_tag_is_the_same_and_goes_on_where_it_ended(
    place: Place, web: WebServer, capsys: pytest.CaptureFixture[str]
) -> None:
    url = web.put("/pages.jsonl.gz", gzip.compress(b"".join(PAGES[:300])))
    assert place.replay(url) == 0
    web.asked.clear()
    assert place.replay(url) == 0
    assert web.asked == ["HEAD /pages.jsonl.gz"]
    web.put("/pages.jsonl.gz", gzip.compress(b"".join(PAGES)), "two")
    assert place.replay(url) == 0
    assert [each["page"]["offset"] for each in lines(place.verdicts)] == [*range(400)]
    web.put("/pages.jsonl.gz", gzip.compress(b"".join([*PAGES[1:], *PAGES])), "three")
    capsys.readouterr()
    assert place.replay(url) == 3
    shown = " ".join(capsys.readouterr().err.split())
    assert "has changed since the index read it: records that were judged are others" in shown
    assert len(lines(place.verdicts)) == 400


def test_a_file_that_cannot_be_read_to_its_end_is_not_taken_for_read(
    place: Place,
    web: WebServer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(remote, "BLOCK_BYTES", 30_000)
    monkeypatch.setattr(remote, "TRIES", 2)
    first, second = (web.put(f"/{name}.jsonl", b"".join(PAGES), "") for name in "ab")
    web.broken = {"/b.jsonl": 100_000}
    assert place.replay(first, second) == 1
    assert "b.jsonl: the connection ends at byte 120,000 again" in capsys.readouterr().err
    web.broken = {}
    assert place.replay(first, second) == 0
    assert [each["page"]["offset"] for each in lines(place.verdicts)] == 2 * [*range(400)]


def test_a_prefix_stands_for_the_page_files_below_it(
    place: Place, store: ObjectStore, capsys: pytest.CaptureFixture[str]
) -> None:
    below = store.files / "crawl"
    for number in range(4):
        path = below / f"{number % 2}" / f"pages {number}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"".join(PAGES[number * 100 : number * 100 + 100]))
    (below / "notes.csv").write_text("url,body\n")
    bucket = store.url.rpartition("/")[0]
    there = place.judged("there", f"{bucket}/crawl")
    assert "not read: 1 beside pages" in capsys.readouterr().out
    assert place.judged("again", f"{bucket}/crawl/") == there
    here = there.replace(f"{bucket}/".encode(), f"{store.files}/".encode())
    assert place.judged("here", below) == here
    assert len(place.judged("one", f"{bucket}/crawl/1/pages 3.jsonl").splitlines()) == 100
    shutil.rmtree(below)
    assert place.replay(f"{bucket}/crawl") == 1
    assert "is not there" in capsys.readouterr().err


def test_rows_of_remote_tables_are_kept_as_those_of_one_here(place: Place, web: WebServer) -> None:
    rows = pa.Table.from_pylist([json.loads(line) | {"score": len(line)} for line in PAGES])
    parquet.write_table(rows, path := place.folder / "in.parquet", row_group_size=60)
    kept, here = place.folder / "kept.parquet", place.folder / "here.parquet"
    for number in (1, 2):
        url = web.put(f"/{number}.parquet", path.read_bytes())
        assert place.replay(f"{url}?{SIGNED}", "--kept", kept) == 0
    outputs = "--verdicts", place.folder / "here.jsonl", "--kept", here
    assert place.streamer("replay", path, *outputs) == 0
    assert parquet.read_table(kept).equals(parquet.read_table(here))
    assert b"SECRET" not in kept.read_bytes()


def test_many_small_files_are_read_ahead_in_their_order(place: Place, web: WebServer) -> None:
    names = [f"/{number:03}.jsonl{'.gz' * (number % 3 == 0)}" for number in range(90)]
    for number, name in enumerate(names):
        data = b"".join(PAGES[4 * number : 4 * number + 4])
        data = gzip.compress(data) if name.endswith(".gz") else data
        place.write(name.lstrip("/"), data)
        web.put(name, data)
    web.delay = 0.01
    urls = [f"{web.url}{name}" for name in names]
    there = place.judged("there", *urls)
    assert 4 <= web.most <= 16
    assert sum(each.startswith("GET") for each in web.asked) == len(names)
    here = place.judged("here", *[place.folder / name.lstrip("/") for name in names])
    assert there.replace(f"{web.url}/".encode(), f"{place.folder}/".encode()) == here


TEXT = b"<html><p>one two three four five six seven eight nine</p></html>"


def reported(place: Place, capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> Any:
    """Return what a command prints as JSON; no output shows what signs a URL."""
    capsys.readouterr()
    assert place.streamer(*arguments, "--json") == 0
    said = capsys.readouterr()
    assert "SECRET" not in said.out + said.err
    return json.loads(said.out)


def test_compare_and_uniqueness_take_urls_and_lists_of_them(
    place: Place, web: WebServer, capsys: pytest.CaptureFixture[str]
) -> None:
    here = place.write("here.html", TEXT)
    method = ("--method", "minhash")
    wanted = reported(place, capsys, "compare", here, place.write("x.html", TEXT), *method)
    for name, data in (
        ("/there.html", TEXT), ("/a/page", TEXT),
        ("/one.jsonl", json.dumps({"url": "u", "body": TEXT.decode()}).encode()),
    ):  # fmt: skip
        url = web.put(name, data)
        found = reported(place, capsys, "compare", here, f"{url}?{SIGNED}", *method)
        assert found["b"] == ("u" if name == "/one.jsonl" else url)
        assert found["exact"] == wanted["exact"]
        assert found["methods"] == wanted["methods"]

    text = place.write("text.html", TEXT)
    library = web.put("/library.jsonl", page(1) + page(2))
    same = web.put("/same.html", TEXT)
    listed = place.write("all.paths", f"{library}\n{same}\n".encode())
    command = ("uniqueness", text, "--shingle-width", "3", "--against")
    assert reported(place, capsys, *command, f"{library}?{SIGNED}")["percentage"] == 100
    found = reported(place, capsys, *command, listed)
    assert (found["percentage"], found["sources_total"]) == (0, 1)
    again = ("uniqueness", f"{same}?{SIGNED}", "--against", f"{same}?{SIGNED}")
    assert place.streamer(*again, "--against", library) == 0


SAVED = Path(__file__).parents[1] / "fixtures" / "saved_dataset"
FIELDS = ("--fields", '{"url": "/url", "body": "/text"}')
HUB_FILES = {
    "README.md": b"# A crawl\n",
    "data/a b.jsonl.gz": gzip.compress(b"".join(map(page, range(30)))),
    "data/c.jsonl": b"".join(map(page, range(20, 40))),
    "data/deep/d.jsonl": b"".join(map(page, range(40, 45))),
    "other.jsonl": page(99),
}


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with running_hub() as running:
        for path, data in HUB_FILES.items():
            running.put(path, data)
        monkeypatch.setenv("HF_ENDPOINT", running.url)
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        yield running


def test_the_hubs_own_library_reads_the_same_of_this_server(hub: Hub, tmp_path: Path) -> None:
    listed = HfApi(hub.url, TOKEN).list_repo_tree(NAME, repo_type="dataset", recursive=True)
    assert sorted(each.path for each in listed if hasattr(each, "size")) == sorted(HUB_FILES)
    for name, data in HUB_FILES.items():
        read = hf_hub_download(
            NAME, name, repo_type="dataset", endpoint=hub.url, token=TOKEN, cache_dir=tmp_path
        )
        assert Path(read).read_bytes() == data


@pytest.mark.parametrize("below", ["data", "data/"])
def test_a_folder_is_read_as_the_same_folder_here(hub: Hub, place: Place, below: str) -> None:
    there = f"hf://datasets/{NAME}/data"
    here = place.folder / "data"
    (here / "deep").mkdir(parents=True)
    for name in (each for each in HUB_FILES if each.startswith("data")):
        place.write(name, HUB_FILES[name])
    found = place.judged("there", f"hf://datasets/{NAME}/{below}")
    assert found.replace(there.encode(), str(here).encode()) == place.judged("here", here)
    assert len(found.splitlines()) == 55
    assert sum("/api/" in each for each in hub.asked) == 2  # a list of three files in two pages


def test_a_dataset_and_a_file_of_a_revision_are_read(hub: Hub, place: Place) -> None:
    found = place.judged("all", f"hf://datasets/{NAME}")
    assert len(found.splitlines()) == 56
    hub.put("e.jsonl", page(7), "refs/convert/parquet")
    found = place.judged("own", f"hf://datasets/{NAME}@refs%2Fconvert%2Fparquet/e.jsonl")
    name = f"hf://datasets/{NAME}@refs%2Fconvert%2Fparquet/e.jsonl"
    assert [json.loads(line)["page"]["topic"] for line in found.splitlines()] == [name]
    hub.put("f.jsonl", page(8), "~parquet")
    assert place.judged("short", f"hf://datasets/{NAME}@~parquet/")


def test_a_run_continues_and_skips_what_has_not_changed(hub: Hub, place: Place) -> None:
    url = f"hf://datasets/{NAME}/data/c.jsonl"
    assert place.replay(url) == 0
    hub.asked.clear()
    assert place.replay(url) == 0
    assert [each.partition(" ")[0] for each in hub.asked] == ["HEAD"]
    hub.put("data/c.jsonl", HUB_FILES["data/c.jsonl"] + page(50))
    assert place.replay(url) == 0
    assert [each["page"]["offset"] for each in lines(place.verdicts)] == [*range(21)]


def test_the_token_is_shown_nowhere_and_to_no_other_host(
    hub: Hub, place: Place, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert place.replay(f"hf://datasets/{NAME}/data") == 0
    monkeypatch.setenv("HF_TOKEN", f"{TOKEN}-of-another")
    for path in ("data", "data/c.jsonl", ""):
        assert place.replay(f"hf://datasets/{NAME}/{path}") == 1
        assert "no permission to read; check the credentials" in said(capsys)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    hub.elsewhere = hub.store.url
    assert place.replay(f"hf://datasets/{NAME}") == 1
    shown = said(capsys)
    assert "its list continues on another host" in shown
    assert TOKEN not in shown
    assert "Authorization" not in hub.store.headers
    for made in place.folder.rglob("*"):
        assert not made.is_file() or TOKEN.encode() not in made.read_bytes(), made


def test_what_is_gone_is_named(hub: Hub, place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    assert place.replay(f"hf://datasets/{NAME}/no/such") == 1
    assert f"hf://datasets/{NAME}/no/such: is not there; check the URL" in said(capsys)
    for url in ("hf://models/a/b", "hf://datasets/alone", "hf://datasets/a/b@/c"):
        assert place.replay(url) in {1, 2}
        assert "hf://datasets/OWNER/NAME@REVISION/PATH" in said(capsys), url
    assert hub.files


def test_a_folder_that_was_saved_is_read_here_and_from_the_hub(hub: Hub, place: Place) -> None:
    saved = place.folder / "saved"
    shutil.copytree(SAVED, saved)
    here = place.judged("here", saved, *FIELDS)
    shards = [
        json.loads(line)["page"]["topic"].removeprefix(f"{saved}/") for line in here.splitlines()
    ]
    assert shards == [
        *["test/data-00000-of-00001.arrow"] * 2,
        *["train/data-00000-of-00002.arrow"] * 4,
        *["train/data-00001-of-00002.arrow"] * 3,
    ]
    for file in SAVED.rglob("*.*"):
        hub.put(f"saved/{file.relative_to(SAVED)}", file.read_bytes())
    there = place.judged("there", f"hf://datasets/{NAME}/saved", *FIELDS)
    assert there.replace(f"hf://datasets/{NAME}/saved".encode(), str(saved).encode()) == here
    split = place.judged("split", saved / "train", *FIELDS)
    assert [json.loads(line)["verdict"] for line in split.splitlines()] == [
        *["unique"] * 5,
        *["duplicate"] * 2,
    ]
