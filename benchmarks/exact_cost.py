"""What `--exact` costs a page: signing and judging in turns with and without it, bytes and doubts.

python benchmarks/exact_cost.py --pages 20000
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import msgspec

# A script has its own folder on the path, but its modules are imported from the root.
sys.path.insert(0, str(Path(__file__).absolute().parents[1]))

from benchmarks import corpus
from streamer.sketch.settings import SignatureSettings
from streamer.sketch.signer import NativeSigner

TURNS = 5
BATCH = 500
COUNTED = b'"verdict":"unique"', b'"verdict":"duplicate"', b'"exact":true'


def sign(bodies: list[bytes], *, exact: bool) -> tuple[float, float]:
    """Return microseconds of CPU a page, and bytes of its set."""
    signer = NativeSigner(SignatureSettings(exact=exact), bytes(32))
    signer.sign(bodies[:2], [0, 0])
    size, began = 0, time.thread_time()
    for first in range(0, len(bodies), BATCH):
        batch = bodies[first : first + BATCH]
        size += sum(map(len, signer.sign(batch, [0] * len(batch)).shingles or ()))
    return 1e6 * (time.thread_time() - began) / len(bodies), size / len(bodies)


def replay(pages: Path, folder: Path, *options: str) -> tuple[float, int, bytes]:
    """Return microseconds of CPU, bytes of the index, and the verdicts of a replay."""
    index, verdicts = folder / "index", folder / "verdicts"
    command = [sys.executable, "-m", "streamer", "replay", str(pages), "--index", str(index)]
    command += ["--verdicts", str(verdicts), *options]
    before = os.times()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = os.times()
    seconds = after.children_user - before.children_user
    seconds += after.children_system - before.children_system
    size = sum(file.stat().st_size for file in index.rglob("*"))
    return 1e6 * seconds, size, verdicts.read_bytes()


def main() -> None:
    """Measure both ways in turns; print medians."""
    parser = argparse.ArgumentParser(description="Measure what --exact costs.")
    parser.add_argument("--pages", type=int, default=20_000)
    pages = parser.parse_args().pages
    lines = list(corpus.generate(pages))
    bodies = [msgspec.json.decode(line)["body"].encode() for line in lines[:4000]]
    print(f"load {os.getloadavg()[0]:.1f}; {statistics.mean(map(len, bodies)):,.0f} bytes a page")
    signed = [(sign(bodies, exact=False)[0], *sign(bodies, exact=True)) for _ in range(TURNS)]
    without, with_sets, size = (statistics.median(column) for column in zip(*signed, strict=True))
    print(f"signing: {without:.2f} us without, {with_sets:.2f} with; a set has {size:,.0f} bytes")
    costs: dict[str, list[float]] = {"": [], "--exact": []}
    with tempfile.TemporaryDirectory(prefix="streamer-") as scratch:
        file = Path(scratch) / "pages.jsonl"
        file.write_bytes(b"".join(lines))
        for turn in range(TURNS):
            for way, found in costs.items():
                folder = Path(scratch) / f"{turn}{way}"
                folder.mkdir()
                cost, size, said = replay(file, folder, *filter(None, [way]))
                found.append(cost / pages)
                kept, duplicates, told = (said.count(each) for each in COUNTED)
                print(
                    f"{way or 'without'}: {cost / pages:.1f} us, {size / kept:,.0f} bytes a kept "
                    f"page; {told:,} of {duplicates:,} duplicates by shingles",
                    flush=True,
                )
    one, other = (statistics.median(found) for found in costs.values())
    print(f"whole replays, start included: {one:.1f} us without, {other:.1f} with")


if __name__ == "__main__":
    main()
