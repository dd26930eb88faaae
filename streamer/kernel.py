"""How a kernel is compiled: the one place that names numba's options.

A kernel is a plain function over numpy arrays, compiled to native code on first use, without the
interpreter lock. Compiled code is cached on disk. numba looks only at the file of a kernel when it
decides whether its cache is fresh, and would keep old code after a change in a function that the
kernel calls; so the cache lies in a folder named after a digest of all of this package's sources.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numba
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

Function = TypeVar("Function", bound=Callable[..., Any])


def _cache_folder() -> Path:
    """Return the folder for compiled kernels: beside the package, else in the user's cache.

    numba opens no cache that it cannot write: of a package that lies read-only (in an image, or
    installed by another user), the kernels that were compiled there are copied.
    """
    package = Path(__file__).parent
    digest = hashlib.sha256()
    for source in sorted(package.rglob("*.py")):
        if source.parent.name in {"text", "sketch", "index"} or source.parent == package:
            digest.update(source.read_bytes())
    name = f"kernels-{digest.hexdigest()[:16]}"
    beside = package / "__pycache__"
    try:
        beside.mkdir(exist_ok=True)
        with tempfile.TemporaryFile(dir=beside):
            return beside / name
    except OSError:
        root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        folder = Path(root) / "streamer" / name
        if (beside / name).is_dir() and not folder.exists():
            with suppress(OSError):  # without a copy the kernels are compiled anew
                _copy_whole(beside / name, folder)
        return folder


def _copy_whole(source: Path, target: Path) -> None:
    """Copy a folder so that other processes see all of it or nothing; the first one stays."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as parent:
        shutil.copytree(source, Path(parent, "copy")).rename(target)


if not os.environ.get("NUMBA_CACHE_DIR"):
    setattr(numba.config, "CACHE_DIR", str(_cache_folder()))  # noqa: B010 - numba makes it at run time


_njit: Any = numba.njit  # its stub does not know of `_nrt`


def kernel(function: Function) -> Function:
    """Compile `function` to native code that releases the interpreter lock; cache it on disk.

    It makes no array and returns none, so references need not be counted. Elsewhere numba counts
    one for each array that a function is given, in two atomic operations, unless it can tell that
    this is not needed; of a function with two exits it cannot.
    """
    compiled: Any = _njit(nogil=True, cache=True, boundscheck=False, _nrt=False)(function)
    return compiled  # type: ignore[no-any-return]


def allocating_kernel(function: Function) -> Function:
    """Compile `function` as `kernel` does, where it makes arrays or returns one."""
    compiled: Any = _njit(nogil=True, cache=True, boundscheck=False, _nrt=True)(function)
    return compiled  # type: ignore[no-any-return]


def inline_kernel(function: Function) -> Function:
    """Compile `function` for use within kernels only: its body is inlined at each call."""
    compiled: Any = numba.njit(nogil=True, inline="always")(function)
    return compiled  # type: ignore[no-any-return]


if TYPE_CHECKING:
    # For the type checker a kernel computes with plain integers; what follows gives them their
    # width.
    def int64(value: int) -> int: ...
    def uint8(value: int) -> int: ...
    def uint32(value: int) -> int: ...
    def uint64(value: int) -> int: ...
    def popcount(value: int) -> int: ...
    def trailing_zeros(value: int) -> int: ...
    def load_u64(array: npt.NDArray[np.uint8], index: int) -> int: ...
    def store_u64(array: npt.NDArray[np.uint8], index: int, word: int) -> None: ...
    def word_at(address: int, index: int) -> int: ...
    def put_word(address: int, index: int, word: int) -> None: ...
    def prefetch(address: int, index: int) -> None: ...
    def read_file(file: int, address: int, count: int, offset: int) -> int: ...

else:
    from numba import int64, uint8, uint32, uint64  # noqa: F401 - kernels import them from here

    # The system's own `pread`: so many bytes of a file from an offset on, to an address. It returns
    # how many came; 0 at the end of the file, -1 for an error.
    read_file = types.ExternalFunction(
        "pread", types.int64(types.int32, types.int64, types.int64, types.int64)
    )

    @intrinsic
    def popcount(_context: Any, value: Any) -> Any:  # noqa: ANN401 - numba's untyped extension API
        """Count the one bits of an unsigned 64-bit integer (one machine instruction)."""

        def generate(_ctx: Any, builder: Any, _signature: Any, arguments: Any) -> Any:  # noqa: ANN401
            return builder.ctpop(arguments[0])

        return types.uint64(types.uint64), generate

    @intrinsic
    def trailing_zeros(_context: Any, value: Any) -> Any:  # noqa: ANN401 - as popcount
        """Count the zero bits below the lowest one bit of an unsigned 64-bit integer; 64 for 0."""

        def generate(_ctx: Any, builder: Any, _signature: Any, arguments: Any) -> Any:  # noqa: ANN401
            return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 0))

        return types.uint64(types.uint64), generate

    @intrinsic
    def load_u64(_context: Any, array: Any, index: Any) -> Any:  # noqa: ANN401 - as popcount
        """Read eight bytes of a uint8 array, little-endian, at any byte offset; no bounds check."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ANN401
            structure = context.make_array(signature.args[0])(context, builder, arguments[0])
            place = builder.gep(structure.data, [arguments[1]])
            word = builder.bitcast(place, ir.IntType(64).as_pointer())
            return builder.load(word, align=1)

        return types.uint64(array, types.intp), generate

    @intrinsic
    def store_u64(_context: Any, array: Any, index: Any, word: Any) -> Any:  # noqa: ANN401 - as popcount
        """Write eight bytes of a uint8 array, little-endian, at any byte offset; unchecked."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ANN401
            structure = context.make_array(signature.args[0])(context, builder, arguments[0])
            place = builder.gep(structure.data, [arguments[1]])
            words = builder.bitcast(place, ir.IntType(64).as_pointer())
            builder.store(arguments[2], words, align=1)
            return context.get_dummy_value()

        return types.void(array, types.intp, types.uint64), generate

    def _pointer(builder: Any, address: Any, index: Any) -> Any:  # noqa: ANN401 - as popcount
        words = builder.inttoptr(address, ir.IntType(64).as_pointer())
        return builder.gep(words, [index])

    @intrinsic
    def word_at(_context: Any, address: Any, index: Any) -> Any:  # noqa: ANN401 - as popcount
        """Read word `index` of the 64-bit words that lie at an address."""

        def generate(_ctx: Any, builder: Any, _signature: Any, arguments: Any) -> Any:  # noqa: ANN401
            return builder.load(_pointer(builder, *arguments), align=8)

        return types.uint64(types.int64, types.int64), generate

    @intrinsic
    def put_word(_context: Any, address: Any, index: Any, word: Any) -> Any:  # noqa: ANN401 - as popcount
        """Write word `index` of the 64-bit words that lie at an address."""

        def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:  # noqa: ANN401
            builder.store(arguments[2], _pointer(builder, *arguments[:2]), align=8)
            return context.get_dummy_value()

        return types.void(types.int64, types.int64, types.uint64), generate

    @intrinsic
    def prefetch(_context: Any, address: Any, index: Any) -> Any:  # noqa: ANN401 - as popcount
        """Have the processor fetch word `index` of the words at an address, without waiting."""

        def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:  # noqa: ANN401
            place = builder.bitcast(_pointer(builder, *arguments), ir.IntType(8).as_pointer())
            flag = ir.IntType(32)
            kind = ir.FunctionType(ir.VoidType(), [place.type, flag, flag, flag])
            hint = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
            builder.call(hint, [place, flag(0), flag(3), flag(1)])  # to read, keep, data
            return context.get_dummy_value()

        return types.void(types.int64, types.int64), generate
