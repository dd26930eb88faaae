"""Damage to the files of an index: a byte flipped, a file cut short or removed."""

import contextlib
import hashlib
import os
from pathlib import Path
from random import Random
from typing import NamedTuple

from streamer.stored.database import Database

FLIP, CUT, REMOVE = "flip", "cut", "remove"


class Damage(NamedTuple):
    """What is done to a file: `at` is the bit that is flipped, or the length that it is cut to."""

    kind: str
    name: str
    at: int = 0

    def do(self, folder: Path) -> None:
        """Damage the file in `folder`."""
        path = folder / self.name
        if self.kind == REMOVE:
            path.unlink()
        elif self.kind == CUT:
            os.truncate(path, self.at)
        else:
            with path.open("r+b") as file:
                file.seek(self.at // 8)
                byte = file.read(1)[0]
                file.seek(self.at // 8)
                file.write(bytes([byte ^ 1 << self.at % 8]))


def names_in(folder: Path) -> list[str]:
    """Return the files of a folder, at any depth."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def some_damage(folder: Path, random: Random) -> Damage:
    """Draw a damage: any file as likely as another; half of the cuts near its end."""
    name = random.choice(names_in(folder))
    size = (folder / name).stat().st_size
    kind = random.choice((FLIP, FLIP, CUT, CUT, REMOVE)) if size else REMOVE
    if kind == FLIP:
        return Damage(kind, name, random.randrange(8 * size))
    if kind == CUT:
        near = random.random() < 0.5
        return Damage(kind, name, size - random.randint(1, min(size, 16 if near else size)))
    return Damage(kind, name)


def sorted_files(store: Path, family: bytes) -> list[Path]:
    """Return the files of a family of the database in `store`, in the order of what they hold."""
    with contextlib.closing(Database.look(store)) as database:
        files = database._opened.live_files()  # noqa: SLF001 - nobody else asks which are whose
    own = [file for file in files if file["start_key"].startswith(family)]
    own.sort(key=lambda file: file["start_key"])
    return [store / file["name"].removeprefix("/") for file in own]


def digests(folder: Path) -> dict[str, str]:
    """Return a digest of each file in a folder, by its name."""
    return {
        name: hashlib.blake2b((folder / name).read_bytes()).hexdigest() for name in names_in(folder)
    }
