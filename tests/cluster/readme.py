"""The commands of deploy/README.md's part of Kubernetes: what is tried are these, as they are."""

import re
from pathlib import Path

ROOT = Path(__file__).absolute().parents[2]
TITLE = "## Kubernetes"


class Readme:
    """The blocks of commands; `left` are those that nobody has asked for yet."""

    def __init__(self) -> None:
        text = (ROOT / "deploy" / "README.md").read_text("utf-8")
        section = re.split(r"^## ", text.partition(f"\n{TITLE}\n")[2], flags=re.MULTILINE)[0]
        fences = re.findall(r"^( *)```(\w*)\n(.*?)^ *```$", section, re.DOTALL | re.MULTILINE)
        self.left = [
            re.sub(f"^{indent}", "", block, flags=re.MULTILINE)
            for indent, language, block in fences
            if not language
        ]

    def block(self, part: str) -> str:
        """Return the one block in which `part` stands, which is left no longer."""
        found = [block for block in self.left if part in block]
        assert len(found) == 1, (part, found)
        self.left.remove(found[0])
        return found[0]
