"""Ten million pages out of one: a process that writes JSON lines, pass after pass, to a pipe.

So many pages do not fit on a disk as a file. Pass k over a base file shifts the vowels of all texts
by k letters: every word has a vowel, so pages of two passes share no sequence of words, while the
copies within a pass stay copies of each other. Some of the base file's copies are given the salt of
an earlier pass instead: they are copies of pages of that pass, and so duplicates are spread over
the whole past. URLs name the pass. This is for files of corpus.py only: after a backslash, these
have no vowel, and each line begins with the same number of bytes.

    python -m benchmarks.salted_source base.jsonl --base-pages 1000000 --pages 10000000 | ...
"""

from __future__ import annotations

import argparse
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import numpy.typing as npt

from benchmarks import corpus
from streamer.kernel import kernel
from streamer.machine import uint8
from streamer.run.outputs import StandardOutput

if TYPE_CHECKING:
    from collections.abc import Iterator

PASSES_MAX = 26  # vowels come round to where they were
BLOCK_BYTES = 512 << 10  # stays in the cache between reading, salting and writing
_BLANK = corpus.MESSAGE % (0, 0, 0, b"")
TEXT_AT = len(_BLANK) - len(b'"}\n')
PASS_AT = _BLANK.index(b"/article-")
NEWLINE = ord("\n")
PASS = b"/pass-%02d-"  # in the place of `/article-`, as long as it
_LETTERS = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz", np.uint8)
_VOWELS = np.array([0, 4, 8, 14, 20])

Block = npt.NDArray[np.uint8]
Salts = npt.NDArray[np.int64]


class SourceCost(msgspec.Struct, frozen=True):
    """What the source took: pages, and seconds of its own CPU without its start."""

    pages: int
    cpu_seconds: float

    @property
    def cpu_us(self) -> float:
        """Return microseconds of CPU a page."""
        return 1e6 * self.cpu_seconds / self.pages


@kernel
def salt_lines(lines: Block, ends: Salts, salts: Salts, text_at: int, shifted: Block) -> None:
    """Shift the vowels of each line's text in place; shifted[salt, :] is what `aeiou` become.

    `ends` are where lines end; the text of one begins `text_at` bytes after its beginning.
    """
    start = 0
    for i in range(ends.shape[0]):
        a, e, i_, o, u = shifted[salts[i], :]
        text = lines[start + text_at : ends[i]]
        for at in range(text.shape[0]):  # without a branch: many bytes at a time
            old = text[at]
            new = a if old == uint8(0x61) else old
            new = e if old == uint8(0x65) else new
            new = i_ if old == uint8(0x69) else new
            new = o if old == uint8(0x6F) else new
            text[at] = u if old == uint8(0x75) else new
        start = ends[i]


def shifted_vowels() -> Block:
    """Return uint8[PASSES_MAX, 5]: what each vowel becomes under each salt."""
    return np.stack([_LETTERS[(_VOWELS + salt) % len(_LETTERS)] for salt in range(PASSES_MAX)])


def salts_of_pass(number: int, copies: npt.NDArray[np.bool_]) -> Salts:
    """Return the salt of each page of a pass: its number, for copies any up to that."""
    salts = np.full(len(copies), number, np.int64)
    drawn = np.random.default_rng(number).integers(0, number + 1, len(copies))
    salts[copies] = drawn[copies]
    return salts


def base_copies(pages: int) -> npt.NDArray[np.bool_]:
    """Return which of the base file's pages are copies of an earlier one."""
    numbers = np.arange(pages, dtype=np.uint64)
    return corpus.Corpus()._is_copy(numbers)  # noqa: SLF001 - only the generator knows its copies


def blocks(base: Path, copies: npt.NDArray[np.bool_], pages: int) -> Iterator[Block]:
    """Yield the lines of so many pages, some whole lines at a time; each block goes with the next.

    `copies` is what `base_copies` gives for the pages of the base file that are to be used.

    Raises:
        ValueError: more skips the base file are asked for than there are salts, or it is
            shorter than `copies`.
    """
    base_pages = len(copies)
    passes = -(-pages // base_pages)
    if passes > PASSES_MAX:
        raise ValueError(f"{pages} pages are {passes} passes, more than {PASSES_MAX}")
    for number in range(passes):
        left = pages - number * base_pages
        yield from _one_pass(base, number, salts_of_pass(number, copies)[:left])


def _one_pass(base: Path, number: int, salts: Salts) -> Iterator[Block]:
    """Yield the lines of a pass, one for each of `salts`."""
    shifted, name = shifted_vowels(), np.frombuffer(PASS % number, np.uint8)
    buffer = np.empty(BLOCK_BYTES, np.uint8)
    rest = done = 0
    with base.open("rb", buffering=0) as file:
        while done < len(salts):
            read = file.readinto(buffer[rest:].data)
            if not read:
                raise ValueError(f"{base} has {done} pages, or a longer one; {len(salts)} are due")
            lines = buffer[: rest + read]
            ends = np.flatnonzero(lines == NEWLINE)[: len(salts) - done] + 1
            starts = np.concatenate(([0], ends))
            lines[(starts[:-1] + PASS_AT)[:, None] + np.arange(len(name))] = name
            salt_lines(lines, ends, salts[done : done + len(ends)], TEXT_AT, shifted)
            done += len(ends)
            whole = int(starts[-1])
            yield lines[:whole]
            rest = len(lines) - whole
            buffer[:rest] = lines[whole:].copy()


def main() -> None:
    """Write pages to standard output, and what that cost to a file."""
    parser = argparse.ArgumentParser(description="Write salted copies of a corpus to a pipe.")
    parser.add_argument("base", type=Path, help="a corpus of corpus.py")
    parser.add_argument("--base-pages", type=int, required=True, help="pages of it to use")
    parser.add_argument("--pages", type=int, required=True, help="pages to write")
    parser.add_argument("--report", type=Path, help="where the cost goes, as JSON")
    arguments = parser.parse_args()
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # the reader says why it stopped
    copies, none = base_copies(arguments.base_pages), np.zeros(0, np.int64)
    salt_lines(np.zeros(0, np.uint8), none, none, TEXT_AT, shifted_vowels())  # compiled, or loaded
    output = StandardOutput()
    begin = time.process_time()
    for lines in blocks(arguments.base, copies, arguments.pages):
        output.write(lines.data)
    cost = SourceCost(arguments.pages, time.process_time() - begin)
    if arguments.report:
        arguments.report.write_bytes(msgspec.json.encode(cost))


if __name__ == "__main__":
    main()
