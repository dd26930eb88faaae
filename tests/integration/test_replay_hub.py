"""Datasets of the Hugging Face hub by hf:// addresses, and folders that its library has saved.

The hub itself cannot be had in tests: a server on loopback answers as it does, and its own client
library reads the same of that server. The saved folder was written by that of `datasets`, 5.2.
"""

import gzip
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from huggingface_hub import HfApi, hf_hub_download

from tests.helpers.hub import NAME, TOKEN, Hub, running_hub
from tests.helpers.place import Place, lines, page, said

SAVED = Path(__file__).parents[1] / "fixtures" / "saved_dataset"
FIELDS = ("--fields", '{"url": "/url", "body": "/text"}')
FILES = {
    "README.md": b"# A crawl\n",
    "data/a b.jsonl.gz": gzip.compress(b"".join(map(page, range(30)))),
    "data/c.jsonl": b"".join(map(page, range(20, 40))),
    "data/deep/d.jsonl": b"".join(map(page, range(40, 45))),
    "other.jsonl": page(99),
}


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with running_hub() as running:
        for path, data in FILES.items():
            running.put(path, data)
        monkeypatch.setenv("HF_ENDPOINT", running.url)
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        yield running


def copied(folder: Path, *names: str) -> Path:
    """Return a folder with these files of the dataset."""
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(FILES[name])
    return folder


def test_the_hubs_own_library_reads_the_same_of_this_server(hub: Hub, tmp_path: Path) -> None:
    listed = HfApi(hub.url, TOKEN).list_repo_tree(NAME, repo_type="dataset", recursive=True)
    assert sorted(each.path for each in listed if hasattr(each, "size")) == sorted(FILES)
    for name, data in FILES.items():
        read = hf_hub_download(
            NAME, name, repo_type="dataset", endpoint=hub.url, token=TOKEN, cache_dir=tmp_path
        )
        assert Path(read).read_bytes() == data


@pytest.mark.parametrize("below", ["data", "data/"])
def test_a_folder_is_read_as_the_same_folder_here(hub: Hub, place: Place, below: str) -> None:
    there = f"hf://datasets/{NAME}/data"
    here = (
        copied(place.folder / "here", *(each for each in FILES if each.startswith("data"))) / "data"
    )
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
    hub.put("data/c.jsonl", FILES["data/c.jsonl"] + page(50))
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
