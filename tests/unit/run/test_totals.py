"""What a run reports: texts that a wrong charset has lost."""

from streamer.run.totals import LOST_PAGES, LostText, count_lost_characters


def test_a_source_with_much_text_that_a_charset_lost_is_named() -> None:
    lost, bodies = LostText(), {
        "a": [b"x" * 198 + "\ufffd\ufffd".encode()], "b": [b"x" * 97 + "\ufffd".encode(), b"y\xff"],
        "c": [b"\\ufffd" + b"z" * 20], "d": [b"x"] * LOST_PAGES + [b"\xff" * 1000],
    }  # fmt: skip
    for name, given in bodies.items():
        lost.add(name, count_lost_characters(given))
    assert lost.shares() == {"c": 0.0385, "b": 0.02}
