"""What runs the manifests on a cluster: the README's commands, and the stand-in for a plugin."""

import ast
from pathlib import Path

from tests.cluster import life
from tests.cluster.readme import Readme

ROOT = Path(__file__).parents[2]


def test_the_whole_try_runs_every_command_of_the_readme() -> None:
    tree = ast.parse(Path(life.__file__).read_text("utf-8"))
    asked = [
        str(call.args[0].value)
        for call in ast.walk(tree)
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr == "_do"
        and isinstance(call.args[0], ast.Constant)
    ]
    blocks = Readme().left
    assert len(blocks) >= 10
    chosen = [[block for block in blocks if part in block] for part in asked]
    assert all(len(found) == 1 for found in chosen), list(zip(asked, chosen, strict=True))
    assert {found[0] for found in chosen} == {*blocks}
