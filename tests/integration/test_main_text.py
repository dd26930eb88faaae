"""`--text main` as its users meet it: an article is found on another site, and shown in place."""

import json
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from lxml import etree

from streamer import Verdict
from streamer.testing import Replayer
from tests.helpers.commands import run
from tests.helpers.fleet import ROOT

HEAD = "What happened on this day"
ARTICLES = json.loads((ROOT / "tests" / "fixtures" / "articles.json").read_text("utf-8"))
FLOOD, STRIKE = ARTICLES["flood"], ARTICLES["strike"]
SECTIONS = ["Politics", "Sport", "Weather", "Culture", "Science", "Travel", "Markets", "Letters"]
SHELVES = ["Garden", "Kitchen", "Tools", "Paint", "Lamps", "Carpets", "Doors", "Heating"]


def site(names: list[str], article: list[str]) -> str:
    """Return an article in the furniture of the site with these sections."""
    links = "".join(
        f'<li><a href="/{n}/{i}">{n} number {i}</a></li>' for n in names for i in range(60)
    )
    text = "".join(f"<p>{each}</p>" for each in article)
    head = f"<h1>{HEAD}</h1>" if article else ""
    return (
        f'<html><head><title>{names[0]}</title></head><body><div id="nav"><ul class="menu">{links}'
        f'</ul></div><div class="article-body">{head}{text}</div><div id="footer">Copyright by '
        f"{names[1]} and {names[2]}. <a>Terms</a></div></body></html>"
    )


PAGES = {
    "http://news.example/flood": site(SECTIONS, FLOOD),
    "http://news.example/strike": site(SECTIONS, STRIKE),
    "http://shop.example/flood": site(SHELVES, FLOOD),
    "http://shop.example/": site(SHELVES, []),
    "http://shop.example/again": site(SHELVES, []),
    "http://text.example/": " ".join(STRIKE),
}


def found(verdicts: Sequence[Verdict]) -> dict[str, str]:
    """Return the representative of each duplicate, both by the ends of their URLs."""
    return {
        each.url.removeprefix("http://"): each.representative.url.removeprefix("http://")
        for each in verdicts
        if each.representative
    }


def test_an_article_is_found_on_another_site_and_another_one_in_the_same_furniture_is_none(
    streamer_replay: Replayer,
) -> None:
    visible = streamer_replay(PAGES.items())
    assert found(visible) == {
        "news.example/strike": "news.example/flood",
        "shop.example/": "shop.example/flood",
        "shop.example/again": "shop.example/flood",
    }
    assert {each.text for each in visible} == {msgspec.UNSET}
    main = streamer_replay(PAGES.items(), text="main")
    assert found(main) == {
        "shop.example/flood": "news.example/flood",
        "shop.example/again": "shop.example/",
        "text.example/": "news.example/strike",
    }
    assert {each.url.removeprefix("http://"): each.text for each in main} == {
        "news.example/flood": "main", "news.example/strike": "main", "shop.example/flood": "main",
        "shop.example/": "visible", "shop.example/again": "visible", "text.example/": "visible",
    }  # fmt: skip


def test_a_page_that_falls_back_needs_the_fallback_threshold_and_explain_says_so(
    streamer_replay: Replayer, tmp_path: Path
) -> None:
    edited = site([*SHELVES[:6], "Wood", "Glass"], [])
    pages = [*PAGES.items(), ("http://shop.example/edited", edited)]
    lax = streamer_replay(pages, preset=["broad"], fallback_threshold=0)
    assert "shop.example/edited" in found(lax)
    strict = streamer_replay(pages, preset=["broad"])
    assert found(strict) == {
        page: other for page, other in found(lax).items() if page != "shop.example/edited"
    }
    for asked in ("edited", ""):  # the later page and the earlier one, which rows do not tell
        url = f"http://shop.example/{asked}"
        report = json.loads(run("explain", url, "--index", strict.index_folder, "--json"))
        assert (report["verdict"], report["threshold"]) == ("unique", 0.7)
        assert 0.5 <= report["nearest"]["similarity"] < 0.7
        assert "the later one probably has no main text" in report["why"]
    own = tmp_path / "own.html"
    own.write_text(site([*SHELVES[:6], "Oil", "Salt"], []), "utf-8")
    report = json.loads(run("explain", own, "--index", strict.index_folder, "--json"))
    assert "It has no main text" in report["why"]


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    one, other = tmp_path / "one.html", tmp_path / "other.html"
    one.write_text(PAGES["http://news.example/flood"], "utf-8")
    other.write_text(PAGES["http://shop.example/flood"], "utf-8")
    return one, other


def test_explain_shows_which_blocks_counted(
    streamer_replay: Replayer, tmp_path: Path, files: tuple[Path, Path]
) -> None:
    index = streamer_replay(PAGES.items(), text="main").index_folder
    arguments = ["explain", files[1], "--index", index]
    report = json.loads(run(*arguments, "--json"))
    assert report["verdict"] == "duplicate"
    assert report["nearest"]["url"] == "http://news.example/flood"
    counting = [each["text"].strip() for each in report["blocks"] if each["counts"]]
    assert [each for each in counting if each != HEAD] == FLOOD  # a headline may count or not
    others = " ".join(each["text"] for each in report["blocks"] if not each["counts"])
    assert all(word in others for word in (*SHELVES, "Copyright", "Terms"))
    shown = run(*arguments, columns=100)
    assert "what belongs to its site dim" in shown
    assert all(each in shown for each in FLOOD)
    list_page = tmp_path / "list.html"
    list_page.write_text(PAGES["http://shop.example/"], "utf-8")
    shown = run("explain", list_page, "--index", index, columns=100)
    assert "All visible text counts: the page has no main text." in shown


def test_compare_shows_which_blocks_counted_and_compares_nothing_else(
    tmp_path: Path, files: tuple[Path, Path]
) -> None:
    out = tmp_path / "out.html"
    options = ["--method", "minhash", "--text", "main", "--html", out]
    report = json.loads(run("compare", *files, *options, "--json"))
    assert report["exact"]["jaccard"] == 1
    assert report["methods"][0]["duplicate"]
    page = etree.HTML(out.read_text("utf-8"))
    for article, names in zip(page.findall(".//article"), (SECTIONS, SHELVES), strict=True):
        aside = " ".join("".join(each.itertext()) for each in article.findall(".//span"))
        shared = " ".join("".join(each.itertext()) for each in article.findall(".//a"))
        assert all(name in aside for name in names)
        assert all(each.strip("“.") in shared for each in FLOOD)
        assert not any(name in shared for name in names)
    visible = json.loads(run("compare", *files, "--method", "minhash", "--json"))
    assert visible["exact"]["jaccard"] < 0.5
    assert not visible["methods"][0]["duplicate"]
