"""Damage to an index: a byte flipped, a file cut short or removed, and then used as ever.

Half of the rounds are of an index made by `streamer replay`, which then judges a new file; half of
the indexes of tests/property/test_index_damage.py, of judges and of a worker. What they say must be
what the undamaged index says, or an error with exit code 3 (2 for a key that cannot be used).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from typer.testing import CliRunner

from streamer.cli.main import app
from tests.helpers.damage import Damage, digests, some_damage
from tests.property.test_index_damage import Index, is_refused, make_indexes

FLUSHES = 20
PAGES_A_FLUSH = 12
BY_PROCESS = 50  # each so many rounds, the command runs in a process of its own

Answer = Any
KEY_REFUSED = 2  # the exit code for a key that cannot be used


class Replayed(NamedTuple):
    """An index that is damaged, how a replay is asked with a copy of it, and what it says."""

    folder: Path
    ask: Callable[[Path, bool], tuple[int, Answer]]
    wanted: Answer


def run(rounds: int, seed: int, folder: Path) -> list[str]:
    """Damage an index and use it, so many times."""
    replayed, others = _replayed(folder / "replay", seed), make_indexes(folder)
    violations: list[str] = []
    for number in range(rounds):
        random = Random(f"{seed}/{number}")
        index = None if number % 2 == 0 else others[number // 2 % len(others)]
        damage = some_damage(index.folder if index else replayed.folder, random)
        if index is None:
            broken = _round(replayed, damage, apart=number % BY_PROCESS == BY_PROCESS - 2)
        else:
            broken = _checked(index, damage)
        if broken:
            name = index.kind if index else "replay"
            violations.append(f"round {number}, seed {seed}: {name}, {damage}: {broken}")
    return violations


def _checked(index: Index, damage: Damage) -> str:
    """Damage an index of a judge or a worker; return what was broken."""
    try:
        is_refused(index, damage)
    except AssertionError as error:
        return str(error)
    return ""


def _round(subject: Replayed, damage: Damage, *, apart: bool) -> str:
    """Damage a copy, and use it twice; return what was broken."""
    copy = subject.folder.parent / "damaged"
    shutil.copytree(subject.folder, copy)
    try:
        damage.do(copy)
        before = digests(copy)
        code, said = subject.ask(copy, apart)
        if code == 0:
            return "" if said == subject.wanted else "other verdicts"
        allowed = {3, KEY_REFUSED} if damage.name == "secret.key" else {3}
        if code not in allowed:
            return f"exit code {code}: {said}"
        return _again(subject, damage, copy, before)
    finally:
        shutil.rmtree(copy)


def _again(subject: Replayed, damage: Damage, copy: Path, before: dict[str, str]) -> str:
    """Return what is broken if a refused index is used again: it must be as refused as before.

    A damaged block of rows is met only when a verdict needs it, in the middle of the work; what was
    done until then may stand. All other damage is met at the start, and nothing may change.
    """
    begun = damage.name.endswith(".sst") and damage.kind == "flip"
    if not begun and digests(copy) != before:
        return "a refused index was changed"
    code, said = subject.ask(copy, False)
    return "" if code in {3, KEY_REFUSED} else f"refused, then exit code {code}: {said}"


def _replayed(folder: Path, seed: int) -> Replayed:
    """Return an index of some runs over some files, after the last."""
    folder.mkdir(parents=True)
    random = Random(seed)
    index, probe = folder / "index", folder / "probe.jsonl"
    words = [f"word{n}" for n in range(400)]
    texts = [random.choices(words, k=80) for _ in range(FLUSHES * PAGES_A_FLUSH)]
    for number in range(FLUSHES // 2):  # a run flushes at its start and at its end
        part = texts[number * 2 * PAGES_A_FLUSH : (number + 1) * 2 * PAGES_A_FLUSH]
        file = _page_file(folder / f"{number}.jsonl", part)
        code, said = _replay(file, index, folder / f"{number}.verdicts", apart=False)
        assert code == 0, said
    copies = [_edited(random, text) for text in random.sample(texts, 60)]
    _page_file(probe, [*copies, *(random.choices(words, k=80) for _ in range(20))])

    def ask(copy: Path, apart: bool) -> tuple[int, Answer]:  # noqa: FBT001 - as Replayed
        out = folder / "probe.verdicts"
        for old in folder.glob(f"{out.name}*"):
            old.unlink()
        code, said = _replay(probe, copy, out, apart=apart)
        return (code, said) if code else (0, [_shown(line) for line in out.open()])

    probed = folder / "asked"
    shutil.copytree(index, probed)
    code, wanted = ask(probed, False)
    assert code == 0, wanted
    assert {verdict for _, verdict, *_ in wanted} == {"unique", "duplicate"}
    return Replayed(index, ask, wanted)


def _page_file(path: Path, texts: list[list[str]]) -> Path:
    pages = (
        json.dumps({"url": f"http://a.example/{path.stem}/{n}", "body": " ".join(text)})
        for n, text in enumerate(texts)
    )
    path.write_text("".join(f"{page}\n" for page in pages))
    return path


def _edited(random: Random, text: list[str]) -> list[str]:
    changed = list(text)
    changed[random.randrange(len(text))] = "edited"
    return changed


def _shown(line: str) -> tuple[Any, ...]:
    """Return what a verdict says; of the index's key only its fingerprint tells."""
    told = json.loads(line)
    return told["url"], told["verdict"], told.get("similarity"), told.get("representative")


def _replay(pages: Path, index: Path, verdicts: Path, *, apart: bool) -> tuple[int, str]:
    """Run `streamer replay`, on request in a process of its own; return its exit code and words."""
    arguments = ["replay", str(pages), "--index", str(index), "--verdicts", str(verdicts)]
    arguments += ["--head-pages", str(PAGES_A_FLUSH), "--threads", "1"]
    if apart:
        done = subprocess.run(
            [sys.executable, "-m", "streamer", *arguments],
            capture_output=True, text=True, check=False, timeout=300,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        )  # fmt: skip
        return done.returncode, done.stderr
    result = CliRunner().invoke(app, arguments)
    code = getattr(result.exception, "exit_code", result.exit_code)
    return code, f"{result.output}{result.exception!r}"
