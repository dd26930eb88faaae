"""Main text: what is taken of a page, what falls back, hostile pages, and models."""

import html
import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamer.errors import SettingsError
from streamer.sketch.method_signer import make_signer
from streamer.sketch.scheme import choose
from streamer.sketch.settings import MAIN_TEXT
from streamer.text import blocks, main_text
from streamer.text.html import text_bytes_max
from streamer.text.scan import Bytes
from streamer.text.visible import ESCAPED, HTML, MAIN, text_parts, visible_text

SECRET = bytes(32)

ARTICLE = [
    "The river rose by two metres in one night, and the people of the lower town were not told.",
    "“We heard the water before we saw it,” said a baker whose shop stands near the old bridge.",
    "The council met at noon. It decided that the dam would be opened, slowly, on the next day.",
    "Nobody was hurt, but forty houses are damp, and the school will stay closed until Monday.",
    "An engineer who had warned of the flood in spring was asked to speak; he declined politely.",
]
LINKS = "".join(f'<li><a href="/{i}">Section {i}</a></li>' for i in range(12))
PAGE = (
    "<html><head><title>Flood</title></head><body>"
    f'<div id="nav"><ul class="menu">{LINKS}</ul></div>'
    '<div class="article-body"><h1>The river rose in one night</h1>'
    + "".join(f"<p>{each}</p>" for each in ARTICLE)
    + f'</div><div class="sidebar"><h3>Most read</h3><ul>{LINKS}</ul></div>'
    '<div id="footer"><p>Copyright 2020 Example Media. <a href="/terms">Terms</a></p></div></body>'
)
FRONT_PAGE = f'<body><div class="menu"><ul>{LINKS * 4}</ul></div><table>{LINKS}</table>'


def test_an_article_is_taken_and_its_sites_furniture_is_not() -> None:
    text = visible_text(PAGE.encode(), HTML | MAIN)
    assert all(each in text for each in ARTICLE)
    assert not any(word in text for word in ("Section", "Most read", "Copyright", "Terms"))
    parts = text_parts(PAGE.encode(), HTML | MAIN)
    assert "".join(part.text for part in parts if part.counts) == text
    assert "".join(part.text for part in parts) == visible_text(PAGE.encode(), HTML)


@pytest.mark.parametrize("page", [FRONT_PAGE, "", "<p>", "<p>Two words", LINKS])
def test_of_a_page_without_main_text_all_visible_text_is_taken(page: str) -> None:
    assert visible_text(page.encode(), HTML | MAIN) == visible_text(page.encode(), HTML)
    assert [part.counts for part in text_parts(page.encode(), HTML | MAIN)] in ([True], [])


def framed(contents: str) -> bytes:
    """Return a page with these contents, in the furniture of a site."""
    return (
        f"<html><head><title>Example</title></head><body><header><a href=/>Example</a></header>"
        f"<nav><ul>{LINKS}</ul></nav><section>{contents}</section><aside><h4>Most read</h4><ul>"
        f"{LINKS}</ul></aside><footer>Copyright 2020 Example Media. All rights reserved.</footer>"
    ).encode()


def repeated(one: str, count: int) -> str:
    """Return a thing with a number and a sentence of the article, so many times."""
    return "".join(
        one.format(n=n, text=ARTICLE[n % 5], more=ARTICLE[(n + 2) % 5]) for n in range(count)
    )


POST = (
    "<div class=msg><b>user{n}</b><i>{n} May 2012</i><p>{text} {more}</p><a href=#>Quote</a> "
    "<a href=#>Report</a></div>"
)
LISTS = {
    "list": repeated("<p><a href=/{n}>The river and the town, part {n}</a> (page {n})</p>", 30),
    "front page": repeated(
        "<article><h2><a href=/{n}>The river rose again, for the {n}. time</a></h2>"
        "<time>{n} May</time><p>{text}</p><a href=/{n}>Read on</a></article>", 12
    ),
    "forum": f"<h1>The flood</h1>{repeated(POST, 14)}",
    "shelf": repeated(
        "<div class=tile><img src={n}.jpg><a href=/{n}>Boots, size {n}</a><span>{n}.90</span>"
        "<span>Rubber, lined, in green</span><button>Add to basket</button></div>", 24
    ),
    "product": "<h1>Rubber boots</h1><b>49.90</b><button>Add to basket</button><p>Lined boots for "
    "wet days. They are light, and the sole of natural rubber holds on ice as well as on wet wood."
    "</p>" + repeated("<dl><dt>Property {n}<dd>{n} mm of rubber, in green</dl>", 14)
    + repeated("<div><a href=/{n}>Boots, size {n}</a> {n}.90</div>", 8),
    "code": f"<div>main_text.py</div><pre>{html.escape(Path(blocks.__file__).read_text())}</pre>",
}  # fmt: skip


@pytest.mark.parametrize("kind", LISTS)
def test_of_lists_front_pages_forums_shops_and_code_it_is_what_they_list(kind: str) -> None:
    text = visible_text(framed(LISTS[kind]), HTML | MAIN)
    own = visible_text(LISTS[kind].encode(), HTML).split()
    assert (Counter(text.split()) & Counter(own)).total() >= 0.6 * len(own)
    assert "Copyright" not in text


@pytest.mark.parametrize("sentences", [3, 5, 30])
def test_an_article_has_main_text_however_short(sentences: int) -> None:
    page = framed("<h1>The river rose in one night</h1>" + repeated("<p>{text}</p>", sentences))
    text = visible_text(page, HTML | MAIN)
    assert ARTICLE[2] in text
    assert "Section" not in text


def test_paragraphs_that_nobody_closes_stay_whole() -> None:
    page = "<p>".join(ARTICLE * 3)
    assert visible_text(page.encode(), HTML | MAIN).split() == " ".join(ARTICLE * 3).split()
    assert [part.counts for part in text_parts(page.encode(), HTML | MAIN)] == [True] * 15


def test_plain_text_stays_as_it_is() -> None:
    assert visible_text(PAGE.encode(), MAIN) == PAGE


def test_the_text_of_an_escaped_body_is_that_of_the_body() -> None:
    escaped = json.dumps(PAGE)[1:-1].encode()
    assert visible_text(escaped, HTML | MAIN | ESCAPED) == visible_text(PAGE.encode(), HTML | MAIN)
    assert text_parts(escaped, HTML | MAIN | ESCAPED) == text_parts(PAGE.encode(), HTML | MAIN)


def arrays(page: bytes) -> tuple[np.ndarray, np.ndarray]:
    """Return a page, and room for its text."""
    return np.frombuffer(page, np.uint8), np.empty(text_bytes_max(len(page)), np.uint8)


def test_a_part_that_is_dropped_since_the_site_repeats_it_says_so() -> None:
    lines = "".join(f"<tr><td>{each[:90]}<tr><td>{each[90:180]}" for each in ARTICLE)
    text = "<p>".join(f"Part {number}. {each}" for number, each in enumerate(ARTICLE * 4))
    page = f"<h1>{ARTICLE[0][:40]}</h1>{text}<table>{lines}</table>".encode()
    main = main_text.new_main_text(main_text.read_model(main_text.SITE_MODEL))
    source, out = arrays(page)
    blocks.html_to_blocks(source, 0, len(page), out, main.structure, main.records)
    count = int(main.structure.now[blocks.COUNT])
    repeats = np.zeros(sum(map(main_text.is_asked, main.records[:count])), np.uint8)
    alone = counted(page, repeats)
    repeats[-2 * len(ARTICLE) :] = 30
    found = text_parts(page, HTML | MAIN, repeats)
    dropped = {part.text for part in found if part.dropped}
    assert dropped
    assert counted(page, repeats) == alone - dropped
    assert all(part.repeats == 30 and not part.counts for part in found if part.dropped)


def counted(page: bytes, repeats: Bytes) -> set[str]:
    return {part.text for part in text_parts(page, HTML | MAIN, repeats) if part.counts}


def test_a_page_of_too_many_blocks_has_no_main_text() -> None:
    page = ("<p>" + "One sentence, of more than enough words to count as main text. " * 2).encode()
    menu = b"<ul><li><a>Section</a></ul>"
    few, many = menu + page * 20, menu + page * blocks.BLOCKS_MAX
    assert visible_text(few, HTML | MAIN) != visible_text(few, HTML)
    assert visible_text(many, HTML | MAIN) == visible_text(many, HTML)


def written(features: int = 3, base: int = 0, nodes: Any = (), leaves: Any = (0,)) -> str:
    trees = [{"nodes": nodes, "leaves": leaves}]
    return json.dumps({"features": features, "base": base, "trees": trees})


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "Expecting value"),
        ("[]", "cannot be used"),
        (written(features=1), "of version 1, not 3"),
        (written(nodes=[[999, 0, 1]]), "beyond"),
        (written(nodes=[[0, 99_999, 1]]), "int16"),
        (written(base=2_000_000_000), "too large"),
        (written(leaves=[0] * 16), "shape"),
    ],
)
def test_a_file_that_is_no_model_is_refused(tmp_path: Path, content: str, said: str) -> None:
    path = tmp_path / "model.json"
    path.write_text(content)
    with pytest.raises(SettingsError, match=said):
        main_text.read_model(path)


def test_a_tree_that_leaves_no_leaf_gives_its_last_one() -> None:
    tree = {"nodes": [[0, -1, 0]], "leaves": [*range(14), 77]}
    main = main_text.new_main_text(main_text.model_of([tree], 5))
    source, out = arrays(b"<p>word")
    main_text.html_to_main_text(source, 0, len(source), out, main)
    assert main_text.score_blocks(main) == 1
    assert main.scores[0] == 82


@pytest.mark.parametrize("method", ["minhash", "simhash"])
def test_a_signature_is_that_of_the_main_text_and_tells_so(method: str) -> None:
    bare = visible_text(PAGE.encode(), HTML | MAIN).encode()
    signer = make_signer(choose(method, canonical=MAIN_TEXT), SECRET)
    bodies = [PAGE.encode(), bare, FRONT_PAGE.encode(), b"plain words"]
    signed = signer.sign(bodies, [HTML, 0, HTML, 0])
    assert signed.main is not None
    assert signed.main.tolist() == [True, False, False, False]
    assert signed.keys[0].tolist() == signed.keys[1].tolist()
