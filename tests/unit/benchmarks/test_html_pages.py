"""Pages of HTML have the sizes that the benchmark states."""

from __future__ import annotations

import json

import numpy as np
import pytest

from benchmarks import html_pages

# ---- HTML pages ----------------------------------------------------------------------------------


def test_html_pages_have_the_promised_sizes() -> None:
    pages = [json.loads(line)["body"].encode() for line in html_pages.messages(60)]
    assert len(set(pages)) == 60
    seen = html_pages.visible_bytes(pages)
    assert np.mean([len(page) for page in pages]) == pytest.approx(html_pages.PAGE_BYTES, rel=0.1)
    assert np.mean(seen) == pytest.approx(html_pages.TEXT_BYTES, rel=0.1)
    for page in pages:
        assert len(page) == pytest.approx(html_pages.PAGE_BYTES, rel=html_pages.SPREAD + 0.001)


def test_what_a_reader_sees_of_an_html_page_is_its_words() -> None:
    words = [f"word{n}" for n in range(200)]
    page = html_pages.html_page(5, words)
    short = html_pages.html_page(5, words[:100])
    both = html_pages.visible_bytes([page.encode(), short.encode()])
    added = len(" ".join(words[100:]).encode()) + 1
    assert both[0] - both[1] == pytest.approx(added, rel=0.03)
    assert "window.dataLayer" in page
