"""Files that tools leave next to pages are known, and passed over by kind."""

import io
import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from streamer.errors import InputError
from streamer.pages.files import Sources, open_sources
from streamer.pages.folders import FolderChoice

HIDDEN, SITE, DATASET = "hidden", "site_metadata", "dataset_metadata"
CRAWL = "crawl_metadata"
BODIES = frozenset({"body"})
PAGE = '{"url": "u", "body": "words"}\n'


def read(folder: Path, files: dict[str, str | bytes], **choice: Any) -> Sources:
    """Write files, and return what of them is read."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return open_sources([str(folder)], choice=FolderChoice(bodies=BODIES, **choice))


def names(folder: Path, found: Sources) -> list[str]:
    return [str(Path(source.name).relative_to(folder)) for source in found.sources]


def rows(*urls: str) -> bytes:
    out = io.BytesIO()
    parquet.write_table(pa.table({"url": list(urls), "body": ["x" for _ in urls]}), out)
    return out.getvalue()


@pytest.mark.parametrize(
    ("pages", "others"),
    [
        ({"d/a.html": "<p>x", "index.html": "<p>x"}, {
            "_static/glossary.json": ("{}", HIDDEN), "_sources/a.rst.txt": ("x", HIDDEN),
            "search/search_index.json": ("{}", SITE), "robots.txt": ("", SITE),
            "package.json": ("{}", DATASET), "api/terms.json": ("[1]", "no_page_body"),
            "nav.json": ('[{"title": "t"}]', "no_page_body"), "sitemap.xml": ("", "unknown_format"),
            ".git/x.md": ("x", HIDDEN),
        }),
        ({"_posts/a.md": "x", "_index.md": "x"}, {".cache/b.md": ("x", HIDDEN)}),
        ({"data/train-0.parquet": rows("a")}, {
            "dataset_infos.json": ("{}", DATASET), "README.md": ("x", "beside_pages"),
            "state.json": ('{"_data_files": []}', DATASET),
            ".gitattributes": ("x", HIDDEN), "_SUCCESS": ("", HIDDEN),
            "_metadata.parquet": (rows("b"), HIDDEN), "croissant.json": ("{}", DATASET),
        }),
        ({"train.jsonl": PAGE}, {"dataset_info.json": ("{}", DATASET),
                                 "labels.json": ('{"0": "cat"}', "no_page_body")}),
        ({"c/archive/a.warc": "WARC/1.0\r\n", "other/b.jsonl": PAGE}, {
            "c/pages/pages.jsonl": (PAGE, CRAWL), "c/logs/x.jsonl": ("{}", CRAWL),
            "c/indexes/i.cdxj": ("x", CRAWL), "c/datapackage.json": ("{}", DATASET),
        }),
        ({"pages/pages.jsonl": PAGE}, {}),
        ({"t/data/0.parquet": rows("a")}, {
            "t/metadata/v1.metadata.json": ("{}", "iceberg_metadata"),
            "t/metadata/snap.jsonl": ("{}", "iceberg_metadata"),
        }),
        ({"a.parquet": rows("a")}, {".hoodie/20260101.json": ("{}", "hudi_metadata")}),
        ({"a.json": PAGE, "b.json": "[" + PAGE + "]", "c.json": "{}"}, {}),  # which may lack all
    ],
    ids=["site", "jekyll", "hub", "lines", "browsertrix", "its pages", "iceberg", "hudi", "json"],
)  # fmt: skip
def test_what_tools_leave_beside_pages_is_passed_over_by_kind(
    tmp_path: Path, pages: dict[str, str], others: dict[str, tuple[str, str]]
) -> None:
    found = read(tmp_path, {**pages, **{name: content for name, (content, _) in others.items()}})
    assert names(tmp_path, found) == sorted(pages)
    kinds = {str(Path(name).relative_to(tmp_path)): kind for name, kind in found.skipped.items()}
    assert kinds == {name: kind for name, (_, kind) in others.items()}


def test_patterns_say_which_files_of_a_folder_are_read(tmp_path: Path) -> None:
    files: dict[str, str | bytes] = {
        "a.html": "x", "b/c.json": "{}", "b/d.csv": "url,body\n", "_data/e.jsonl": PAGE,
        "f.jsonl": PAGE,
    }  # fmt: skip

    def chosen(include: Sequence[str], exclude: Sequence[str] = ()) -> list[str]:
        return names(tmp_path, read(tmp_path, files, include=include, exclude=exclude))

    assert chosen(["*.html", "*.csv"]) == ["a.html", "b/d.csv"]
    assert chosen(["*"], ["b/*"]) == ["a.html", "f.jsonl"]
    assert chosen(["_data/*"]) == ["_data/e.jsonl"]
    assert chosen([], ["*.jsonl", "b/*"]) == ["a.html"]
    with pytest.raises(InputError, match=r"5 files are passed over, as .*e\.jsonl \(excluded\)"):
        chosen(["*.htlm"])


def test_links_to_folders_and_pipes_are_told_and_what_cannot_be_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read(tmp_path / "other", {"b.jsonl": PAGE})
    here = tmp_path / "here"
    files: dict[str, str | bytes] = {"a.jsonl": PAGE}
    read(here, files)
    (here / "day").symlink_to(tmp_path / "other")
    (here / "same.jsonl").symlink_to(tmp_path / "other/b.jsonl")
    os.mkfifo(here / "pipe.jsonl")
    found = read(here, files)
    assert names(here, found) == ["a.jsonl", "same.jsonl"]
    assert sorted(found.skipped.values()) == ["link_to_a_folder", "pipe_or_device"]
    (here / "lost.jsonl").symlink_to(here / "nothing")
    with pytest.raises(InputError, match=r"lost\.jsonl: is a link to nothing; fetch"):
        read(here, files)
    monkeypatch.setattr(os, "scandir", refuse)  # root may read everything
    with pytest.raises(InputError, match="here: no permission to read the folder; change"):
        read(here, files)


def refuse(path: object) -> None:
    raise PermissionError(13, "Permission denied", str(path))


def test_a_folder_may_be_deeper_than_calls_nest(tmp_path: Path) -> None:
    top = os.open(tmp_path, os.O_RDONLY)
    folder = os.dup(top)
    for _ in range(1100):
        os.mkdir("d", dir_fd=folder)
        below = os.open("d", os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = below
    os.close(os.open("a.html", os.O_CREAT, dir_fd=folder))
    os.close(folder)
    os.close(top)
    try:
        assert [Path(source.name).name for source in read(tmp_path, {}).sources] == ["a.html"]
    finally:
        subprocess.run(["rm", "-r", tmp_path / "d"], check=True)  # noqa: S607 - shutil nests too


def delta(*commits: list[dict[str, Any]]) -> dict[str, str | bytes]:
    return {
        f"t/_delta_log/{number:020}.json": "\n".join(map(json.dumps, commit))
        for number, commit in enumerate(commits)
    }


def add(path: str, **more: Any) -> dict[str, Any]:
    return {"add": {"path": path, "size": 1, **more}}


FILES = {f"t/{name}.parquet": rows(name) for name in ("0", "1", "y=a%20b/2", "stray")}


def test_of_a_delta_table_the_files_that_it_still_has_are_read(tmp_path: Path) -> None:
    log = delta(
        [{"protocol": {}}, add("0.parquet"), add("1.parquet"), add("y=a%2520b/2.parquet")],
        [{"remove": {"path": "1.parquet"}}],
    )
    found = read(tmp_path, {**FILES, **log, "other/x.parquet": rows("x")})
    assert names(tmp_path, found) == ["other/x.parquet", "t/0.parquet", "t/y=a%20b/2.parquet"]
    removed = [name for name, kind in found.skipped.items() if kind == "removed_from_delta_table"]
    assert removed == [str(tmp_path / "t" / name) for name in ("1.parquet", "stray.parquet")]


def test_the_log_of_a_delta_table_begins_at_its_checkpoint(tmp_path: Path) -> None:
    out = io.BytesIO()
    state = [{"add": {"path": "0.parquet"}}, {"add": {"path": "1.parquet"}}, {"add": None}]
    parquet.write_table(pa.Table.from_pylist(state), out)
    log = delta([], [], [{"remove": {"path": "0.parquet"}}])
    del log[f"t/_delta_log/{0:020}.json"]
    with pytest.raises(InputError, match="does not begin here, and has no checkpoint"):
        read(tmp_path, {**FILES, **log})
    log[f"t/_delta_log/{1:020}.checkpoint.parquet"] = out.getvalue()
    assert names(tmp_path, read(tmp_path, {**FILES, **log})) == ["t/1.parquet"]


@pytest.mark.parametrize(
    ("log", "why"),
    [
        (delta([add("0.parquet", deletionVector={"storageType": "u"})]), "marks rows of 0.parquet"),
        (delta([]) | {f"t/_delta_log/{1:020}.json": "{"}, "t/_delta_log/0+1.json: cannot be read"),
    ],
)
def test_a_delta_table_that_cannot_be_read_right_is_refused(
    tmp_path: Path, log: dict[str, str | bytes], why: str
) -> None:
    with pytest.raises(InputError, match=why):
        read(tmp_path, {**FILES, **log})
