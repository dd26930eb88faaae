"""Rules for pages of some sites: which one is for a page, and what a run makes of them."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamer.config import load_settings
from streamer.errors import SettingsError, StoreMismatch
from streamer.rules import ANY, Rule, fits, read_rules, rule_for, text_rules
from streamer.run.index_folder import identity_of, signature_of
from tests.helpers.commands import run

# ---- which rule is for a page --------------------------------------------------------------------

LETTERS = st.text("ab*", min_size=1, max_size=7)


@given(LETTERS, st.text("ab", max_size=9))
def test_a_star_stands_for_any_characters(pattern: str, text: str) -> None:
    expected = re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), text)
    assert fits(pattern.split(ANY), text) == (expected is not None)


@pytest.mark.parametrize("middle", ["a*" * 200, "a" * 40 + "b*", "a" * 40 + "b" + "a" * 40 + "*"])
def test_a_thousand_rules_of_stars_are_linear_in_the_length_of_a_url(middle: str) -> None:
    rules = tuple(Rule(path=f"/*{middle}b{i}*", skip=True) for i in range(1000))
    searched: list[int] = []

    class Counted(str):
        """Counts the characters that a search may look at."""

        __slots__ = ()

        def find(self, part: str, start: int = 0, end: int = 1 << 62) -> int:  # type: ignore[override]
            found = str.find(self, part, start, end)
            searched.append((min(end, len(self)) if found < 0 else found + len(part)) - start)
            return found

    path = Counted("/" + "a" * 30_000)
    assert not any(fits(rule.path.split(ANY), path) for rule in rules)
    assert sum(searched) <= len(rules) * len(path)


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("https://example.org/news/1.html", "news"),
        ("HTTPS://user:word@EXAMPLE.org:8080/news/1.html?x=y#end", "news"),
        ("https://example.org/news", "host"),
        ("https://example.org", "host"),
        ("https://example.org?print=1", "host"),
        ("https://www.example.org/news/1", "below"),
        ("https://forum.example.com/thread/7?print=1", "print"),
        ("https://example.org.evil.example/news/1", None),
        ("https://evil.example/https://example.org/news/1", None),
        ("https://evil.example@example.org/news/1", "news"),
        ("http://[2001:db8::1]:80/a", "six"),
        ("reuters:17", None),
        ("", None),
    ],
)
def test_the_first_rule_that_fits_host_and_path_counts(url: str, found: str | None) -> None:
    rules = {
        "print": Rule(path="*print=1", host="*.com", skip=True),
        "news": Rule(host="Example.org", path="/news/*", threshold=0.9),
        "host": Rule(host="example.org", threshold=0.5),
        "below": Rule(host="*.example.org", text="main"),
        "six": Rule(host="[2001:db8::1]", min_shingles=3),
    }
    expected = None if found is None else rules[found]
    assert rule_for(tuple(rules.values()), url) == expected


def test_what_decides_of_the_text_is_every_rule_up_to_the_last_that_says_it() -> None:
    rules = [Rule(host="a", skip=True), Rule(path="/b", text="main"), Rule(host="c", threshold=1)]
    assert text_rules(rules) == ("a * *", "* /b main")
    assert text_rules(rules[:1]) == ()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", r"must be tables named \[\[rule\]\]"),
        ("rule = 7", r"must be tables named \[\[rule\]\]"),
        ("rule = [7]", "Rule 1 of .* cannot be"),
        ("[[rule]]\nhost = 'a'\n[[rules]]\n", r"must be tables named"),
        ("[[rule]]\nthreshold = 0.9", "Rule 1 of .*names no host or path"),
        ("[[rule]]\nhost = 'a'\n[[rule]]\nhost = 'b'\nthreshold = 2", "Rule 2 .*threshold = 2"),
        ("[[rule]]\nhost = 'a'\ntreshold = 0.9", "treshold = 0.9 cannot be"),
        ("[[rule]]\nhost = 'a b'\nskip = true", "host = 'a b' cannot be"),
        ("[[rule]]\nhost = 'a'\ntext = 'some'", "text = 'some' cannot be"),
        ("[[rule]]\nhost = 'a'\nskip = true\nthreshold = 0.9", "pages that are skipped have no"),
        ("[[rule]", "Cannot read the rules"),
    ],
)
def test_rules_that_cannot_be_are_named(content: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "rules.toml"
    file.write_text(content)
    with pytest.raises(SettingsError, match=said):
        read_rules(file)
    with pytest.raises(SettingsError, match="Cannot read the rules"):
        read_rules(tmp_path / "none.toml")


def test_what_rules_say_of_text_is_part_of_an_index_and_comes_back_from_it(tmp_path: Path) -> None:
    file = tmp_path / "rules.toml"
    file.write_text("[[rule]]\nhost = 'a'\ntext = 'main'\n[[rule]]\nhost = 'b'\nthreshold = 0.9")
    own = load_settings(rules=file).signature
    again = signature_of(identity_of(own, bytes(32)))
    assert again.text_rules == own.text_rules == ("a * main",)
    assert again.fingerprint("key") == own.fingerprint("key")
    assert own.fingerprint("key") != load_settings().signature.fingerprint("key")
    file.write_text("[[rule]]\nhost = 'b'\nthreshold = 0.9")
    assert load_settings(rules=file).signature == load_settings().signature


# ---- what a run makes of them --------------------------------------------------------------------

WORDS = [f"word{n}" for n in range(200)]
NAMES = [f"{first}{last}" for first in ("bar", "mor", "tel") for last in ("len", "dow", "ning")]
ARTICLE = " ".join(
    f"Whoever came to {one} in those years, often late, heard of {other} and its bridges."
    for one in NAMES
    for other in NAMES[::3]
)


def edited(*places: int) -> str:
    return " ".join(f"other{n}" if n in places else word for n, word in enumerate(WORDS))


def page(article: str, site: str) -> str:
    links = "".join(f"<li><a href=/{n}>{site} {n} and {site} {n + 1}</a></li>" for n in range(60))
    return f"<html><body><nav><ul>{links}</ul></nav><main><p>{article}</p></main></body></html>"


PAGES = {
    "http://plain.example/1": edited(),
    "http://plain.example/2": edited(50, 150),  # 0.903
    "http://strict.example/1": edited(60, 160),  # 0.903 to the first
    "http://loose.example/1": edited(*range(10, 190, 20)),  # 0.627 to the first
    "http://skipped.example/1": edited(1),
    "http://short.example/1": "one two three four five six seven eight",
    "http://short.example/2": "one two three four five six seven eight",
    "http://short.example/3": "one two three four five six seven eight nine",
    "http://main.example/1": page(ARTICLE, "here"),
    "http://main.example/2": page(ARTICLE, "there"),
    "http://visible.example/1": page(ARTICLE, "anywhere"),
}
RULES = """
rule = [
    {host = "strict.example", threshold = 0.95},
    {host = "loose.example", path = "/1", threshold = 0.5},
    {host = "skipped.*", skip = true},
    {host = "short.example", min_shingles = 10},
    {host = "main.example", text = "main"},
]
"""


def replay(folder: Path, rules: str, *options: str, code: int = 0) -> dict[str, dict[str, Any]]:
    """Judge PAGES; return the verdicts by URL. Errors are raised."""
    (folder / "rules.toml").write_text(rules)
    lines = [json.dumps({"url": url, "body": body}) for url, body in PAGES.items()]
    (folder / "pages.jsonl").write_text("\n".join((*lines, "")), "utf-8")
    verdicts = folder / "v.jsonl"
    given = (folder / "pages.jsonl", "--rules", folder / "rules.toml", "--verdicts", verdicts)
    bands = ("--bands", "40", "--rows", "3")  # which find pairs at 0.5 too
    run("replay", *given, *options, *bands, code=code)
    return {one["url"]: one for one in map(json.loads, verdicts.read_text("utf-8").splitlines())}


def test_each_page_is_judged_by_the_rule_for_its_site(tmp_path: Path) -> None:
    summary = tmp_path / "summary.json"
    found = replay(tmp_path, RULES, "--summary", str(summary))
    said = {url: one["verdict"] for url, one in found.items()}
    assert said == {
        "http://plain.example/1": "unique", "http://plain.example/2": "duplicate",
        "http://strict.example/1": "unique", "http://loose.example/1": "duplicate",
        "http://short.example/1": "unique", "http://short.example/2": "duplicate",
        "http://short.example/3": "unique", "http://main.example/1": "unique",
        "http://main.example/2": "duplicate", "http://visible.example/1": "unique",
    }  # fmt: skip
    assert found["http://short.example/2"]["basis"] == "too_short"
    assert found["http://main.example/2"]["text"] == "main"
    assert found["http://visible.example/1"]["text"] == "visible"
    assert json.loads(summary.read_text())["skipped"] == {"rule": 1}


def test_a_rule_may_ask_for_visible_text_where_most_pages_give_main_text(tmp_path: Path) -> None:
    rule = '[[rule]]\nhost = "visible.example"\ntext = "visible"'
    found = replay(tmp_path, rule, "--text", "main")
    assert found["http://main.example/2"]["verdict"] == "duplicate"
    assert found["http://visible.example/1"]["verdict"] == "unique"
    assert found["http://visible.example/1"]["text"] == "visible"


def test_thresholds_of_rules_may_change_on_an_index_and_their_texts_may_not(tmp_path: Path) -> None:
    index = ("--index", str(tmp_path / "index"))
    before = replay(tmp_path, RULES, *index)
    more = tmp_path / "more.jsonl"  # settings come into force with the first page under them
    more.write_text('{"url": "http://more.example/", "body": "another page"}\n', encoding="utf-8")
    after = replay(tmp_path, RULES.replace("0.95", "0.9"), *index, str(more))
    assert after.pop("http://more.example/")["verdict"] == "unique"
    assert after == before
    shown = run("inspect", index[1], columns=400)
    assert "strict.example: threshold 0.9; loose.example/1: threshold 0.5;" in shown
    with pytest.raises(StoreMismatch, match=r"what --rules say of text is strict.* and nothing"):
        replay(tmp_path, '[[rule]]\nhost = "a"\nskip = true', *index)


def test_explain_goes_by_the_rule_for_the_page(tmp_path: Path) -> None:
    index = ("--index", str(tmp_path / "index"))
    replay(tmp_path, RULES, *index)
    given = (*index, "--texts", tmp_path / "pages.jsonl", "--json")
    for url, threshold in (("http://strict.example/1", 0.95), ("http://loose.example/1", 0.5)):
        assert json.loads(run("explain", url, *given))["threshold"] == threshold
    found = json.loads(run("explain", "http://main.example/2", *given))
    assert found["nearest"]["exact_resemblance"] == 1.0


def test_a_source_whose_first_pages_are_skipped_is_no_wrong_mapping(tmp_path: Path) -> None:
    everything = '[[rule]]\nhost = "*.example"\nskip = true'
    with (tmp_path / "more.jsonl").open("w") as lines:
        lines.write('{"url": "http://a.example/", "body": "one"}\n' + "{}\n" * 20)
    assert replay(tmp_path, everything, str(tmp_path / "more.jsonl"), code=1) == {}
