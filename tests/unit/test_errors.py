"""A command that lacks an extra names it, and says how it is installed."""

from pathlib import Path

import pytest

from streamer.errors import SettingsError, mask
from tests.helpers.kills import ran
from tests.helpers.verdict_lines import duplicate, unique, written

PAGES = b'{"url": "https://a.example/", "body": "one two three four five six seven eight"}\n'
REPLAY = "replay pages.jsonl --verdicts out.jsonl --method banding"


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("--url 'https://a/?token=hunter2' is wrong.", "--url 'https://a/?token=***' is wrong."),
        ("https://a/x?a=hunter2&b=hunter2#c: gone", "https://a/x?a=***&b=***#c: gone"),
        ("s3://hunter2:hunter2@bucket/x, y", "s3://***@bucket/x, y"),
        ("brokers=hunter2:hunter2@host:9092", "brokers=***@host:9092"),
        ("https://a/?hunter2.", "https://a/?***."),
        ('write to a@b.example at 12:30, {"a": 1}', 'write to a@b.example at 12:30, {"a": 1}'),
        ("https://a.example/why? yes", "https://a.example/why? yes"),
    ],
)
def test_no_message_shows_a_password_or_a_value_of_a_query(said: str, shown: str) -> None:
    assert "hunter2" not in shown
    assert mask(str(SettingsError(said))) == mask(said) == shown


@pytest.mark.parametrize(
    ("missing", "extra", "command"),
    [
        ("jinja2", "analysis", "compare pages.jsonl pages.jsonl --html out.html"),
        ("publicsuffixlist", "analysis", "clusters verdicts.jsonl --scope domain --out out.csv"),
        ("stop_words", "analysis", f"{REPLAY} --canonical stop_words=english"),
        ("snowballstemmer", "analysis", f"{REPLAY} --canonical stem=english"),
        ("matplotlib", "plot", "tune --plot out.png"),
        ("jinja2", "console", "console verdicts.jsonl --view view --port 0"),
        ("obstore", "object-store", "snapshot index s3://bucket/place"),
        ("obstore", "object-store", "replay https://a.example/a.jsonl --verdicts out.jsonl"),
    ],
)
def test_the_extra_is_named(tmp_path: Path, missing: str, extra: str, command: str) -> None:
    (tmp_path / "pages.jsonl").write_bytes(PAGES)
    written(tmp_path / "verdicts.jsonl", unique(0), duplicate(1, of=0))
    program = (
        f"import sys; sys.modules[{missing!r}] = None; from streamer.cli.main import run; run()"
    )
    done = ran(program, *command.split(), cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert f"needs {missing}" in done.stderr
    assert f"pip install '.[{extra}]'" in done.stderr
    assert "Traceback" not in done.stderr
    assert not [*tmp_path.glob("out.*")]
