"""How many of given pairs of texts a method calls duplicates, without a stream.

A pair is found as in a stream of the two: they share a key and their sketches reach the threshold,
or their content is equal. What a stream adds are full buckets; for two texts there are none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from typing import TypeVar

import numpy as np

from streamer.index.settings import IndexSettings
from streamer.sketch.measures import sketch_similarity
from streamer.sketch.method_signer import make_signer
from streamer.sketch.settings import SignatureSettings

Class = TypeVar("Class", bound=Hashable)


def found_shares(
    pairs: Iterable[tuple[str, str, Class]],
    signature: SignatureSettings,
    index: IndexSettings,
    secret: bytes,
) -> Mapping[Class, float]:
    """Return the share of pairs that are found, 0 to 1, by their class."""
    texts, classes = [], []
    for one, other, of in pairs:
        texts += [one.encode(), other.encode()]
        classes.append(of)
    signed = make_signer(signature, secret).sign(texts, [0] * len(texts))
    equal = signed.keys[::2] == signed.keys[1::2]
    long_enough = signed.distinct.reshape(-1, 2).min(axis=1) >= index.shingles_min
    found: Counter[Class] = Counter()
    for i, of in enumerate(classes):
        if equal[i, -1]:
            found[of] += 1
        elif long_enough[i] and equal[i, :-1].any():
            pair = np.ascontiguousarray(signed.sketches[2 * i : 2 * i + 2])
            similarity = int(sketch_similarity(int(index.measure), pair[0], pair[1]))
            found[of] += similarity >= index.similarity_min
    return {of: found[of] / count for of, count in Counter(classes).items()}
