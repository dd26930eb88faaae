"""How a kernel is compiled: the one place that names numba's options.

A kernel is a plain function over numpy arrays, compiled to native code on first use, without the
interpreter lock. Compiled code is cached on disk. numba looks only at a kernel's own file when it
decides whether cached code is fresh, and would keep old code after a change in a function that the
kernel calls, or in a constant. So the code is in a folder named after a digest of all sources that
kernels are made of: the packages `text`, `sketch` and `index`, the modules next to this one, and
every other module with a kernel; and of the versions, the processor and the compiler's options.

With NUMBA_BOUNDSCHECK=1 in the environment every array index is checked, and one out of bounds
raises IndexError: for tests, since checks cost time.
"""

# A temporary folder is used only if no other user can enter it, because loading a kernel runs what
# the folder holds.

import errno
import hashlib
import io
import os
import pickle
import re
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar
from zipfile import ZIP_DEFLATED, ZipFile

import llvmlite
import numba
from numba import types
from numba.core.registry import cpu_target

Function = TypeVar("Function", bound=Callable[..., Any])

CHECKED = bool(numba.config.BOUNDSCHECK)  # type: ignore[attr-defined] # made at run time
KERNELS: list[Any] = []  # numba's dispatchers of all kernels that were imported until now

_HAS_KERNEL = re.compile(rb"^@(\w+_)?kernel$", re.MULTILINE)
_FOLDER_PREFIX = "kernels-"
# Files in the folder: nothing is left to compile, except for main text; nothing for that either.
_COMPLETE, _COMPLETE_MAIN_TEXT = "complete", "complete-main-text"
_FOLDERS_KEPT = 2  # of other versions: one may go back and forth between two
_SECONDS_KEPT = 24 * 3600  # a folder that was used since then may be in use


def _digest() -> str:
    """Return what distinguishes kernels that must not be confused."""
    package = Path(__file__).parent
    digest = hashlib.sha256()
    for source in sorted(package.rglob("*.py")):
        text = source.read_bytes()
        near = source.parent == package or source.parent.name in {"text", "sketch", "index"}
        if near or _HAS_KERNEL.search(text):
            digest.update(text)
    machine = cpu_target.target_context.codegen().magic_tuple()
    versions = (numba.__version__, llvmlite.__version__, sys.implementation.cache_tag)
    digest.update(repr((machine, versions, CHECKED)).encode())
    return digest.hexdigest()[:16]


def _cache_folder() -> Path | None:
    """Return the folder for compiled kernels, and remove folders next to it that nothing uses.

    It is in the folder that STREAMER_CACHE_DIR or NUMBA_CACHE_DIR names; else in the first of these
    that can be written: next to the package, the user's cache, a private folder for temporary
    files. Without one the kernels are compiled in memory, and one line on stderr says so.
    """
    named = os.environ.get("STREAMER_CACHE_DIR") or os.environ.get("NUMBA_CACHE_DIR")
    places: list[Callable[[], Path]] = [_next_to_package, _users_cache, _private_temporary]
    name, refusals = _FOLDER_PREFIX + _digest(), []
    for place in [partial(Path, named)] if named else places:
        try:
            return _make_folder(place() / name, None if named else _next_to_package() / name)
        except (OSError, RuntimeError) as error:  # RuntimeError: the user has no home folder
            refusals.append(str(error))
    sys.stderr.write(
        f"The compiled kernels cannot be stored ({'; '.join(refusals)}). Each start compiles them "
        "in memory. Name a writable folder in STREAMER_CACHE_DIR.\n"
    )
    return None


def _next_to_package() -> Path:
    return Path(__file__).parent / "__pycache__"


def _users_cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "streamer"


def _private_temporary() -> Path:
    """Return a folder for temporary files that only this user can enter, since it holds code.

    Raises:
        PermissionError: another user made it, or others have rights to it.
    """
    user = os.geteuid()
    folder = Path(os.environ.get("TMPDIR") or "/tmp") / f"streamer-{user}"  # noqa: S108 - checked below
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != user or found.st_mode & 0o077:
        message = "Not a folder that only this user can enter"
        raise PermissionError(errno.EPERM, message, str(folder))
    return folder


def _make_folder(folder: Path, installed: Path | None) -> Path:
    """Make a folder of kernels, or mark it as used now; with a new one, remove old ones.

    numba opens no cache that it cannot write: from a package in a read-only folder (of an image,
    or installed by another user) the `installed` kernels are copied. A process whose folder is
    removed compiles again what it has not loaded yet.

    Raises:
        OSError: the folder cannot be made or written.
    """
    is_new = not folder.exists()
    folder.parent.mkdir(parents=True, exist_ok=True)
    if is_new and installed and installed.is_dir():
        with suppress(OSError):  # without a copy the kernels are compiled again
            _copy_whole(partial(shutil.copytree, installed), folder)
    folder.mkdir(exist_ok=True)
    with tempfile.TemporaryFile(dir=folder):
        os.utime(folder)
    if is_new:
        with suppress(OSError):  # another process removes them as well
            _remove_old(folder)
    return folder


def _remove_old(new: Path) -> None:
    """Remove the folders next to `new` that were not used for a day, except the newest ones."""
    others = [each for each in new.parent.glob(_FOLDER_PREFIX + "*") if each != new]
    others.sort(key=lambda each: each.stat().st_mtime, reverse=True)
    for folder in others[_FOLDERS_KEPT:]:
        if folder.stat().st_mtime < time.time() - _SECONDS_KEPT:
            shutil.rmtree(folder, ignore_errors=True)


def _copy_whole(copy: Callable[[Path], object], target: Path) -> None:
    """Copy a folder so that other processes see all of it or nothing; the first one stays."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as parent:
        whole = Path(parent, "copy")
        copy(whole)
        whole.rename(target)


FOLDER = _cache_folder()  # None: compiled code stays in memory
if FOLDER:
    setattr(numba.config, "CACHE_DIR", str(FOLDER))  # noqa: B010 - numba makes it at run time
_done_in_memory: set[str] = set()


def ship_with_kernels(work: bytes) -> Callable[..., Any]:
    """Return a function for other machines: pickled `work`, with the code that is compiled here.

    There it is stored if none is, and if it fits: the same sources, versions, processor and path.
    """
    return partial(_place_and_work, _fit(), _packed_kernels(kernels_on_disk()), work)


@cache
def _packed_kernels(_number: int) -> bytes:
    """Return the compiled code of so many kernels as an archive."""
    packed = io.BytesIO()
    with ZipFile(packed, "w", ZIP_DEFLATED, compresslevel=1, strict_timestamps=False) as archive:
        for file in FOLDER.rglob("*") if FOLDER else ():
            with suppress(FileNotFoundError):  # numba has given it another name meanwhile
                archive.write(file, file.relative_to(FOLDER or ""))
    return packed.getvalue()


def _place_and_work(fit: str, packed: bytes, work: bytes, *arguments: Any) -> Any:  # noqa: ANN401 - as `work`
    # What is imported with `work` makes folders for its kernels; in an empty folder all or nothing
    # can be placed.
    with suppress(OSError):
        if FOLDER and not any(FOLDER.iterdir()) and fit == _fit():
            with ZipFile(io.BytesIO(packed)) as archive:
                _copy_whole(archive.extractall, FOLDER)
    return pickle.loads(work)(*arguments)  # noqa: S301 - pickled for `ship_with_kernels`


def _fit() -> str:
    """Return what two machines share if compiled code of one is found and run by the other."""
    # numba names a kernel's folder after the path of its module.
    return f"{Path(__file__).parent} {_digest()}"


def kernels_on_disk() -> int:
    """Return of how many kernels compiled code is on disk."""
    return sum(1 for _ in FOLDER.rglob("*.nbi")) if FOLDER else 0


def has_all_compiled(*, main_text: bool = False) -> bool:
    """Return whether nothing is left to compile; what only main text needs is asked for apart."""
    mark = _COMPLETE_MAIN_TEXT if main_text else _COMPLETE
    return (FOLDER / mark).exists() if FOLDER else mark in _done_in_memory


def note_all_compiled(*, main_text: bool = False) -> None:
    """Have `has_all_compiled` return True; kernels for main text are more than the others."""
    marks = [_COMPLETE, _COMPLETE_MAIN_TEXT] if main_text else [_COMPLETE]
    if not FOLDER:
        _done_in_memory.update(marks)
        return
    with suppress(OSError):  # without its mark the next process looks at each kernel
        for mark in marks:
            (FOLDER / mark).touch()


_njit: Any = numba.njit  # its stub does not know of `_nrt`
_kind: Any = types.unliteral


def _is_compiled(function: Function, *, counts_references: bool) -> Function:
    """Return the kernel of a function: for each kind of arguments it is compiled once.

    To numba a constant is an argument of a kind of its own, for which a kernel that is called by
    another with a 0 would be compiled again. That would be half of all code, and no faster.
    """
    options = {"nogil": True, "boundscheck": CHECKED, "no_cfunc_wrapper": True}
    compiled: Any = _njit(**options, _nrt=counts_references)(function)
    _store_on_disk(compiled)
    call_template = compiled.get_call_template

    def one_template(args: Any, kws: Any) -> Any:  # noqa: ANN401 - numba's untyped extension API
        return call_template(tuple(_kind(each) for each in args), kws)

    compiled.get_call_template = one_template
    KERNELS.append(compiled)
    return compiled  # type: ignore[no-any-return]


def _store_on_disk(compiled: Any) -> None:  # noqa: ANN401 - numba's dispatcher
    """Have numba store a kernel in the folder, and keep it in memory where the disk refuses it."""
    if not FOLDER:
        return
    with suppress(RuntimeError):  # numba's, for a folder that cannot be written any more
        compiled.enable_caching()
        cache = compiled._cache  # noqa: SLF001 - numba has no option for what follows
        # The folder's name says what it was compiled from: the file's contents are not compared.
        cache._cache_file._source_stamp = None  # noqa: SLF001
        cache.save_overload = _try_folder(cache.save_overload)
        cache.load_overload = _try_folder(cache.load_overload)


def _try_folder(call: Callable[..., Any]) -> Callable[..., Any]:
    """Return the call of a cache, with None where the system refuses it (a full disk)."""

    def attempt(*arguments: Any) -> Any:  # noqa: ANN401 - numba's untyped extension API
        with suppress(OSError):
            return call(*arguments)

    return attempt


def kernel(function: Function) -> Function:
    """Compile `function` to native code that releases the interpreter lock; cache it on disk.

    It makes no array and returns none, so references need not be counted. Elsewhere numba counts
    one for each array that a function is given, in two atomic operations, unless it can prove that
    this is not needed; of a function with two exits it cannot.
    """
    return _is_compiled(function, counts_references=False)


def allocating_kernel(function: Function) -> Function:
    """Compile `function` as `kernel` does, where it makes arrays or returns one."""
    return _is_compiled(function, counts_references=True)


def inline_kernel(function: Function) -> Function:
    """Compile `function` for use within kernels only: its body is inlined at each call."""
    compiled: Any = numba.njit(nogil=True, inline="always")(function)
    return compiled  # type: ignore[no-any-return]
