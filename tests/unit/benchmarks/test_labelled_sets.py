from pathlib import Path

import msgspec

from benchmarks.labelled_sets import Set, score


def test_a_page_is_right_where_it_is_new_or_names_one_of_its_label(tmp_path: Path) -> None:
    labels = {"a": "1", "b": "1", "c": "2", "d": "1", "e": "3"}
    kinds = {"a": "original", "b": "copy", "c": "original", "d": "copy", "e": "original"}
    lines = [
        ("a", None), ("b", "a"), ("c", None),
        ("d", "c"),  # a duplicate of another page
        ("e", "a"),  # is new
    ]  # fmt: skip
    verdicts = tmp_path / "verdicts.jsonl"
    verdicts.write_bytes(
        b"\n".join(
            msgspec.json.encode({"url": url, "representative": of and {"url": of}})
            for url, of in lines
        )
    )
    found = score(Set("set", "", tmp_path, labels, kinds=kinds), verdicts)
    assert (found.new, found.false, found.seen, found.found, found.wrong) == (3, 1, 2, 1, 2)
    assert found.kinds == {"copy": (2, 1)}
