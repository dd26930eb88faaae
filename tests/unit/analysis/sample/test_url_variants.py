"""Sites with several URLs a page: the same bytes each time, and the truth about them."""

import hashlib
import json
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from streamer.analysis.sample.url_variants import KINDS, PAGES_FILE, TRUTH_FILE, write_url_variants
from streamer.errors import InputError
from tests.helpers.url_truth import url_truth


def test_the_same_seed_gives_the_same_bytes_on_every_machine(tmp_path: Path) -> None:
    pages = write_url_variants(tmp_path, 1, seed=3)
    content = (tmp_path / PAGES_FILE).read_bytes()
    assert content.count(b"\n") == pages > 1_500
    digest = hashlib.blake2b(content + (tmp_path / TRUTH_FILE).read_bytes(), digest_size=8)
    assert digest.hexdigest() == "7213850ec01cfc06"


def test_the_truth_is_of_hosts_with_pages_and_counter_examples_have_none(tmp_path: Path) -> None:
    write_url_variants(tmp_path, 1)
    lines = (tmp_path / PAGES_FILE).read_text("utf-8").splitlines()
    hosts = {urlsplit(json.loads(line)["url"]).hostname for line in lines}
    assert len(hosts) == len(KINDS)
    truth = url_truth(tmp_path / TRUTH_FILE)
    assert len(truth) == sum(map(len, KINDS.values()))
    assert len(hosts - {host for host, *_ in truth}) == sum(not true for true in KINDS.values()) > 2


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    path = tmp_path / "truth.tsv"
    path.write_text("ordinal\turl\n", "utf-8")
    with pytest.raises(InputError, match="choose another folder"):
        write_url_variants(path, 1)
