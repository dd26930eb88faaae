"""A page without main text is compared by a threshold of its own, whatever the preset says."""

from pathlib import Path

import numpy as np
import pytest

from streamer.config import load_settings
from streamer.errors import SettingsError
from streamer.index.messages import IndexSettings
from streamer.rules import Rule


def test_it_is_never_laxer_and_a_rule_for_the_site_comes_first() -> None:
    settings = IndexSettings(
        threshold=0.65, fallback_threshold=0.8,
        rules=(Rule(host="a.example", threshold=0.5), Rule(host="b.example", min_shingles=9)),
    )  # fmt: skip
    urls = [b"http://a.example/", b"http://b.example/", b"http://c.example/"]
    least, _ = settings.least_of(urls, np.array([False] * 3))
    assert least.tolist() == [5000, 8000, 8000]
    assert [settings.for_url(url.decode(), main=False).similarity_min for url in urls] == [
        5000, 8000, 8000,
    ]  # fmt: skip
    assert settings.least_of(urls, np.array([True] * 3))[0].tolist() == [5000, 6500, 6500]
    assert settings.least_of(urls, None)[0].tolist() == [5000, 6500, 6500]
    strict = IndexSettings(threshold=0.9, fallback_threshold=0.8)
    assert strict.least_of(urls[2:], np.array([False]))[0].tolist() == [9000]


def test_a_page_whose_rule_asks_for_visible_text_has_the_threshold_of_others() -> None:
    rules = [Rule(host="v.example", text="visible"), Rule(host="m.example", text="main")]
    settings = IndexSettings(threshold=0.65, fallback_threshold=0.8, rules=tuple(rules))
    urls = [f"http://{host}.example/" for host in "vmx"]
    least, _ = settings.least_of([url.encode() for url in urls], np.array([False] * 3))
    assert least.tolist() == [6500, 8000, 8000]
    one_by_one = [settings.for_url(url, main=False).similarity_min for url in urls]
    assert one_by_one == least.tolist()


def test_it_is_asked_for_with_main_text_only() -> None:
    main = load_settings(preset=["balanced"]).index
    assert (main.threshold, main.fallback_threshold) == (0.63, 0.7)
    assert load_settings(preset=["broad"], fallback_threshold=0.6).index.fallback_threshold == 0.6
    assert load_settings(text="main", method="bottom_k").index.fallback_threshold == 0
    assert load_settings(threshold=0.5).index.fallback_threshold == 0
    assert load_settings(fallback_threshold=0).index.fallback_threshold == 0


def test_it_is_refused_where_most_pages_are_compared_by_visible_text(tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text('[[rule]]\nhost = "news.example"\ntext = "main"\n', "utf-8")
    with pytest.raises(SettingsError, match=r"fallback_threshold .*--text main"):
        load_settings(fallback_threshold=0.7, rules=rules)
    assert (
        load_settings(rules=rules, text="main", fallback_threshold=0.7).index.fallback_threshold
        == 0.7
    )
