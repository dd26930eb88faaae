"""The lines of code, and the words of the documents, stay within ../shared/budget.toml."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SHARED = ROOT / "../shared"
HELD = "part-22"  # the last section that holds; a next one would be worked towards


def counted() -> dict[str, int]:
    """Return lines of code by folder, and the words of the documents, as the shared tool counts."""
    command = [sys.executable, str(SHARED / "tools/count_code.py"), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    rows = (line.rsplit(maxsplit=1) for line in done.stdout.splitlines())
    return {name.strip(): int(count.replace(",", "")) for name, count in rows}


def test_the_code_is_within_its_budget() -> None:
    file = SHARED / "budget.toml"
    if not file.exists():
        pytest.skip("budget.toml: put it into ../shared, next to this checkout")
    sections: dict[str, dict[str, int]] = tomllib.loads(file.read_text(encoding="utf-8"))
    names = list(sections)
    held = sections[HELD]
    next_name = names[min(names.index(HELD) + 1, len(names) - 1)]
    found = counted()
    over = []
    for name, aim in sections[next_name].items():
        limit = max(aim, held.get(name, sections["start"].get(name, found[name])))
        left = limit - found[name]
        sys.stdout.write(f"{name}: {found[name]:,}, {left:,} left; {next_name} asks for {aim:,}\n")
        if left < 0:
            over.append(f"{name} has {-left:,} too many")
    assert not over, over
