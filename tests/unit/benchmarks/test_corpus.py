from pathlib import Path

import msgspec

from benchmarks import corpus
from benchmarks.corpus_file import obtain


def test_a_file_of_the_corpus_is_made_once_and_has_a_page_in_each_line(tmp_path: Path) -> None:
    made, found = obtain(tmp_path, 20), obtain(tmp_path, 20)
    assert made.seconds is not None
    assert found.seconds is None
    lines = found.path.read_bytes().splitlines(keepends=True)
    assert lines == [*corpus.generate(20)]
    assert len({msgspec.json.decode(line)["url"] for line in lines}) == 20
