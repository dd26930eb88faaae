"""A class name means one thing in the whole package."""

import ast
from collections import defaultdict
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "streamer"


def test_no_class_name_occurs_twice() -> None:
    modules = defaultdict(list)
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                modules[node.name.lstrip("_")].append(str(path.relative_to(PACKAGE)))
    assert modules["Verdict"] == ["model.py"]
    assert {name: found for name, found in modules.items() if len(found) > 1} == {}
