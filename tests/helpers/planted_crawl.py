"""A crawl with four faults planted in it: a cookie wall, a mirror, session ids, a lost charset."""

import json
import random
import re
from collections.abc import Iterator
from pathlib import Path

from streamer.analysis.sample.crawl import Kind, read_kinds, write_crawl
from streamer.analysis.sample.reference import read_page

WALL = (
    "<title>Before you continue</title><h1>Your privacy</h1><p>We and our 812 partners store "
    "cookies on this device to show you personal content and to measure it. Accept all, or choose "
    "what you accept in the settings of your account.</p><button>Accept all</button>"
)
MIRROR, SHOP, WALLED, LOST = (
    "mirror.docs.example", "shop.example", "www.daily.example", "novosti.example",
)  # fmt: skip
ARTICLE_MIN = 3000  # characters of HTML


def planted_crawl(folder: Path, pages: int, planted: int, seed: int = 7) -> Path:
    """Write the crawl, and return its file.

    `pages` of it are those of `streamer sample`, and each fault has `planted` pages or more.
    """
    write_crawl(folder / "sample", pages)
    lines = (folder / "sample" / "pages.jsonl").read_bytes().splitlines()
    rng = random.Random(seed)
    for page in _planted(rng, _articles(folder / "own", 10 * planted, seed), planted):
        lines.insert(rng.randrange(len(lines) // 2, len(lines)), json.dumps(page).encode())
    path = folder / "crawl.jsonl"
    path.write_bytes(b"\n".join(lines) + b"\n")
    return path


def _articles(folder: Path, pages: int, seed: int) -> list[str]:
    """Return articles that are not in the sample, and unlike each other."""
    write_crawl(folder, pages, seed)
    kinds = read_kinds(folder / "truth.tsv")
    lines = (folder / "pages.jsonl").read_bytes().splitlines()
    found = [read_page(line) for n, line in enumerate(lines) if kinds[n] == Kind.ORIGINAL]
    return [page.body for page in found if page and page.body and len(page.body) > ARTICLE_MIN]


def _planted(rng: random.Random, articles: list[str], planted: int) -> Iterator[dict[str, str]]:
    own, bought = articles[:planted], articles[planted : 2 * planted]
    russian = [text for text in articles if "\u0438" in text]
    for n in range(planted):
        yield _page(f"https://{WALLED}/2026/11/story-{rng.getrandbits(32):08x}.html", WALL)
        for host in ("www.docs.example", MIRROR):
            yield _page(f"https://{host}/guide/chapter-{n}.html", f"{own[n]}<p>Chapter {n}")
        for _ in range(3):
            session = f"PHPSESSID={rng.getrandbits(64):016x}"
            yield _page(f"https://{SHOP}/item?id={n}&{session}", f"{bought[n]}<p>Item {n}")
        letters = re.sub(r"<[^>]*>|[!-~]", "", russian[n % len(russian)])
        lost = letters.encode("ascii", "replace").decode().replace("?", "\ufffd")
        body = f"<html><h1>\ufffd\ufffd</h1><p>{lost}</p><p>2026 novosti</p></html>"
        yield _page(f"https://{LOST}/news/{rng.getrandbits(24)}", body)


def _page(url: str, body: str) -> dict[str, str]:
    return {"url": url, "body": body, "content_type": "text/html; charset=utf-8"}
