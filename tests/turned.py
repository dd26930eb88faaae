"""Turn bounds by hand, one at a time: the tests next to a file must notice each.

`make turned` turns every `<` to `<=` and back, `>` to `>=`, `==` to `!=`, and leaves out every
`+ 1` and `- 1`, in the files of FILES; `make turned FILES="..."` in some of them. It runs in copies
of the checkout. Kernels are compiled again only where a file changed, or inlines one that did.
"""

import io
import os
import queue
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tokenize
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
COPIES = 2
# For the tests of a change; more where the first run, which compiles all kernels, takes more.
SECONDS_MIN = 60.0
TURNED = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
INDEX = [f"tests/unit/index/test_{name}.py" for name in ("shard", "shard_expiry", "url_versions")]
# The tests of each file, and the files that inline its kernels.
FILES: dict[str, tuple[list[str], list[str]]] = {
    "streamer/index/log_time.py": (
        ["tests/unit/index/test_log_time.py", "tests/property/test_log_time.py"], [],
    ),
    "streamer/index/shard.py": (
        [
            *INDEX, "tests/unit/index/test_shard_look_up.py", "tests/unit/run/test_judge.py",
            "tests/property/test_index_forgetting.py",
        ],
        [],
    ),
    "streamer/stored/frozen.py": (
        [
            "tests/unit/stored/test_frozen.py", "tests/unit/stored/test_lookup.py",
            "tests/property/test_frozen_keys.py",
        ],
        ["streamer/stored/generations.py"],
    ),
    "streamer/index/rule.py": (
        [
            *INDEX, "tests/unit/index/test_shard_near_misses.py", "tests/unit/index/test_rule.py",
            "tests/unit/analysis/audit/test_folded_kept_pages.py",
            "tests.unit.run.test_reference_indexes.py",
        ],
        [],
    ),
    "streamer/index/postings.py": (
        [
            "tests/unit/index/test_postings.py", "tests/unit/stored/test_key_table.py",
            "tests/unit/stored/test_frozen.py", "tests/property/test_frozen_keys.py",
        ],
        [
            f"streamer/stored/{name}.py"
            for name in ("key_table", "frozen", "generations", "row_blocks")
        ],
    ),
    "tests/oracles/log_time.py": (["tests/property/test_log_time.py"], []),
    "tests/helpers/serial_index.py": (
        [
            "tests/property/test_index_serial.py", "tests/property/test_index_forgetting.py",
            "tests.unit.run.test_reference_indexes.py",
        ],
        [],
    ),
}  # fmt: skip
# What no test can notice: what a changed line has, and why it says the same.
_FIRST = "another log only if its time is the second of January 1970"
_EMPTY, _SAME = "an empty range of blocks is dropped", "the bound itself is what is returned"
EQUAL = {
    "for i in range(start + 0, end)": "the first word is where it belongs",
    "words[place - 1] >= word": "of equal words either may come first",
    "if j >= starts[i] and words[j - 1]": "a filter may say yes where nothing is",
    "if shape.bits + int64(shift) >= _WORD_BITS": "nothing of the value is left for the next byte",
    "ROWS_AHEAD_MAX": "what is fetched ahead changes no result",
    "record.start >= position": "no record is empty", "is_first = not self._jumps": _FIRST,
    "before <= self._ahead_max": _FIRST, "2 * len(self._dated) >=": "the window is odd",
    "if near is None or similarity > 0": "no threshold is zero",
    "prefetch(address, find_slot(": "what is fetched ahead changes no result",
    "(steps < AHEAD_MAX_MS)": "the slower way gives the same times",
    "if each >= before)": "no date before the first doubted one is as late as the time",
    "if first <= time <= to)": _SAME, "if first <= times[-1] and": _SAME,
    "[(first <= times)": _SAME, "(first <= found)": _SAME, "if low + 0 < high]": _EMPTY,
    "if low + 1 <= high]": _EMPTY,
}  # fmt: skip


class Turn(NamedTuple):
    """A change of a file: its whole text, and the changed line."""

    path: str
    number: int
    line: str
    text: str


def turns(path: str, text: str) -> list[Turn]:
    """Return all changes of a file."""
    found: list[Turn] = []
    tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    for before, token, after in zip(tokens, tokens[1:], tokens[2:], strict=False):
        is_binary = before.string in {")", "]"} or before.type in {tokenize.NAME, tokenize.NUMBER}
        steps = token.string in {"+", "-"} and after.string == "1" and before.string != "return"
        if token.type != tokenize.OP:
            continue
        if token.string in TURNED:
            new, at = TURNED[token.string], token
        elif steps and is_binary:
            new, at = "0", after
        else:
            continue
        number = at.start[0]
        lines = text.splitlines(keepends=True)
        line = lines[number - 1]
        lines[number - 1] = line[: at.start[1]] + new + line[at.end[1] :]
        found.append(Turn(path, number, lines[number - 1].strip(), "".join(lines)))
    return found


def copied(folder: Path) -> Path:
    """Copy the checkout; in the copy all kernels have one cache, which numba keeps file by file."""
    for name in ("streamer", "tests", "pyproject.toml", "benchmarks", "requirements", "docs"):
        source = ROOT / name
        if source.is_dir():
            unwanted = shutil.ignore_patterns("__pycache__")
            shutil.copytree(source, folder / name, ignore=unwanted)
        else:
            shutil.copy(source, folder / name)
    kernel = folder / "streamer/kernel.py"
    code = kernel.read_text(encoding="utf-8")
    fixed = re.sub(r"(def _digest\(\) -> str:\n)", r'\1    return "turned"\n', code)
    fixed, count = re.subn(r"\n[^\n]*\._source_stamp = None[^\n]*", "", fixed)
    assert (fixed != code, count) == (True, 1)
    kernel.write_text(fixed, encoding="utf-8")
    return folder


def fails(folder: Path, tests: list[str], seconds_max: float | None = None) -> bool:
    """Return whether tests fail in a copy, or take too long."""
    own = {"PYTHONPATH": str(folder), "NUMBA_CACHE_DIR": str(folder / "cache")}
    own |= {"PYTHONHASHSEED": "0", "NUMBA_BOUNDSCHECK": "1"}
    command = "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-p", "no:randomly"
    try:
        done = subprocess.run(
            [sys.executable, *command, *tests], cwd=folder, capture_output=True, check=False,
            env={**os.environ, **own}, timeout=seconds_max,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return True
    return done.returncode != 0


def survives(turn: Turn, folder: Path, seconds_max: float) -> bool:
    """Return whether no test notices a change; one that hangs is noticed."""
    tests, inlining = FILES[turn.path]
    file = folder / turn.path
    text = file.read_text(encoding="utf-8")
    try:
        for path in (file, *(folder / each for each in inlining)):
            path.touch()
        file.write_text(turn.text, encoding="utf-8")
        return not fails(folder, tests, seconds_max)
    finally:
        file.write_text(text, encoding="utf-8")


def main(paths: list[str]) -> int:
    """Turn the bounds of files; return how many changes no test has noticed, without a reason."""
    with tempfile.TemporaryDirectory(prefix="turned-") as scratch:
        folders: queue.SimpleQueue[Path] = queue.SimpleQueue()
        for number in range(COPIES):
            folders.put(copied(Path(scratch) / str(number)))

        def tried(turn: Turn, seconds_max: float) -> tuple[Turn, bool]:
            folder = folders.get()
            try:
                return turn, survives(turn, folder, seconds_max)
            finally:
                folders.put(folder)

        left, limit = 0, SECONDS_MIN
        with ThreadPoolExecutor(COPIES) as pool:
            for path in paths:
                own, began = [folders.get() for _ in range(COPIES)], time.monotonic()
                for failed in pool.map(partial(fails, tests=FILES[path][0]), own):
                    assert not failed, f"the tests of {path} fail without any change"
                for folder in own:
                    folders.put(folder)
                every = turns(path, (ROOT / path).read_text(encoding="utf-8"))
                limit = max(limit, time.monotonic() - began)
                for turn, is_left in pool.map(partial(tried, seconds_max=limit), every):
                    if is_left and not any(part in turn.line for part in EQUAL):
                        left += 1
                        sys.stdout.write(f"{path}:{turn.number}: {turn.line}\n")
                        sys.stdout.flush()
                sys.stdout.write(f"{path}: {len(every)} changes tried\n")
        return left


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or [*FILES]) > 0)
