"""`streamer methods`: what there is for --method, with parameters, defaults and advice."""

from typing import Any

from pydantic import BaseModel
from rich.table import Table
from rich.text import Text

from streamer.cli.options import command
from streamer.cli.terminal import Terminal, listing
from streamer.docstrings import read_section
from streamer.sketch.method import Measure, Method
from streamer.sketch.scheme import PRESETS, method_class, write_options
from streamer.sketch.scheme import methods as all_methods
from streamer.sketch.settings import SECRET_BYTES

MEASURES = {
    Measure.RESEMBLANCE: "one-permutation sketch, corrected for chance agreement",
    Measure.SLOTS: "share of equal slots",
    Measure.HAMMING: "share of equal bits",
    Measure.SAMPLE: "resemblance of the samples",
    Measure.BOTTOM: "share of the union's least hashes that both pages have",
    Measure.WEIGHTED: "equal digests, and the distance of the weights",
}


def options_of(model: type[BaseModel]) -> list[tuple[str, str, str]]:
    """Return each option of a model: name, default as the command line writes it, and meaning."""
    texts = {name: field.description or "" for name, field in model.model_fields.items()}
    for one in reversed(model.__mro__):
        _, described = read_section(one.__doc__ or "", "Attributes")
        texts |= {name: each.text for name, each in described.items() if name in texts}
    defaults = write_options(model())
    return [(name, defaults[name] or "none", text.rstrip(".")) for name, text in texts.items()]


def default_threshold(method: type[Method[Any]]) -> float:
    """Return the threshold of a method whose parameters are all at their defaults."""
    return method(method.defaults(), bytes(SECRET_BYTES)).threshold


def decision(method: type[Method[Any]]) -> str:
    """Return two sentences: how a method's sketches compare, and what makes a duplicate."""
    return f"Similarity: {MEASURES[method.measure]}. Threshold: {default_threshold(method):.4g}."


@command
def methods(name: str | None = None) -> None:
    """List the methods that compare pages, or describe one.

    Example: streamer methods supershingles

    Args:
        name: Show this method or preset.
    """
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
