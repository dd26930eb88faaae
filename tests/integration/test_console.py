"""The console in a real browser, over a crawl with hostile pages, while its replay goes on."""

import json
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any, get_args, get_type_hints
from urllib.parse import urlencode, urlsplit

import msgspec
import pytest
from axe_playwright_python.sync_playwright import Axe
from PIL import Image
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, sync_playwright

from streamer.console.overview import CrawlState
from tests.helpers.commands import run
from tests.helpers.damage import digests
from tests.helpers.fleet import streamer
from tests.helpers.missing import leave_out
from tests.helpers.planted_crawl import LOST, MIRROR, SHOP, WALLED, planted_crawl
from tests.helpers.verdict_lines import LETTER, unique
from tests.helpers.wait import PATIENCE_S
from tests.unit.test_deduplicator import text_of

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
SCRIPT = "<script>document.title='run'</script><img src=x onerror=document.title='run'>"
HOSTILE = [
    f"https://evil.example/{SCRIPT}",
    "javascript:document.title='run'",
    'https://evil.example/"onmouseover="document.title=1"',
    "https://evil.example/\u202egnp.exe",
    "https://evil.example/صفحة/{{7*7}}/${7*7}",
    "//evil.example/%00%0d%0aSet-Cookie:a=b",
    "https://[evil.example/",
]
PAGES = [
    *(
        {"url": url, "body": f"<title>{SCRIPT}</title>{SCRIPT}{text_of(n)}"}
        for n, url in enumerate(HOSTILE)
    ),
    *({"url": f"https://copy.example/{n}", "body": text_of(n % 7)} for n in range(20)),
    *({"url": f"https://own.example/{n}", "body": text_of(100 + n)} for n in range(20)),
]  # fmt: skip
MALFORMED = 9  # lines that are no object
TITLE = "{} \N{EN DASH} {}/pages.jsonl"
AXE = Axe()
NARROW = 400  # pixels
# Words that end in another line than they begin, or outside of what is seen; URLs may be cut.
CUT_WORDS = """() => {
  const cut = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node; (node = walker.nextNode()); ) {
    const part = node.parentElement, given = "h1, bdi, pre, .text, .row, .url";
    if (part.closest(`script, .skip, details:not([open]), ${given}`)) continue;
    for (const word of node.data.matchAll(/\\S+/g)) {
      const range = document.createRange();
      range.setStart(node, word.index);
      range.setEnd(node, word.index + word[0].length);
      const rects = [...range.getClientRects()].filter((rect) => rect.width);
      const isSplit = new Set(rects.map((rect) => Math.round(rect.top))).size > 1;
      if (isSplit || rects.some((rect) => rect.right > innerWidth)) cut.push(word[0]);
    }
  }
  for (const table of document.querySelectorAll(".table"))
    if (table.scrollWidth > table.clientWidth) cut.push(table.ariaLabel);
  return cut;
}"""
VIEWS = ["overview", "page", "compare", "clusters", "hosts", "dead-letters"]


@pytest.fixture(scope="module")
def crawl(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the verdicts of a crawl, its index and its pages."""
    folder = tmp_path_factory.mktemp("crawl")
    pages = folder / "pages.jsonl"
    lines = [
        *map(msgspec.json.encode, PAGES),
        SCRIPT.encode(),
        b'{"body": "x"}',
        *[b"[]"] * MALFORMED,
    ]
    pages.write_bytes(b"\n".join(lines) + b"\n")
    run("replay", pages, "--verdicts", folder / "v.jsonl", "--index", folder / "index")
    return folder


@pytest.fixture(scope="module")
def urls(crawl: Path) -> list[str]:
    """Return the URLs of all pages as their verdicts have them."""
    lines = (crawl / "v.jsonl").read_bytes().splitlines()
    return [json.loads(line)["url"] for line in lines]


@contextmanager
def console(view: Path, *arguments: object) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Run the console; yield its address and its process."""
    command = [sys.executable, "-m", "streamer", "console", *map(str, arguments)]
    command += ["--port", "0", "--view", str(view), "--query-seconds", "60"]  # next to other tests
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout
        address = process.stdout.readline().strip()
        assert address.startswith("http://127.0.0.1:"), process.communicate()
        yield address, process
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=300)


def answer(address: str, path: str, **parameters: object) -> Any:
    query = f"?{urlencode(parameters)}" if parameters else ""
    return sent(f"{address}{path}{query}")


def sent(request: str | urllib.request.Request) -> Any:
    with urllib.request.urlopen(request, timeout=300) as response:  # noqa: S310 - of the console
        return json.loads(response.read())


def wait_until(found: Any, address: str, path: str = "overview.json") -> Any:
    """Return an answer once it is as `found` says."""
    end = time.monotonic() + PATIENCE_S
    while not found(said := answer(address, path)):
        assert time.monotonic() < end, said
        time.sleep(0.1)
    return said


@pytest.fixture(scope="module")
def address(crawl: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    arguments = crawl / "v.jsonl", crawl / "index", "--pages", crawl / "pages.jsonl"
    with console(tmp_path_factory.mktemp("view"), *arguments) as (found, _):
        wait_until(lambda said: said["folded"], found)
        yield found


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if BROWSER is None:
        leave_out("Chromium", ".ci/tools browser, as root")
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture(params=[True, False], ids=["scripts", "no_scripts"])
def tab(request: pytest.FixtureRequest, browser: Browser, address: str) -> Iterator[Page]:
    """Return a tab; at the end it has logged no error, and asked no other host."""
    context = browser.new_context(java_script_enabled=request.param, base_url=address)
    context.set_default_timeout(1000 * PATIENCE_S)
    page = context.new_page()
    errors: list[str] = []
    requests: list[str] = []

    def note_message(message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            errors.append(message.text)

    def note_request(made: Request) -> None:
        requests.append(made.url)

    page.on("console", note_message)
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("request", note_request)
    yield page
    context.close()
    own = urlsplit(address).netloc
    assert [url for url in requests if urlsplit(url).netloc != own] == []
    assert errors == []


# ---- views ---------------------------------------------------------------------------------------


def test_each_view_shows_itself_and_how_the_crawl_is(tab: Page, crawl: Path) -> None:
    for path in VIEWS:
        tab.goto(path)
        assert words(tab, "nav [aria-current=page]") == words(tab, "h1")
        assert words(tab, ".brand") == f"{crawl.name}/pages.jsonl"
        assert words(tab, "#state") == "All is well. 47 pages are judged, 27 of them are unique."
        tab.get_by_role("link", name="This page as JSON").click()
        assert json.loads(tab.locator("body").inner_text())


def test_a_person_goes_from_the_overview_to_a_page_and_asks_why(tab: Page) -> None:
    tab.goto("")
    assert "47 pages judged" in " ".join(tab.locator("main").inner_text().split())
    tab.get_by_role("link", name="All clusters").click()
    tab.get_by_role("link", name="duplicates of").first.click()
    assert "pages are duplicates of" in tab.locator("main").inner_text()
    tab.locator("tbody tr").first.get_by_role("link").nth(1).click()
    article = tab.locator("article").first
    assert "The similarity to the nearest kept page reaches the threshold" in article.inner_text()
    late = article.get_by_role("link", name="Ask the index why")
    if late.count():  # a busy machine takes more than two seconds
        late.click()
    assert "from the threshold 0.8" in article.inner_text()
    assert text_of(0)[:50] in tab.locator(".text").inner_text()
    tab.get_by_role("link", name="Compare both").click()
    assert "similar, estimated by the index" in tab.locator("main").inner_text()
    assert text_of(0)[:50] in tab.locator(".alike").first.inner_text()


def test_the_keyboard_alone_looks_up_a_page(tab: Page) -> None:
    tab.goto("hosts")
    tab.keyboard.press("Tab")
    assert tab.locator(":focus").inner_text() == "Skip to the content"
    while not tab.locator(".search input:focus").count():
        tab.keyboard.press("Tab")
    tab.keyboard.type("https://own.example/3")
    tab.keyboard.press("Enter")
    tab.wait_for_url("**/page?page=*")
    for said in ("No kept page was similar enough", "By the index, as it is now", "threshold 0.8"):
        assert said in words(tab, "article")
    assert text_of(103) in words(tab, ".text")


@pytest.mark.parametrize(
    ("scheme", "width", "direction"),
    [("light", 320, "rtl"), ("light", 1280, "ltr"), ("dark", 400, "ltr"), ("dark", 1280, "ltr")],
)
def test_every_view_suits_everyone(
    browser: Browser, address: str, urls: list[str], scheme: Any, width: int, direction: str
) -> None:
    context = browser.new_context(
        base_url=address, color_scheme=scheme, viewport={"width": width, "height": 700}
    )
    context.set_default_timeout(1000 * PATIENCE_S)
    page, colours = context.new_page(), set()
    cluster = answer(address, "clusters.json", limit=1)["clusters"][0]["place"]
    for path in (
        *VIEWS, "host?host=copy.example", "dead-letters?code=invalid_json",
        "page?" + urlencode({"page": urls[4], "explain": "yes"}),
        "compare?" + urlencode({"page": urls[0], "with": "https://copy.example/0"}),
        "cluster?" + urlencode({"place": cluster}),
    ):  # fmt: skip
        page.goto(path)
        # Playwright's own evaluation is not bound by the page's policy.
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        if width == NARROW:
            assert page.evaluate(CUT_WORDS) == [], path
        page.evaluate(f"document.documentElement.dir = '{direction}'")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        found = AXE.run(page)
        assert found.violations_count == 0, found.generate_report()
        colours.add(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    for level in get_args(get_type_hints(CrawlState)["level"]):  # all lines of state can be read
        page.evaluate(f"document.querySelector('#state').className = 'state {level}'")
        assert AXE.run(page).violations_count == 0, level
    (colour,) = colours
    assert (colour == "rgb(244, 246, 248)") == (scheme == "light")
    context.close()


# ---- what people show each other -----------------------------------------------------------------


def words(tab: Page, selector: str) -> str:
    return " ".join(tab.locator(selector).inner_text().split())


def test_a_chart_has_axes_and_its_numbers_where_one_points(tab: Page) -> None:
    tab.goto("overview")
    chart = tab.locator("#history .chart")
    assert words(tab, "#history .y") == "60 30 0"
    assert words(tab, "#history .x") == "page 1"
    readout = chart.locator(".readout")
    assert not readout.is_visible()
    chart.locator(".bar").hover()
    assert readout.is_visible()
    assert readout.text_content() == "page 1: 27 unique, 20 similar, 0 equal"


def test_a_title_names_its_object_and_a_list_is_sorted_and_given_as_csv(
    tab: Page, address: str
) -> None:
    row = answer(address, "clusters.json", limit=1)["clusters"][0]
    tab.goto(f"cluster?{urlencode({'place': row['place']})}")
    assert tab.title().startswith(f"{row['duplicates']} duplicates of ")
    tab.goto("hosts?sort=host")
    assert tab.get_by_role("link", name="as CSV").get_attribute("href") == "/hosts.csv?sort=host"
    tab.get_by_role("link", name="pages", exact=True).click()
    assert tab.locator("th[aria-sort=descending]").inner_text().startswith("pages")


def test_a_whole_table_sorts_and_filters_in_the_browser(browser: Browser, address: str) -> None:
    tab = browser.new_page(base_url=address)
    tab.goto("dead-letters?code=not_an_object")
    rows = tab.get_by_label("Records").locator("tbody tr")
    places = rows.locator("td:first-child").all_inner_texts()
    assert len(places) == MALFORMED
    head = tab.get_by_label("Records").get_by_role("button", name="place")
    for order in (sorted(places), sorted(places, reverse=True)):
        head.click()
        assert rows.locator("td:first-child").all_inner_texts() == order
    tab.get_by_label("place: has").fill(places[3].rpartition("/")[2])
    assert rows.locator("visible=true").locator("td:first-child").all_inner_texts() == [places[3]]
    tab.get_by_label("place: has").fill("")
    for least, count in (("2", MALFORMED), ("3", 0)):
        tab.get_by_label("size: at least").fill(least)
        assert rows.locator("visible=true").count() == count
    tab.close()


def test_a_slash_goes_to_the_search(browser: Browser, address: str) -> None:
    tab = browser.new_page(base_url=address)
    tab.goto("clusters")
    tab.keyboard.press("/")
    assert tab.evaluate("document.activeElement.name") == "page"
    tab.keyboard.type("a/b")
    assert tab.locator(".search input").input_value() == "a/b"
    tab.close()


def test_two_texts_are_aligned_and_scroll_together(tab: Page, urls: list[str]) -> None:
    tab.goto("compare?" + urlencode({"page": urls[0], "with": "https://copy.example/0"}))
    sides, boxes = tab.locator(".alike").last.locator("> div"), set()
    for _ in range(2):
        # Playwright's own evaluation is not bound by the page's policy.
        one, other = sides.evaluate_all(
            "all => all.map(one => JSON.stringify([one.getBoundingClientRect().y, one.innerText]))"
        )
        assert one == other
        boxes.add(one)
        sides.last.evaluate("side => { side.ownerDocument.scrollingElement.scrollTop += 200 }")
    assert len(boxes) == 2
    said = words(tab, "main")
    assert said.count("similar, ") == 1
    assert "Exactly, they share" in said
    tab.get_by_role("link", name="The first difference").click()
    assert tab.locator("#difference").bounding_box() is not None
    assert "#difference" in tab.url


def test_what_is_empty_says_what_to_do(tab: Page) -> None:
    for path, said in (
        ("page", "Look up a page above"), ("page?page=nowhere", "Try a shorter part of the URL"),
        ("compare", "Name two pages above"), ("host", "Name a host above"),
        ("clusters?host=nowhere", "show all"), ("hosts?host=nowhere", "show all"),
    ):  # fmt: skip
        tab.goto(path)
        assert said in words(tab, ".empty")


def test_the_overview_follows_the_crawl(browser: Browser, tmp_path: Path) -> None:
    verdicts = tmp_path / "v.jsonl"
    verdicts.touch()
    with console(tmp_path / "view", verdicts) as (address, _):
        tab = browser.new_page(base_url=address)
        tab.goto("overview")
        assert "streamer replay" in words(tab, ".empty")
        assert AXE.run(tab).violations_count == 0
        with verdicts.open("ab") as file:
            file.writelines(msgspec.json.encode(unique(n)) + b"\n" for n in range(3))
        tab.locator("#state", has_text="3 pages are judged").wait_for()
        tab.locator("#history .bar").wait_for()
        assert tab.locator("#figures strong").first.inner_text() == "3"
        assert tab.locator(".empty").count() == 0
        tab.close()


# ---- hostile pages -------------------------------------------------------------------------------


@pytest.mark.parametrize("number", range(len(HOSTILE)))
def test_a_hostile_page_does_nothing(tab: Page, crawl: Path, urls: list[str], number: int) -> None:
    url = urls[number]
    tab.goto("page?" + urlencode({"page": url, "explain": "yes"}))
    title = TITLE.format(url.replace("\u202e", "\ufffd"), crawl.name)
    assert tab.title() == title
    assert tab.locator("script:not([src='/console.js']), img, iframe, object").count() == 0
    assert tab.locator("h1").inner_text() == url.replace("\u202e", "\ufffd")
    for link in tab.locator("a").all():
        assert (link.get_attribute("href") or "").startswith(("/", "#"))
    tab.locator("h1").hover()
    assert tab.title() == title


def test_a_hostile_record_is_text(tab: Page, crawl: Path) -> None:
    tab.goto("dead-letters?code=invalid_json")
    tab.locator("summary").click()
    assert tab.locator("pre").inner_text() == SCRIPT
    assert tab.title() == TITLE.format("Dead letters: invalid_json", crawl.name)


# ---- a crawl with faults -------------------------------------------------------------------------


def test_four_planted_faults_are_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    given = request.config.getoption("--pictures")
    folder = given.absolute() if given else None
    monkeypatch.chdir(tmp_path)  # so that pages are called as people call them
    planted_crawl(tmp_path, *((12_000, 120) if folder else (50, 15)))
    outputs = "--verdicts", "verdicts.jsonl", "--index", "my-index"
    run("replay", "crawl.jsonl", *outputs, "--near-misses", "0.15")
    inputs = "verdicts.jsonl", "my-index", "--pages", "crawl.jsonl"
    with console(tmp_path / "view", *inputs) as (address, _):
        wait_until(lambda said: said["folded"], address)
        first = answer(address, "overview.json")["clusters"]
        assert {(row["look"]["kind"], urlsplit(row["url"]).netloc) for row in first[:2]} == {
            ("lost text", LOST), ("block page", WALLED),
        }  # fmt: skip
        relations = answer(address, "clusters.json")["relations"]
        found = {row["relation"]: (row["host"], row["of_host"]) for row in relations}
        assert found["session ids"] == (SHOP, SHOP)
        assert MIRROR in found["mirror"]
        if folder:
            draw(request.getfixturevalue("browser"), address, folder)


def draw(browser: Browser, address: str, folder: Path) -> None:
    """Write the pictures of docs/console.md."""
    for cluster in answer(address, "clusters.json", limit=100)["clusters"]:
        place = cluster["place"]
        least = answer(address, "cluster.json", place=place, sort="similarity", reverse="yes")
        if least["members"][0]["similarity"] < 0.95 and cluster["look"]["kind"] == "template":
            break
    pair = {"page": least["members"][0]["url"]}
    folder.mkdir(parents=True, exist_ok=True)
    pictures: list[tuple[str, str, Any, int, int]] = [
        ("overview", "overview", "light", 1200, 900),
        ("clusters", "clusters", "dark", 1200, 1000),
        ("compare", f"compare?{urlencode(pair | {'with': place})}", "light", 1200, 900),
        ("page-400", f"page?{urlencode(pair)}", "dark", NARROW, 900),
    ]
    for name, path, scheme, width, height in pictures:
        tab = browser.new_page(
            base_url=address, color_scheme=scheme, viewport={"width": width, "height": height}
        )
        tab.goto(path)
        tab.wait_for_load_state("load")
        drawn = Image.open(BytesIO(tab.screenshot()))
        drawn.quantize(128).save(folder / f"{name}.png", optimize=True)
        tab.close()


# ---- the process ---------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
def test_it_ends_and_changes_no_input(crawl: Path, tmp_path: Path, number: signal.Signals) -> None:
    before = digests(crawl)
    with console(tmp_path, crawl / "v.jsonl", crawl / "index") as (address, process):
        wait_until(lambda said: said["folded"], address)
        body = msgspec.json.encode({"url": "https://new.example/", "body": text_of(3)})
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"{address}api/check", body, headers)  # noqa: S310 - of the console
        said = sent(request)
        assert (said["verdict"], said["representative"]["url"]) == ("duplicate", HOSTILE[3])
        process.send_signal(number)
        process.communicate(timeout=300)
        assert process.returncode == 0
    assert digests(crawl) == before


def test_it_says_how_much_is_read_and_shows_no_text_where_that_is_asked_for(tmp_path: Path) -> None:
    verdicts, letters = tmp_path / "v.jsonl", tmp_path / "v.jsonl.dead.jsonl"
    verdicts.write_bytes(b"".join(msgspec.json.encode(unique(n)) + b"\n" for n in range(1200)))
    letters.write_bytes(msgspec.json.encode(LETTER) + b"\n")
    with console(tmp_path / "view", verdicts, "--no-text") as (address, process):
        assert process.stderr
        said = [process.stderr.readline()]
        while not said[-1].endswith(" pages are read.\n"):
            said.append(process.stderr.readline())
        (found,) = answer(address, "dead-letters.json", code=LETTER.code)["letters"]
        assert (found["record"], found["value_bytes"]) == ("", LETTER.value_bytes)
    assert (said[0], said[-1]) == ("Reading the verdicts.\n", "1,200 pages are read.\n")
    assert all(line.endswith("so far.\n") for line in said[1:-1]), "on a slow machine"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["v.jsonl", "--token-file", "none"], "The token cannot be read"),
        (["v.jsonl", "--pages", "none.jsonl"], "no such file"),
        (["index", "index"], "one index"),
    ],
)
def test_what_cannot_be_shown_is_refused(
    crawl: Path, tmp_path: Path, arguments: list[str], said: str
) -> None:
    done = streamer("console", *arguments, "--view", tmp_path, cwd=crawl)
    assert done.returncode in {1, 2}
    assert said in done.stderr
