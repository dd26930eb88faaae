"""An ensemble of decision trees over rows of small integers, asked for many rows at a time.

The trees are asked without branches, 16 rows at a time: each node whose test fails strikes out the
leaves that cannot be reached any more, and the first leaf that is left is the answer (QuickScorer:
Lucchese et al., SIGIR 2015). All is integer arithmetic, so every machine decides alike.
"""

# A node takes 0.05 ns a row.

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from streamer.kernel import kernel
from streamer.text.scan import in_all_lanes

LANES = 16  # rows that are scored at a time
LEAVES_MAX = 15
NODES_MAX = LEAVES_MAX - 1
SCORE_ONE = 1024  # a score of 1, in log odds
SUM_MAX = 1 << 30

Rows = npt.NDArray[np.int16]
Integers = npt.NDArray[np.int32]


class Forest(NamedTuple):
    """An ensemble of trees as arrays.

    Attributes:
        nodes: int16[trees, NODES_MAX, 3]: a feature, a threshold, and the leaves that are left, as
            bits, where the feature of a row is above it.
        leaves: int16[trees, LEAVES_MAX], scores, from left to right.
        base: int32[1], the score before any tree.
    """

    nodes: Rows
    leaves: Rows
    base: Integers


def _add_tree(_context: Any, forest: Any, rows: Any, sums: Any, _tree: Any) -> Any:  # noqa: ANN401 - numba's untyped extension API
    """Add the answers of a tree to the sums, in each lane: the first leaf that its nodes leave.

    It is the last leaf where a made-up model leaves none.
    What is left stays in registers: a loop over an array reads and writes it at each node.
    """
    bits, wide = (ir.VectorType(ir.IntType(size), LANES) for size in (16, 32))
    every = ir.Constant(bits, [-1] * LANES)

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:  # noqa: ANN401
        model = [builder.extract_value(arguments[0], i) for i in range(2)]
        kinds = (*forest.types[:2], rows, sums)
        nodes, leaves, row_data, sum_data = (
            context.make_array(kind)(context, builder, array).data
            for kind, array in zip(kinds, (*model, *arguments[1:3]), strict=True)
        )
        tree = arguments[3]

        def load(data: Any, a_tree: int, place: int) -> Any:  # noqa: ANN401
            first = builder.mul(tree, tree.type(a_tree))
            return builder.load(builder.gep(data, [builder.add(first, tree.type(place))]))

        left = every
        for node in range(NODES_MAX):
            feature, *others = (load(nodes, 3 * NODES_MAX, 3 * node + i) for i in range(3))
            threshold, mask = (in_all_lanes(builder, each, LANES) for each in others)
            place = builder.mul(builder.sext(feature, tree.type), tree.type(LANES))
            row = builder.bitcast(builder.gep(row_data, [place]), bits.as_pointer())
            is_above = builder.icmp_signed(">", builder.load(row, align=2), threshold)
            left = builder.and_(left, builder.select(is_above, mask, every))
        values = [
            in_all_lanes(builder, load(leaves, LEAVES_MAX, i), LANES) for i in range(LEAVES_MAX)
        ]
        answer = values[-1]
        for leaf in reversed(range(LEAVES_MAX - 1)):
            bit = builder.and_(left, ir.Constant(bits, [1 << leaf] * LANES))
            is_left = builder.icmp_unsigned("!=", bit, ir.Constant(bits, [0] * LANES))
            answer = builder.select(is_left, values[leaf], answer)
        total = builder.bitcast(sum_data, wide.as_pointer())
        score = builder.add(builder.load(total, align=4), builder.sext(answer, wide))
        builder.store(score, total, align=4)
        return context.get_dummy_value()

    return types.void(forest, rows, sums, types.intp), generate


add_tree = cast("Callable[[Forest, Rows, Integers, int], None]", intrinsic(_add_tree))


@kernel
def ask_trees(forest: Forest, rows: Rows, sums: Integers) -> None:
    """Write the scores of the rows to `sums`."""
    sums[:] = forest.base[0]
    for tree in range(forest.leaves.shape[0]):
        add_tree(forest, rows, sums, tree)


def forest_of(trees: Sequence[Any], base: int, features_count: int) -> Forest:
    """Return trees as arrays.

    Raises:
        ValueError: they are none that the rows fit, or have numbers that are too large.
    """
    kinds = (np.int16, np.int16, np.uint16)
    nodes = np.full((len(trees), NODES_MAX, 3), (0, 0, -1), np.int16)  # -1: a node that keeps all
    leaves = np.zeros((len(trees), LEAVES_MAX), np.int16)
    for own, row, tree in zip(nodes, leaves, trees, strict=True):
        row[: len(tree["leaves"])] = tree["leaves"]
        columns = list(zip(*tree["nodes"], strict=True)) or [(), (), ()]
        parts = [np.array(each, kind) for each, kind in zip(columns, kinds, strict=True)]
        own[: len(tree["nodes"])] = np.stack([part.view(np.int16) for part in parts], axis=1)
    if not ((nodes[..., 0] >= 0) & (nodes[..., 0] < features_count)).all():
        raise ValueError(f"a tree asks for a feature beyond the {features_count} that there are")
    if np.abs(leaves, dtype=np.int64).max(axis=1, initial=0).sum() + abs(base) > SUM_MAX:
        raise ValueError("the scores of its leaves are too large")
    return Forest(nodes, leaves, np.array([base], np.int32))
