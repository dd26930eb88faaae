"""Rules for pages of some sites: other thresholds, other text, or none of it.

A rule says for which hosts and paths it is, and what is otherwise there. Of several the first that
fits counts, and only that. Which one fits depends on the page's URL alone, so that a log that holds
the rules gives the same verdicts wherever it is read.

A pattern is text in which `*` matches any characters, none too; all of a host or path must fit.
"""

# Patterns have stars only, because a URL could make a regular expression run for ever. Rules about
# the text are part of the fingerprint: the parser marks such pages, and two signers sign each
# batch.

from __future__ import annotations

import tomllib
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from streamer.errors import SettingsError
from streamer.given_file import read_given
from streamer.hosts import plain_labels, split_url
from streamer.wrong_values import why_wrong

Text = Literal["visible", "main"]
VISIBLE: Text = "visible"
MAIN: Text = "main"
ANY = "*"
BETWEEN = " | "  # of text rules in one text, which no pattern has
RULES_MAX = 1000
_HOSTS_KEPT = 4096  # of which the rules are known, of a finder
_FINDERS_KEPT = 8
BY_RULE = "rule"  # the code under which skipped pages are counted

Pattern = Annotated[str, Field(pattern=r"^[^\s|]+$")]


class Rule(BaseModel):
    """What holds for the pages whose URL fits; what it does not say is as for all pages.

    `path` is the part of a URL after host and port, with the query and without the fragment.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    host: Pattern = ANY
    path: Pattern = ANY
    threshold: float | None = Field(default=None, gt=0, le=1)
    min_shingles: int | None = Field(default=None, ge=1, le=32)
    text: Text | None = None
    skip: bool = False

    @model_validator(mode="after")
    def _says_something(self) -> Rule:
        if (self.host, self.path) == (ANY, ANY):
            raise ValueError("it names no host or path, so it would hold for all pages")
        given = (self.threshold, self.min_shingles, self.text)
        if self.skip and given != (None, None, None):
            raise ValueError("pages that are skipped have no threshold, least shingles or text")
        return self

    def __str__(self) -> str:
        """Return it in short: `example.org/news/*: threshold 0.9`."""
        own = self.model_dump(exclude={"host", "path"}, exclude_defaults=True)
        said = (name if value is True else f"{name} {value}" for name, value in own.items())
        where = self.host if self.path == ANY else f"{self.host}{self.path}"
        return f"{where}: {', '.join(said) or 'as all others'}"


def fits(pattern: list[str], text: str) -> bool:
    """Return whether all of a text fits a pattern; in time of the text's length times the stars.

    The pattern is cut at its stars.
    """
    if len(pattern) == 1:
        return text == pattern[0]
    first, *middle, last = pattern
    if len(text) < len(first) + len(last) or not (text.startswith(first) and text.endswith(last)):
        return False
    at, end = len(first), len(text) - len(last)
    for part in middle:
        found = text.find(part, at, end)
        if found < 0:
            return False
        at = found + len(part)
    return True


@lru_cache(_FINDERS_KEPT)
def rule_finder(rules: tuple[Rule, ...]) -> Callable[[str], Rule | None]:
    """Return what finds the first of some rules that a URL fits; the same for all who ask for it.

    Which of them are for a host is found out once, since crawls come back to their hosts; then only
    paths are compared. It returns None where there is no rule, or the URL has no host.
    """
    cut = [
        ([plain_labels(part) for part in rule.host.split(ANY)], rule.path.split(ANY), rule)
        for rule in rules
    ]

    @lru_cache(_HOSTS_KEPT)
    def of_host(host: str) -> list[tuple[list[str], Rule]]:
        return [(path, rule) for pattern, path, rule in cut if fits(pattern, host)]

    def find(url: str) -> Rule | None:
        parts = split_url(url)
        own, path = of_host(parts.host) if parts.host else (), parts.path or "/"
        return next((rule for pattern, rule in own if fits(pattern, path)), None)

    return find


def rule_for(rules: Sequence[Rule], url: str) -> Rule | None:
    """Return the first rule that a URL fits; None where there is none, or the URL has no host."""
    return rule_finder(tuple(rules))(url)


def read_rules(path: Path) -> tuple[Rule, ...]:
    """Return the rules in a TOML file: a table `[[rule]]` each, in order.

    Raises:
        SettingsError: the file cannot be read, or one of them cannot be.
    """
    try:
        content = tomllib.loads(read_given(path).decode())
    except (OSError, ValueError) as error:
        raise SettingsError(f"Cannot read the rules {path}: {error}.") from error
    tables = content.pop("rule", [])
    if content or not isinstance(tables, list) or not tables:
        raise SettingsError(f"The rules {path} must be tables named [[rule]], with a host or path.")
    if len(tables) > RULES_MAX:
        raise SettingsError(f"The rules {path} are {len(tables)}; there may be {RULES_MAX}.")
    return tuple(_rule(path, number, table) for number, table in enumerate(tables, 1))


def _rule(path: Path, number: int, table: object) -> Rule:
    try:
        return Rule.model_validate(table)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"]))
        what = f"{name} = {first['input']!r}" if name else "it"
        said = f"Rule {number} of {path}: {what} cannot be used: {why_wrong(first)}."
        raise SettingsError(said) from error


def text_rules(rules: Sequence[Rule]) -> tuple[str, ...]:
    """Return what decides of a page's text: all rules up to the last that says something of it."""
    end = max((n for n, one in enumerate(rules, 1) if one.text is not None), default=0)
    return tuple(f"{one.host} {one.path} {one.text or ANY}" for one in rules[:end])
