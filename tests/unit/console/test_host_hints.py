"""The view of one host: its hints, and a host that is not there."""

import json
from pathlib import Path

import pytest

from streamer.console.answers import ConsoleData, NotFound
from streamer.console.host_hints import HostQuery, host
from tests.helpers.verdict_lines import duplicate, unique
from tests.unit.console.conftest import folded
from tests.unit.console.test_server import ask

HOST = "shop.example"


def test_a_host_has_the_hints_of_its_pages(tmp_path: Path) -> None:
    lines = []
    for n in range(0, 60, 2):
        url = f"https://{HOST}/item?id={n}&<b>sid="
        lines += [unique(n, f"{url}a"), duplicate(n + 1, of=n, url=f"{url}b")]
    words = ["help", "tours", "jobs", "press", "shop", "terms", "faq", "map", "about", "team"]
    lines += [
        duplicate(60 + n, of=99, url=f"https://{HOST}/{word}") for n, word in enumerate(words)
    ]
    with folded(tmp_path, *lines) as data:
        found = host(data, HostQuery(HOST.upper()))
        assert found.host is not None
        assert (found.host.pages, found.host.duplicates, found.examined) == (70, 40, 70)
        said = [(hint.kind, hint.name, hint.support) for hint in found.hints]
        assert said == [("parameter", "<b>sid", 30), ("soft_404", "", 10)]
        answer = ask(data, f"/host.json?host={HOST}")
        assert json.loads(answer.text)["hints"][0]["name"] == "<b>sid"
        page = ask(data, f"/host?host={HOST}").text
        assert "&lt;b&gt;sid" in page
        assert "<b>sid" not in page
        assert f'href="/host?host={HOST}"' in ask(data, "/hosts").text


def test_a_host_without_hints_says_so_and_one_without_pages_is_not_found(data: ConsoleData) -> None:
    assert "Nothing that its verdicts show" in ask(data, "/host?host=www.site0.example").text
    assert ask(data, "/host?host=none.example").status == 404
    with pytest.raises(NotFound, match=r"no page of the host none\.example"):
        host(data, HostQuery("none.example"))
    assert host(data, HostQuery()).host is None
