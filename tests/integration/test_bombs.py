"""Pages made to exhaust a parser: each is read in bounded time and memory.

One subprocess reads them all, so that its peak memory is theirs; it warms the kernels first. Times
are of CPU: the machine may be busy with others. A page of 5 MiB needs 5 MiB for itself, 6 for its
text, and nothing else that grows.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TypedDict

import pytest

ROOT = Path(__file__).parents[2]
KIB = 1024
SIZES_BYTES = (64 * KIB, 1024 * KIB, 5 * 1024 * KIB)
SECONDS_MAX = 1.0
GROWTH_BYTES_MAX = 64 * KIB * KIB
RATIO_MAX = 15.0  # of the times for 5 MiB and 1 MiB: 5 if linear, 25 if quadratic

HEADS = {
    "one_tag": "<p ",
    "quoted": "<a b='",
    "value": "<a b=",
    "comment": "<!--",
    "number": "&#",
    "name": "&",
}
UNITS = {
    "unclosed_fonts": "<p><font a1=1>",
    "one_tag": 'a="b" ',
    "options": "<select><option>a<option>a",
    "less_than": "<",
    "ampersands": "&",
    "references": "&nGt;",
    "longest_almost_names": "&CounterClockwiseContourIntegra",
    "quoted": '>"<a b="',
    "open_quotes": "<a b=\"'><a b='>",
    "one_open_quote_a_tag": "<a b='>",
    "spaced_equals": "<a b   =   ",
    "value": "=",
    "comments": "<!--",
    "comment": "->--!",
    "comment_brackets": "<!-->->",
    "scripts": "<script>",
    "titles": "<title>",
    "textareas_and_frames": "<textarea><iframe><noscript><noembed><noframes>",
    "end_tags": "</",
    "script_ends": "<title></script></titl</textarea",
    "nested_svg": "<svg><template>",
    "svg_with_ends": "<svg></svg>",
    "closing_svg": "</svg></template>",
    "sections": "<![CDATA[",
    "section_brackets": "<![CDATA[>",
    "questions": "<?",
    "declarations": "<!",
    "number": "0",
    "name": "a",
    "long_name": "<" + "a" * 1000,
    "deep": "<div><b><table><td>",
    "nul": "\0",
    "blanks": "<a" + " " * 500,
}

PROGRAM = """
import json, resource, sys, time
import numpy as np
from streamer.text.html import html_to_text, text_bytes_max

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

def seconds(page):
    source = np.frombuffer(page, np.uint8)
    out = np.empty(text_bytes_max(len(page)), np.uint8)
    start = time.process_time()
    html_to_text(source, 0, len(page), out, 0)
    return time.process_time() - start

heads, units, sizes = json.loads(sys.argv[1])
seconds(b"<p>warm &amp; ready</p>")
idle = peak()
times = {}
for name, unit in units.items():
    head = heads.get(name, "")
    for size in sizes:
        page = (head + unit * (size // len(unit) + 1))[:size].encode()
        times.setdefault(name, []).append(min(seconds(page) for _ in range(2)))
print(json.dumps({"times": times, "growth": peak() - idle}))
"""


class Measured(TypedDict):
    times: dict[str, list[float]]  # seconds by bomb, for each of SIZES_BYTES
    growth: int  # of the peak memory over all bombs, bytes


@pytest.fixture(scope="module")
def measured() -> Measured:
    arguments = json.dumps([HEADS, UNITS, SIZES_BYTES])
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, arguments],
        cwd=ROOT,
        capture_output=True,
        check=True,
        text=True,
        timeout=240,
    )
    result: Measured = json.loads(done.stdout)
    return result


def test_a_hostile_page_costs_little_time_and_in_line_with_its_size(measured: Measured) -> None:
    for name, (_, one_mib, five_mib) in measured["times"].items():
        assert five_mib < SECONDS_MAX, name
        assert five_mib < RATIO_MAX * max(one_mib, 1e-3), name


def test_hostile_pages_cost_no_memory_but_themselves_and_their_text(measured: Measured) -> None:
    assert measured["growth"] < GROWTH_BYTES_MAX
