"""The page of the methods' results names the best, and quotes the published figures."""

from __future__ import annotations

import msgspec

from benchmarks import methods_page, short_texts
from streamer.analysis.trial import Ratios, Trial, select
from streamer.sketch.scheme import methods

RATIOS = Ratios(1.0, 0.5, 0.6, 10, 0, 10)


def test_the_page_says_who_is_best_and_where_others_lead() -> None:
    own = Trial("set", "minhash", RATIOS, RATIOS, 1.0, None, {"moved": RATIOS}, 10.0, 300.0)
    ahead = msgspec.structs.replace(RATIOS, f1=0.9)
    other = msgspec.structs.replace(own, method="simhash", kinds={"moved": ahead})
    said = "\n".join([methods_page.best([own, other]), *methods_page.kinds([own, other])])
    assert "with 0.600: `minhash`, `simhash`. The default `minhash` has 0.600" in said
    assert "ahead of it: 0 of 1" in said
    assert "on `moved` `simhash`" in said
    equal = msgspec.structs.replace(own, method="simhash")
    assert "No method is ahead" in "\n".join(methods_page.kinds([own, equal]))


def test_the_page_quotes_the_published_figures_beside_ours_and_the_advice_of_each_method() -> None:
    trials = [
        Trial("set", one.name, RATIOS, RATIOS, 1.0, None, {}, 10.0, 300.0)
        for one in select(["all"])
    ]
    short = short_texts.Tried("short-texts", 0.4, short_texts.measure_preset(pairs=1).found)
    keys = {"minhash": [0.98, 0.99], "simhash": [0.97, 0.985]}
    text = methods_page.page(methods_page.Results([trials], [keys], [short]))
    assert "under 2 keys, on average: `minhash` 0.9850 (0.9800 to 0.9900), `simhash`" in text
    assert "The ranges meet" in text
    assert "ahead under every key" in methods_page.spread({"minhash": [0.9], "simhash": [0.8]})
    assert "| Zelenkov and Segalovich 2007 | long sentences | 0.80 | 0.84 | 0.82 |" in text
    assert "not verified" in text
    assert all(f"- `{name}`: {method.advice}" in text for name, method in methods().items())
