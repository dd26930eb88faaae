"""Lists with the cards of others: the element of the marked text goes, and what is around stays."""

from benchmarks.main_text_lists import Found, exchange, judged, read_list

AROUND = " ".join(f"around{number}" for number in range(40))


def shop(name: str, things: list[str], around: str) -> dict[str, str]:
    cards = "".join(f"<div class=card><b>{thing}</b></div>" for thing in things)
    return {
        "id": name, "host": f"{name}.example", "main_content": "\n".join(things),
        "html": f"<title>{name}</title><body><nav>{around}</nav><div>{around}<div id=list>{cards}"
        f"</div></div><footer>{around}</footer>",
    }  # fmt: skip


def test_the_cards_of_a_list_are_exchanged() -> None:
    texts = [
        [f"{shop} lamp {number}{shop} of brass" for number in range(20)] for shop in ("a", "b")
    ]
    one, other = [read_list(shop(text[0][0], text, f"{AROUND} {text[0][0]}")) for text in texts]
    assert one
    assert other
    mixed = exchange(one, other)
    assert (mixed.name, mixed.page.url) == ("b", "http://a.example/a/b")
    html = mixed.page.body
    assert isinstance(html, str)
    assert html.count("b lamp") == 20
    assert html.count(f"{AROUND} a") == 3
    assert "a lamp" not in html
    assert read_list(shop("c", ["too few"], AROUND)) is None
    assert read_list(shop("c", texts[0], "")) is None, "nothing is around it"

    own = [exchange(page, page) for page in (one, other)]
    found = judged([own[0], mixed, own[1], own[0]], threshold=0.99)
    assert found == Found(pages=4, new=2, right=1)
    found = judged([own[0], mixed], threshold=0.1, bands=48, rows=1)
    assert found == Found(pages=2, new=2, wrong=1)
