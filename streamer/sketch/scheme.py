"""The methods of an index: one makes the keys, and it or another the sketch that decides.

`choose` turns what the command line says into settings, with everything checked and written out;
`scheme_of` makes the methods of such settings. Both are deterministic: equal settings, equal
signatures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from streamer.errors import SettingsError
from streamer.sketch.collection import check_collections
from streamer.sketch.method import Method, MethodSignature, PageText
from streamer.sketch.options import read_options, split_options, written_options
from streamer.sketch.registry import PRESETS, method, method_class
from streamer.sketch.secret import SECRET_BYTES
from streamer.sketch.settings import MIN_SHINGLES, NATIVE, SignatureSettings
from streamer.text.words import CanonicalOptions

ACCEPT = "accept."  # how an option of the accepting method begins
_FLAGS = ("shingle_width", "bands", "rows")


@dataclass(frozen=True)
class Scheme:
    """The method of the keys, that of the sketches, and the canonical form for both."""

    keys: Method[Any]
    sketch: Method[Any]
    canonical: CanonicalOptions

    def sign(self, page: PageText) -> MethodSignature:
        """Return the signature of a page that has words."""
        signature = self.keys.sign(page)
        if self.sketch is self.keys:
            return signature
        return MethodSignature(signature.keys, self.sketch.sign(page).sketch)


def choose(
    name: str,
    *,
    accept: str = "",
    options: Sequence[str] = (),
    canonical: Sequence[str] = (),
    flags: Mapping[str, int] | None = None,
) -> SignatureSettings:
    """Return the settings of a method or preset; `flags` are the native method's that were given.

    A name of two, `simhash+minhash`, says what `accept` says as well: the second one accepts.
    A flag sets the parameter of that name, whatever the method. Options that begin with `accept.`
    are those of the accepting method.

    Raises:
        SettingsError: a name, an option or a flag cannot be used, or a collection was counted
            under another canonical form.
    """
    name, _, second = name.partition("+")
    if second and accept:
        raise SettingsError(f"{name}+{second} names the method that accepts; give no --accept.")
    accept = accept or second
    given = split_options(options)
    of_accept = {n.removeprefix(ACCEPT): v for n, v in given.items() if n.startswith(ACCEPT)}
    preset = PRESETS.get(name)
    chosen = preset.method if preset else name
    parameters: dict[str, object] = dict(preset.options) if preset else {}
    parameters |= _checked_flags(chosen, flags or {})
    parameters |= {n: v for n, v in given.items() if not n.startswith(ACCEPT)}
    if of_accept and not accept:
        raise SettingsError("Options with accept. need --accept, the method that decides.")
    keys = method(chosen, parameters, bytes(SECRET_BYTES))
    sketch = method(accept, of_accept, bytes(SECRET_BYTES)) if accept else keys
    form = _canonical_options(canonical)
    for one in (keys, sketch):
        check_collections(one.parameters, form)
    native = {n: getattr(keys.parameters, n) for n in _FLAGS} if chosen == NATIVE else {}
    written = {} if native else written_options(keys.parameters)
    if accept:
        written |= {ACCEPT + n: v for n, v in written_options(sketch.parameters).items()}
    own = {} if native else parameters
    return SignatureSettings(
        **{"bands": keys.bands, **native},
        method=chosen,
        accept=accept,
        options=_pairs({**own, **{ACCEPT + n: v for n, v in of_accept.items()}}),
        parameters=_pairs(written),
        canonical=_pairs(_canonical_changes(form)),
        measure=sketch.measure,
        threshold=preset.threshold if preset and not accept else sketch.threshold,
        min_shingles=preset.min_shingles if preset else MIN_SHINGLES,
    )


def _checked_flags(name: str, flags: Mapping[str, int]) -> Mapping[str, int]:
    """Return the flags if the method has a parameter for each."""
    known = method_class(name).defaults.model_fields
    for flag in flags:
        if flag not in known:
            raise SettingsError(
                f"--{flag.replace('_', '-')} says nothing to the method {name}. "
                f"Leave it out; what the method takes goes into --method-option."
            )
    return flags


def _canonical_options(given: Sequence[str]) -> CanonicalOptions:
    return read_options(CanonicalOptions, split_options(given), "the canonical form")


def _canonical_changes(form: CanonicalOptions) -> dict[str, str]:
    """Return the options of canonical form that differ from the defaults."""
    defaults = written_options(CanonicalOptions())
    return {name: v for name, v in written_options(form).items() if v != defaults[name]}


def _pairs(options: Mapping[str, object]) -> tuple[str, ...]:
    return tuple(f"{name}={value}" for name, value in sorted(options.items()))


def scheme_of(settings: SignatureSettings, secret: bytes) -> Scheme:
    """Return the methods of these settings under a secret."""
    given = split_options(settings.options)
    parameters: dict[str, object] = {
        name: value for name, value in given.items() if not name.startswith(ACCEPT)
    }
    if settings.method == NATIVE:
        parameters = {name: getattr(settings, name) for name in _FLAGS}
    keys = method(settings.method, parameters, secret)
    assert keys.bands == settings.bands, (keys.bands, settings.bands)
    sketch = keys
    if settings.accept:
        own = {n.removeprefix(ACCEPT): v for n, v in given.items() if n.startswith(ACCEPT)}
        sketch = method(settings.accept, own, secret)
    return Scheme(keys, sketch, _canonical_options(settings.canonical))
