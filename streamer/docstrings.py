"""What a docstring says of each attribute or argument: help texts of settings, options, metrics.

A section, as `Attributes:`, `Args:` or `Metrics:`, has an entry for each: `name: text`, or
`name (FORM): text`, where FORM is what a value looks like. So a help text is written once, where a
reader of the code looks for it.
"""

import inspect
import re
from typing import NamedTuple

from streamer.errors import SettingsError

_ENTRY = re.compile(r"    (\w+)(?: \((.+?)\))?: (.+)", re.DOTALL)
_SECTION_END = re.compile(r"\n(?=\S)")


class Described(NamedTuple):
    """What is said of an attribute or argument; `form` is "" where nothing says what it is like."""

    text: str
    form: str = ""


def read_section(docstring: str | None, section: str) -> tuple[str, dict[str, Described]]:
    """Return a docstring without the section of this name, and the entries of that.

    Raises:
        SettingsError: Python was started so that there are no docstrings.
    """
    if docstring is None:
        raise SettingsError(
            "Options are described by docstrings, which -OO and PYTHONOPTIMIZE=2 leave out. Start "
            "Python without them."
        )
    before, _, rest = inspect.cleandoc(docstring).partition(f"{section}:\n")
    own, _, after = _SECTION_END.sub("\0", rest, count=1).partition("\0")
    entries = {}
    for part in re.split(r"\n(?=    \S)", own.rstrip()):
        if found := _ENTRY.fullmatch(part):
            name, form, text = found.groups()
            entries[name] = Described(" ".join(text.split()), form or "")
    return f"{before}{after}".rstrip(), entries
