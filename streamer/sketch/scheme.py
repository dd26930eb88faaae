"""The methods of an index: one makes the keys, and it or another the sketch that decides.

`choose` turns what the command line says into settings, with everything checked and written out;
`scheme_of` makes the methods of such settings. Both are deterministic: equal settings, equal
signatures.

A method is any subclass of Method with a name in sketch/methods/: a new one needs no other edit. A
preset is a method with options for a purpose; its name goes wherever a method's name goes. Options
are texts, `name=value`, as on the command line; lists are written with commas, lists of lists with
semicolons between them: `large,big;car,auto`.
"""

# Two methods are combined because Henzinger (2006) found such a pair more precise than either.

import inspect
import pkgutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, Final, TypeVar, get_args, get_origin

from pydantic import BaseModel, ValidationError

from streamer.errors import SettingsError
from streamer.sketch import methods as _folder
from streamer.sketch.collection import check_collections
from streamer.sketch.method import Measure, Method, MethodSignature, PageText
from streamer.sketch.settings import MIN_SHINGLES, NATIVE, SECRET_BYTES, SignatureSettings
from streamer.text.words import CanonicalOptions
from streamer.wrong_values import why_wrong


@dataclass(frozen=True)
class MethodPreset:
    """A method with options and a threshold, for a purpose.

    `min_shingles` is how many distinct words or shingles a page must have to be compared.
    """

    method: str
    options: Mapping[str, str]
    threshold: float
    purpose: str
    min_shingles: int = MIN_SHINGLES


PRESETS: Final[Mapping[str, MethodPreset]] = {
    "short-texts": MethodPreset(
        "bottom_k",
        {"shingle_width": "2", "bands": "24", "rows": "2"},
        0.4,
        "Titles, comments and messages, where a changed word changes most shingles of five words.",
        min_shingles=3,
    )
}


@cache
def methods() -> dict[str, type[Method[Any]]]:
    """Return the methods by name, in the order of names."""
    found: dict[str, type[Method[Any]]] = {}
    for module in pkgutil.iter_modules(_folder.__path__, _folder.__name__ + "."):
        for _, one in inspect.getmembers(import_module(module.name), inspect.isclass):
            if issubclass(one, Method) and "name" in vars(one):
                assert found.setdefault(one.name, one) is one, one.name
    return dict(sorted(found.items()))


def method_class(name: str) -> type[Method[Any]]:
    """Return the method of that name.

    Raises:
        SettingsError: there is none; the message lists those that there are.
    """
    if name in PRESETS:
        one = PRESETS[name].method
        raise SettingsError(f"{name} is a preset, which decides by itself; here, name {one}.")
    if name not in methods():
        names = ", ".join([*methods(), *PRESETS])
        raise SettingsError(f"There is no method {name}; there are {names}.")
    return methods()[name]


def method(name: str, parameters: Mapping[str, object], secret: bytes) -> Method[Any]:
    """Return the method with these parameters, the others at their defaults.

    Raises:
        SettingsError: there is no such method or parameter, or a value cannot be.
    """
    one = method_class(name)
    return one(read_options(one.defaults, parameters, f"the method {name}"), secret)


Model = TypeVar("Model", bound=BaseModel)


def split_options(given: Iterable[str]) -> dict[str, str]:
    """Return `name=value` texts as a mapping; of one name the last counts.

    Raises:
        SettingsError: one has no name or no `=`.
    """
    result: dict[str, str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise SettingsError(f"The option {text!r} is not of the form name=value.")
        result[name.strip().replace("-", "_")] = value.strip()
    return result


def read_options(model: type[Model], values: Mapping[str, object], owner: str) -> Model:
    """Return a model of `values`, of which texts are taken as the command line writes them.

    Raises:
        SettingsError: one sentence with the option, what it may be, and `owner`, whose it is.
    """
    unknown = sorted(set(values) - set(model.model_fields))
    if unknown:
        known = ", ".join(model.model_fields) or "none"
        raise SettingsError(f"There is no option {unknown[0]} of {owner}; there are {known}.")
    parsed = {name: _parse(model, name, value) for name, value in values.items()}
    try:
        return model.model_validate(parsed)
    except ValidationError as error:
        first = error.errors()[0]
        reason = why_wrong(first)
        if not first["loc"]:
            raise SettingsError(f"These options of {owner} cannot be used: {reason}.") from error
        name = first["loc"][0]
        raise SettingsError(
            f"The option {name} = {values[str(name)]!r} of {owner} cannot be used: {reason}."
        ) from error


def write_options(options: BaseModel) -> dict[str, str]:
    """Return all options as the texts that `read_options` takes."""
    return {name: _write(value) for name, value in options.model_dump().items()}


def _parse(model: type[BaseModel], name: str, value: object) -> object:
    """Return a text as the list, or list of lists, that the option is; None for no text."""
    field = model.model_fields[name]
    if not isinstance(value, str):
        return value
    if not isinstance(field.default, tuple):
        return None if field.default is None and not value else value
    if get_origin(get_args(field.annotation)[0]) is tuple:
        return tuple(_items(part) for part in value.split(";") if part)
    return _items(value)


def _items(value: str) -> tuple[str, ...]:
    return tuple(item.strip() for item in value.split(",") if item.strip())


def _write(value: object) -> str:
    if isinstance(value, tuple) and value and isinstance(value[0], tuple):
        return ";".join(",".join(map(str, part)) for part in value) + ";"
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return "" if value is None else str(value)


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
        return self.sketch.sign(page)._replace(keys=signature.keys)


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
    parameters |= _check_flags(chosen, flags or {})
    parameters |= {n: v for n, v in given.items() if not n.startswith(ACCEPT)}
    if of_accept and not accept:
        raise SettingsError("Options with accept. need --accept, the method that decides.")
    keys = method(chosen, parameters, bytes(SECRET_BYTES))
    sketch = method(accept, of_accept, bytes(SECRET_BYTES)) if accept else keys
    form = canonical_options(canonical)
    for one in (keys, sketch):
        check_collections(one.parameters, form)
    native = {n: getattr(keys.parameters, n) for n in _FLAGS} if chosen == NATIVE else {}
    written = {} if native else write_options(keys.parameters)
    if accept:
        written |= {ACCEPT + n: v for n, v in write_options(sketch.parameters).items()}
    own = {} if native else parameters
    unchanged = write_options(CanonicalOptions())
    return SignatureSettings(
        **{"bands": keys.bands, **native},
        method=chosen,
        accept=accept,
        options=_pairs({**own, **{ACCEPT + n: v for n, v in of_accept.items()}}),
        parameters=_pairs(written),
        canonical=_pairs(dict(write_options(form).items() - unchanged.items())),
        measure=sketch.measure,
        threshold=preset.threshold if preset and not accept else sketch.threshold,
        min_shingles=preset.min_shingles if preset else MIN_SHINGLES,
    )


def check_exact(settings: SignatureSettings) -> None:
    """Raise SettingsError where sets of shingles are asked for that would decide nothing."""
    if settings.exact and settings.measure != Measure.RESEMBLANCE:
        names = [name for name, one in methods().items() if one.measure == Measure.RESEMBLANCE]
        raise SettingsError(
            f"--exact does not go with the method {settings.accept or settings.method}: its "
            "sketches estimate no resemblance of sets. Leave it out, or have one of these decide: "
            f"{', '.join(names)}."
        )


def _check_flags(name: str, flags: Mapping[str, int]) -> Mapping[str, int]:
    """Return the flags if the method has a parameter for each."""
    known = method_class(name).defaults.model_fields
    for flag in flags:
        if flag not in known:
            raise SettingsError(
                f"--{flag.replace('_', '-')} says nothing to the method {name}. "
                f"Leave it out; what the method takes goes into --method-option."
            )
    return flags


def canonical_options(given: Sequence[str]) -> CanonicalOptions:
    """Return the canonical form that options `name=value` ask for.

    Raises:
        SettingsError: there is no such option, or it cannot have that value.
    """
    return read_options(CanonicalOptions, split_options(given), "the canonical form")


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
    return Scheme(keys, sketch, canonical_options(settings.canonical))
