"""Compile the kernels ahead, so that a run does not wait for them later.

`compile_kernels` does it once for a version and a machine, in two processes that share compiled
code through the disk. What only main text needs is two thirds more, and is compiled only for
callers that ask for it. `warm_kernels` takes a page through all stages, so that their code is
loaded: for a worker that joins a group and must answer soon.
"""

# Constants get no versions of their own: by numba's default, half of the compilation went into
# second versions for a literal 0.

import fcntl
import gc
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from streamer import kernel
from streamer.index.ask import verdict_on
from streamer.index.messages import IndexSettings, Pages
from streamer.index.pairs import find_doubtful, matching_pairs, nearest_rows
from streamer.index.postings import Probed, Shape, explain, unpack
from streamer.kernel import FOLDER, KERNELS
from streamer.machine import uint64
from streamer.model import SIMILARITY_ONE
from streamer.pages.bytestream import ByteStream
from streamer.pages.chunk import PAGE_BYTES_MAX, Chunk
from streamer.pages.lines import LineReader
from streamer.pages.parse import PageParser
from streamer.pages.table_lines import Cells, json_objects
from streamer.run.index_folder import IndexFolder
from streamer.run.judge import replay_judge
from streamer.run.page_texts import TextReader
from streamer.run.stages import sign
from streamer.run.totals import unite
from streamer.sketch.hash_sets import decide_similarity, pack_set
from streamer.sketch.method_signer import make_signer
from streamer.sketch.resemblance import SKETCH_WORDS
from streamer.sketch.settings import MAIN_TEXT, SignatureSettings
from streamer.sketch.signer import NativeSigner, PageSigner
from streamer.sketch.site_memory import SiteMemory, SiteTables
from streamer.sketch.site_signer import SiteSigner
from streamer.stored.lookup import StoredLookup
from streamer.stored.rows import scan_rows
from streamer.text.furniture import new_furniture, put_back
from streamer.text.main_text import MODEL, keep_main, new_main_text, read_model
from streamer.text.short_tokens import token_tables
from streamer.text.slices import Slices
from streamer.text.tokens import SPARE, hash_tokens, token_scratch
from streamer.text.visible import ESCAPED, HTML, visible_text

NATIVE_SIGNATURE = SignatureSettings()
MAIN_TEXT_SIGNATURE = SignatureSettings(canonical=MAIN_TEXT)
ONLY_MAIN_TEXT = {
    "streamer.text.blocks", "streamer.text.features", "streamer.text.furniture",
    "streamer.text.hints", "streamer.text.lines", "streamer.text.main_text",
    "streamer.text.site_pages", "streamer.text.trees",
}  # fmt: skip
POLL_SECONDS = 0.1

_BODY = "<p>a b c d e f g h i j k l m n"
_LINE = json.dumps({"url": "u", "body": _BODY}).encode() + b"\n"

Report = Callable[[int, int], None]  # called with how many kernels are done, of how many


def compile_kernels(report: Report = lambda _done, _of: None, *, main_text: bool = False) -> None:
    """Compile every kernel that is not on disk yet, in two processes; others who come wait.

    Those that only main text needs are left out where it is not asked for.
    """
    with ExitStack() as stack:
        if FOLDER:  # other processes wait: several that compile the same are slower than one
            with suppress(OSError):
                lock = stack.enter_context((FOLDER / "compiling").open("a"))  # not changed by it
                fcntl.flock(lock, fcntl.LOCK_EX)
        if kernel.has_all_compiled(main_text=main_text):
            return
        if FOLDER:
            _compile(report, main_text=main_text)
        else:
            _compile_here(main_text=main_text)
        kernel.note_all_compiled(main_text=main_text)


def _compile(report: Report, *, main_text: bool) -> None:
    wanted = sum(main_text or each.py_func.__module__ not in ONLY_MAIN_TEXT for each in KERNELS)
    more = ["main"] if main_text else []
    commands = [[sys.executable, "-m", "streamer.run.warm", part, *more] for part in _PARTS]
    none = subprocess.DEVNULL
    running = [
        subprocess.Popen(each, stdin=none, stdout=none, stderr=none)  # noqa: S603 - this module
        for each in commands
    ]
    try:
        while any(process.poll() is None for process in running):
            report(min(kernel.kernels_on_disk(), wanted), wanted)
            time.sleep(POLL_SECONDS)
    finally:
        for process in running:
            process.kill()
            process.wait()
    if any(process.returncode for process in running):
        _compile_here(main_text=main_text)  # this raises what has failed
    report(wanted, wanted)


def _compile_here(*, main_text: bool) -> None:
    for part in _PARTS.values():
        part(main_text=main_text)


def warm_kernels(signature: SignatureSettings = NATIVE_SIGNATURE) -> None:
    """Have every kernel on the way of a page in memory, by two pages that go it."""
    own = {"scope": "", "site_memory": 0}  # these pages have none
    signature = signature.model_copy(update=own)
    signer = make_signer(signature, bytes(32))
    _judge(signature, (_sign(signer, number) for number in range(2)))


def _compile_text(*, main_text: bool) -> None:
    """Go from text to signatures; the other part has begun with the text of HTML."""
    text = Slices.joined([_BODY.encode()])
    room = np.empty(2 * SPARE, np.uint64)
    hash_tokens(text.data, 0, len(_BODY), uint64(0), token_tables(), token_scratch(), room, 0)
    _sign(make_signer(NATIVE_SIGNATURE, bytes(32)), 0)
    json_objects([Cells("body", text.data, text.starts, text.ends, is_text=True)], 1)
    if main_text:
        signer = NativeSigner(MAIN_TEXT_SIGNATURE, bytes(32))
        _sign(signer, 0)
        _sign(SiteSigner.of(signer, SiteTables(0, {0: SiteMemory(0)}), bytes(32)), 0)
        put_back(new_furniture(0).entries, np.empty((0, 3), np.uint64))
        texts = TextReader(site_memory=1)
        texts.read(_BODY.encode(), ESCAPED | HTML, b"http://a.example/", blocks=True)


def _compile_index(*, main_text: bool) -> None:
    """Find the text of HTML; go from signatures to verdicts, and on to what these are read for."""
    visible_text(_BODY.encode(), ESCAPED | HTML)
    if main_text:
        keep_main(new_main_text(read_model(MODEL)), np.empty(1, np.uint8), 0)
    _judge(NATIVE_SIGNATURE, map(_make_page, range(2)))
    _compile_rule()
    _compile_frozen()


def _compile_rule() -> None:
    """Compare pages, as the judge does and what measures."""
    sketches = np.zeros((2, SKETCH_WORDS), np.uint64)
    sets = pack_set(np.arange(2, dtype=np.uint64))
    decide_similarity(0, sketches[0], sketches[1], SIMILARITY_ONE, lambda: (sets, sets))
    places, pairs, lives = np.arange(2), np.zeros((1, 2), np.int64), np.zeros((2, 3), np.int64)
    starts, met, posted = np.array([0, 2]), np.zeros(2, np.int64), np.zeros(1, np.int64)
    scores = np.zeros(2, np.int32)
    matching_pairs(places, starts, sketches, lives, (1, 0, 9, 9), met, pairs, posted)
    unite(pairs, places)
    find_doubtful(pairs, sketches, sketches, scores, places)
    nearest_rows(pairs, sketches, sketches, 0, scores, places, places, scores)


def _compile_frozen() -> None:
    """Go where only a page that is known among frozen keys goes, and a merge."""
    one, row = np.zeros(1, np.int64), np.array([0, 1])
    probed = Probed(one, one, one, one)
    explain(np.zeros(1, np.uint64), probed, one, row, np.zeros((1, 1), np.uint32), one.copy())
    words, blocks = one.view(np.uint64), np.zeros(24, np.uint8)
    unpack(blocks, np.zeros(2, np.int64), Shape(1, 0, 1, 8), 0, words, row)


_PARTS = {"text": _compile_text, "index": _compile_index}


def _sign(signer: PageSigner, number: int) -> Pages:
    """Return a page that was read from a file and signed."""
    with TemporaryDirectory(prefix="streamer-") as folder:
        path = Path(folder) / "pages.jsonl"
        path.write_bytes(_LINE)
        with ByteStream(str(path)) as stream:
            stream.spread(_LINE)
            lines = LineReader(stream, PAGE_BYTES_MAX).take(1)
    return sign(signer, 0, PageParser().parse(Chunk(number, number + 1, lines=lines)))


def _make_page(number: int) -> Pages:
    """Return a page as if signed, without a kernel."""
    keys = np.zeros((1, NATIVE_SIGNATURE.bands + 1), np.uint64)
    sketches = np.zeros((1, SKETCH_WORDS), np.uint64)
    counts = np.array([9], np.uint8), np.array([9], np.uint32), np.array([9])
    refs, times = np.array([number], np.uint64), np.array([number])
    return Pages(refs, keys, sketches, *counts, [b"u"], [None], [b""], times)


def _judge(signature: SignatureSettings, each: Iterable[Pages]) -> None:
    """Ask of pages and judge them, with a flush after each: the second meets the first's row."""
    with TemporaryDirectory(prefix="streamer-") as folder:
        index = IndexFolder.open(Path(folder), signature)
        judge = replay_judge(index, IndexSettings(measure=signature.measure))
        for number, pages in enumerate(each):
            verdict_on(judge.shard, pages)
            judge.judge(0, number, number + 1, pages, judge.shard.look_up(pages))
            judge.flush(b"")
        lookup = StoredLookup(index.store)  # as an index that is opened again
        lookup.freeze()  # as in little memory
        lookup.wait()
        lookup.find(pages.keys)
        lookup.close()
        list(scan_rows(index.store))
        judge.close()


if __name__ == "__main__":
    gc.disable()  # it would look at all that the compiler keeps, an eighth of the time
    _PARTS[sys.argv[1]](main_text="main" in sys.argv[2:])
