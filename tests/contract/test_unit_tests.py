"""A module's unit tests are in the file that has its name."""

from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
UNIT = TESTS / "unit"
# Folders of tests/unit that are not of streamer/.
ELSEWHERE = {"benchmarks": TESTS.parent / "benchmarks"}


@pytest.mark.parametrize(
    "path", sorted(UNIT.rglob("test_*.py")), ids=lambda path: str(path.relative_to(UNIT))
)
def test_a_unit_test_is_named_after_its_module_and_may_name_an_aspect(path: Path) -> None:
    folder = path.relative_to(UNIT).parent
    modules = ELSEWHERE.get(str(folder), TESTS.parent / "streamer" / folder)
    parts = path.stem.removeprefix("test_").split("_")
    named = ["_".join(parts[:end]) for end in range(1, len(parts) + 1)]
    found = [name for name in named if (modules / f"{name}.py").is_file()]
    assert found, f"no {named[-1]}.py in {modules}"


def test_the_guide_names_every_helper() -> None:
    guide = (TESTS / "README.md").read_text(encoding="utf-8")
    helpers = sorted(path.stem for path in (TESTS / "helpers").glob("*.py"))
    assert [name for name in helpers if f"`{name}`" not in guide] == []
