"""`streamer methods`: what there is for --method, with parameters, defaults and advice.

docs/methods.md is this page; `streamer methods --markdown` prints it, and a test compares the two.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from pydantic import BaseModel
from rich.table import Table
from rich.text import Text

from streamer.cli.options import command
from streamer.cli.terminal import Terminal, listing
from streamer.errors import SettingsError
from streamer.sketch.method import Measure, Method
from streamer.sketch.scheme import PRESETS, method_class, write_options
from streamer.sketch.scheme import methods as all_methods
from streamer.sketch.settings import SECRET_BYTES
from streamer.text.words import CanonicalOptions

MEASURES = {
    Measure.RESEMBLANCE: "one-permutation sketch, corrected for chance agreement",
    Measure.SLOTS: "share of equal slots",
    Measure.HAMMING: "share of equal bits",
    Measure.SAMPLE: "resemblance of the samples",
    Measure.BOTTOM: "share of the union's least hashes that both pages have",
    Measure.WEIGHTED: "equal digests, and the distance of the weights",
}

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

`streamer methods --markdown` prints this page."""
_PRESETS = """\
## Presets

Give a preset instead of a method. Explicit options override its own."""
_CANONICAL = """\
## Canonical form

Which differences between words do not count: `--canonical NAME=VALUE`, for any method.
Separate the items of a list by commas, and lists by semicolons:
`synonyms=car,auto;big,large`."""


def options_of(model: type[BaseModel]) -> list[tuple[str, str, str]]:
    """Return each option of a model: name, default as the command line writes it, and meaning."""
    defaults = write_options(model())
    return [
        (name, defaults[name] or "none", (field.description or "").rstrip("."))
        for name, field in model.model_fields.items()
    ]


def default_threshold(method: type[Method[Any]]) -> float:
    """Return the threshold of a method whose parameters are all at their defaults."""
    return method(method.defaults(), bytes(SECRET_BYTES)).threshold


def decision(method: type[Method[Any]]) -> str:
    """Return two sentences: how a method's sketches compare, and what makes a duplicate."""
    least = default_threshold(method)
    return f"Similarity: {MEASURES[method.measure]}. Threshold: {least:.4g}."


def markdown() -> str:
    """Return docs/methods.md."""
    summaries = [
        (f"[`{name}`](#{name})", method.summary, f"{default_threshold(method):.4g}")
        for name, method in all_methods().items()
    ]
    counts = Counter(row for one in all_methods().values() for row in options_of(one.defaults))
    shared = [row for row, methods in counts.items() if methods > 1]
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


@command
def methods(
    name: str | None = None, *, as_markdown: Annotated[bool, typer.Option("--markdown")] = False
) -> None:
    """List the methods that compare pages, or describe one.

    Example: streamer methods supershingles

    Args:
        name: Show this method or preset.
        as_markdown: Print all methods as Markdown (docs/methods.md).
    """
    if as_markdown and name is not None:
        raise SettingsError("Give a method or --markdown, not both.")
    if as_markdown:
        typer.echo(markdown(), nl=False)
        return
    console = Terminal()
    if name is None:
        console.print(_list())
    else:
        _show(console, name)


def _list() -> Table:
    """Return all methods and presets as a table."""
    own = [
        (name, method.summary, f"{default_threshold(method):.4g}")
        for name, method in all_methods().items()
    ]
    presets = [
        (name, f"Preset of {preset.method}. {preset.purpose}", f"{preset.threshold:g}")
        for name, preset in PRESETS.items()
    ]
    return listing(("method", "what it does", "threshold"), [*own, (), *presets], text=2)


def _show(console: Terminal, name: str) -> None:
    """Print one method, or the one of a preset."""
    method = method_class(PRESETS[name].method if name in PRESETS else name)
    console.print(Text.assemble((method.name, "bold"), f"  {method.summary}\n\n{method.advice}\n"))
    console.print(decision(method))
    own = PRESETS[name].options if name in PRESETS else {}
    rows = [
        (option, own.get(option, default), meaning)
        for option, default, meaning in options_of(method.defaults)
    ]
    console.print(listing(("parameter", "default", "meaning"), rows, text=3))
