"""Compiling the kernels ahead: those of a new version take half a minute, once a machine.

Whoever must answer soon, a worker that joins a group, does this before.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from streamer.index.settings import IndexSettings
from streamer.index.stored_lookup import StoredLookup
from streamer.sketch.method_signer import make_signer
from streamer.sketch.settings import SignatureSettings
from streamer.stream.batch import PageBatch
from streamer.stream.detector import Detector
from streamer.stream.index_folder import IndexFolder
from streamer.stream.stages import sign
from streamer.text.form import ESCAPED, HTML

NATIVE_SIGNATURE = SignatureSettings()


def warm_kernels(signature: SignatureSettings = NATIVE_SIGNATURE) -> None:
    """Compile every kernel on the way of a page, or load it from the cache: by one that goes it."""
    with TemporaryDirectory(prefix="streamer-") as folder:
        index = IndexFolder.open(Path(folder), signature, 1)
        detector = Detector(index, IndexSettings(measure=signature.measure))
        signer = make_signer(signature, bytes(32))
        for number in range(2):  # the second meets the first in the store
            batch = PageBatch(
                number, number + 1, [number], [None], [b"u"],
                [b"<p>a b c d e f g h i j k l m n"], [ESCAPED | HTML], [b""],
            )  # fmt: skip
            pages = sign(signer, 0, batch)
            detector.judge(0, number, number + 1, pages, detector.look_up(pages))
            detector.flush(b"")
        StoredLookup(index.store, 0)  # as an index that is opened again
        detector.close()
