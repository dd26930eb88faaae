"""Snapshots that name files outside an index, and folders that hold the files of somebody else.

Each round has a folder with an index, its snapshots and a home of somebody. After it, every file
that neither the index nor a snapshot owns is as it was, and `streamer check --deep` finds no damage
in the index and in what was restored.
"""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

from streamer.upkeep.snapshots import SnapshotFolder
from tests.campaign.campaign import Campaign, Outcome
from tests.helpers.growing_index import everything, forge
from tests.helpers.growing_index import run as command

REFUSED, UNAVAILABLE = 3, 1  # exit codes: what is there is wrong; something is in the way
PAGES = 60
OF_AN_INDEX = re.compile(r"secret\.key|store/[A-Za-z0-9][A-Za-z0-9._-]*")
PARTS = ("..", ".", "", "home", "other", "store", "secret.key", ".bashrc", "CURRENT", "{round}")
ENDS = ("", "", "", "/", "\n", "\x00", " ", "\\..\\home", "/.", "\u2215x")
FOREIGN = ("photo.jpg", "notes.new", "A" * 32, "a" * 40, "snapshot-1.json", ".hidden", "0" * 31)
PLACES = ("index.restoring", "again.restoring", "again")


class BrokenError(Exception):
    """Say which promise is broken."""


def run(rounds: int, seed: int, folder: Path) -> Outcome:
    """Meet hostile snapshots and foreign files, each round in a new folder."""
    kinds = [_forged, _foreign_files, _links, _in_the_way]
    made = folder / "made"
    _make(made, seed)
    violations, done = [], Counter[str]()
    for number in range(rounds):
        kind, draw, here = kinds[number % len(kinds)], Random(f"{seed}/{number}"), folder / "round"
        shutil.copytree(made, here)
        try:
            done[kind(here, draw)] += 1
            _check(here / "index")
        except BrokenError as error:
            violations.append(f"round {number}, seed {seed}: {kind.__name__}: {error}")
        shutil.rmtree(here)
    return Outcome(rounds, violations, figures={**done})


def _make(folder: Path, seed: int) -> None:
    """Make an index, two snapshots of it, and a home with files."""
    folder.mkdir()
    (folder / "home").mkdir()
    (folder / "home" / ".bashrc").write_text("alias ls=ls")
    for number in range(2):
        _grow(folder, Random(f"{seed}/{number}"), f"{number}")
        _ended(0, "snapshot", folder / "index", folder / "snapshots", "--keep", 2)
    shutil.copytree(folder / "index", folder / "other")


def _grow(here: Path, draw: Random, name: str) -> None:
    """Judge more pages with the index; neither they nor their verdicts stay."""
    pages, words = here / f"{name}.jsonl", [f"word{n}" for n in range(300)]
    with pages.open("w") as file:
        for number in range(PAGES):
            body = " ".join(draw.choices(words, k=60))
            file.write(json.dumps({"url": f"http://a.example/{name}/{number}", "body": body}))
            file.write("\n")
    verdicts = here / f"{name}.verdicts"
    _ended(0, "replay", pages, "--index", here / "index", "--verdicts", verdicts)
    for path in here.glob(f"{name}.*"):
        path.unlink()


def _ended(code: int, *arguments: object) -> str:
    """Run a command, which must end with an exit code; return what it said."""
    ended, said = command(*arguments)
    if ended != code:
        raise BrokenError(f"{arguments[0]} ended with {ended}, not {code}: {said}")
    return said


def _check(index: Path) -> None:
    _ended(0, "check", "--index", index, "--deep")


def _same(before: dict[str, bytes | None], here: Path) -> None:
    """See that all of what was there is as it was, and that there is no more."""
    after = everything(here)
    changed = {name for name in before.keys() | after if before.get(name) != after.get(name)}
    if changed:
        raise BrokenError(f"changed, made or removed: {sorted(changed)}")


def _restored(here: Path) -> None:
    """Restore the newest snapshot next to the index; it must be sound."""
    _ended(0, "restore", here / "snapshots", here / "again")
    _check(here / "again")


# ---- what is done in a round: each returns its name for the report -------------------------------


def _forged(here: Path, draw: Random) -> str:
    """Have the newest snapshot name another place, with a digest that fits, or no digest."""
    name = ""
    while not name or OF_AN_INDEX.fullmatch(name):
        name = "/".join(draw.choices(PARTS, k=draw.randint(1, 5))) + draw.choice(ENDS)
        name = draw.choice(("", "", "/")) + name.replace("{round}", str(here))
    wrong = {"name": name} if draw.random() < 0.8 else {"digest": draw.choice((name, "A" * 32))}
    newest = SnapshotFolder(here / "snapshots").numbers()[-1]
    forge(here / "snapshots" / f"snapshot-{newest:06}.json", _change(draw, wrong))
    before = everything(here)
    said = _ended(REFUSED, "restore", here / "snapshots", here / "again")
    _same(before, here)
    if "is not one of an index" not in said:
        raise BrokenError(f"{wrong!r} was refused for another reason: {said}")
    return "snapshots that name other places"


def _change(draw: Random, wrong: dict[str, str]) -> Callable[[list[dict[str, str]]], None]:
    return lambda files: draw.choice(files).update(wrong)


def _foreign_files(here: Path, draw: Random) -> str:
    """Put files into the folder of snapshots; snapshots that replace each other leave them."""
    files, foreign = here / "snapshots" / "files", {}
    for name in draw.sample(FOREIGN, draw.randint(1, len(FOREIGN))):
        foreign[draw.choice((files, files.parent)) / name] = draw.randbytes(20)
    for path, data in foreign.items():
        path.write_bytes(data)
    for number in range(draw.randint(1, 3)):
        _grow(here, draw, f"more{number}")
        _ended(0, "snapshot", here / "index", here / "snapshots", "--keep", 1)
    lost = [path.name for path, data in foreign.items() if not _holds(path, data)]
    if lost:
        raise BrokenError(f"a snapshot removed or changed {lost}")
    _restored(here)
    return "foreign files among snapshots"


def _holds(path: Path, data: bytes) -> bool:
    return path.is_file() and path.read_bytes() == data


def _links(here: Path, draw: Random) -> str:
    """Have links where a snapshot keeps its files: nothing behind them changes."""
    files, home = here / "snapshots" / "files", here / "home"
    for number in range(3):
        (home / f"{number}{draw.randbytes(16).hex()[1:]}").write_bytes(b"named as by its digest")
    whole = draw.random() < 0.5
    if whole:
        files.rename(here / "files")
        files.symlink_to(home)
    else:
        (files / draw.randbytes(16).hex()).symlink_to(home / ".bashrc")
        (files / draw.randbytes(16).hex()).symlink_to(home)
    before = everything(home)
    _grow(here, draw, "more")
    _ended(UNAVAILABLE if whole else 0, "snapshot", here / "index", here / "snapshots", "--keep", 1)
    _same(before, home)
    if not whole:
        _restored(here)
    return "links among snapshots"


def _in_the_way(here: Path, draw: Random) -> str:
    """Have something of somebody where a restore works: it is refused, and nothing changes."""
    place = here / draw.choice(PLACES)
    target = here / "index" if place.name.startswith("index") else here / "again"
    if target.name == "index":
        shutil.rmtree(target)
    kind = draw.choice(("file", "folder", "index", "link"))
    if kind == "file":
        place.write_text("mine")
    elif kind == "folder":
        (place / "deeper").mkdir(parents=True)
        (place / "thesis.txt").write_text("mine")
    elif kind == "index":
        shutil.copytree(here / "other", place)
    else:
        place.symlink_to(here / "home")
    before = everything(here)
    code, said = command("restore", here / "snapshots", target)
    if code not in {UNAVAILABLE, 2, REFUSED}:
        raise BrokenError(f"restore over a {kind} at {place.name} ended with {code}: {said}")
    _same(before, here)
    if target.name == "index":
        place.unlink() if place.is_file() or place.is_symlink() else shutil.rmtree(place)
        _ended(0, "restore", here / "snapshots", target)
    return "restores with something in their way"


CAMPAIGN = Campaign(
    "hostile",
    "A snapshot names files outside the index, or files, links and folders of somebody else are"
    " where snapshots and restores work. Nothing that is not the index's or a snapshot's is"
    " written, changed or removed, and a deep check finds the index and what is restored sound.",
    rounds=1_000,
    rounds_in_short=40,
    rounds_in_ci=40,
    run=run,
)
