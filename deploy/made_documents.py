"""What is made of the program for docs/: the page of all methods, and the table of all settings.

python -m deploy.made_documents methods > docs/methods.md
python -m deploy.made_documents settings       the table of docs/settings.md
"""

import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any

from streamer.analysis.cli.methods import decision, default_threshold, options_of
from streamer.config import list_settings
from streamer.sketch.method import Method
from streamer.sketch.scheme import PRESETS
from streamer.sketch.scheme import methods as all_methods
from streamer.text.words import CanonicalOptions

_HEAD = """\
# Methods

`--method NAME` of `replay` and `worker` chooses how pages are compared; it is fixed when an index
is created. A method makes keys, which find candidates, and a sketch, which decides whether a
candidate reaches the threshold. The default, `minhash`, and `words` are native code. The other
methods run in Python, one page at a time; so does any with `--accept` or `--canonical`.

    streamer replay crawl.jsonl.gz --method supershingles --verdicts verdicts.jsonl
    streamer replay crawl.jsonl.gz --method bottom_k --method-option k=32 --verdicts verdicts.jsonl
    streamer replay crawl.jsonl.gz --method minhash --accept simhash --verdicts verdicts.jsonl

With `--accept`, the keys of `--method` find candidates, and the sketch, measure and threshold of
the second method decide. `--method-option accept.NAME=VALUE` sets a parameter of the second method.
`--threshold` overrides the threshold of any method. `--bands`, `--rows` and `--shingle-width` set
the parameter of that name, if the method has it.

Pages of equal words are duplicates under every method that looks at words alone. If a method looks
at sentences or descriptions (`long_sentences`, `segments` by sentences, `digests` of descriptions),
these must be equal too. Pages with fewer distinct words than `--min-shingles` (for `minhash`:
shingles) are duplicates only of pages with equal content.

`python -m deploy.made_documents methods` makes this page."""
_PRESETS = """\
## Presets

Give a preset instead of a method. Explicit options override its own."""
_CANONICAL = """\
## Canonical form

Which differences between words do not count: `--canonical NAME=VALUE`, for any method.
Separate the items of a list by commas, and lists by semicolons:
`synonyms=car,auto;big,large`."""


def methods_page() -> str:
    """Return docs/methods.md."""
    summaries = [
        (f"[`{name}`](#{name})", method.summary, f"{default_threshold(method):.4g}")
        for name, method in all_methods().items()
    ]
    shared = _shared_options()
    sections = [
        f"## {name}\n\n{method.advice}\n\n{decision(method)}\n\n{_own_options(method, shared)}"
        for name, method in all_methods().items()
    ]
    presets = [
        (
            f"`{name}`",
            f"`{preset.method}` with {', '.join(f'{k}={v}' for k, v in preset.options.items())}",
            f"{preset.threshold:.4g}",
            f"{preset.min_shingles}",
            preset.purpose,
        )
        for name, preset in PRESETS.items()
    ]
    heads = ("preset", "method", "threshold", "`--min-shingles`", "for")
    parts = [
        _HEAD,
        _table(("method", "what it does", "threshold"), summaries),
        *sections,
        f"## Shared parameters\n\n{_option_table(shared)}",
        f"{_PRESETS}\n\n{_table(heads, presets)}",
        f"{_CANONICAL}\n\n{_option_table(options_of(CanonicalOptions))}",
    ]
    return "\n\n".join(parts) + "\n"


def _shared_options() -> list[tuple[str, str, str]]:
    """Return the options that are the same in several methods."""
    each = Counter(row for method in all_methods().values() for row in options_of(method.defaults))
    return [row for row, methods in each.items() if methods > 1]


def _own_options(method: type[Method[Any]], shared: Sequence[tuple[str, str, str]]) -> str:
    """Return the table of a method's options, and the names of those that others share."""
    rows = options_of(method.defaults)
    others = ", ".join(f"`{row[0]}`" for row in rows if row in shared)
    parts = [f"[Shared](#shared-parameters): {others}."] if others else []
    if own := [row for row in rows if row not in shared]:
        parts.append(_option_table(own))
    return "\n\n".join(parts)


def _option_table(options: Sequence[tuple[str, str, str]]) -> str:
    rows = [(f"`{name}`", f"`{default}`", what) for name, default, what in options]
    return _table(("parameter", "default", "meaning"), rows)


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [f"| {' | '.join(each)} |" for each in (heads, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(heads), *lines[1:]])


def settings_table() -> str:
    """Return the table of all settings in Markdown, as docs/settings.md has it."""
    lines = ["| setting | default | meaning |", "|---|---|---|"]
    panel = ""
    for one in list_settings():
        if one.panel != panel:
            panel = one.panel
            lines.append(f"| **{panel}** | | |")
        lines.append(f"| `{one.name}` | {one.default} | {one.text} |".replace("|  |", "| |"))
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    made = {"methods": methods_page, "settings": settings_table}
    sys.stdout.write(made[sys.argv[1]]())
