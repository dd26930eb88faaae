"""Times as crawlers write them, in one form.

A value that cannot be read is no reason to refuse a page: it is as if there were none. A time is
carried as ISO 8601 in UTC with a `Z`, with milliseconds where the value has them; pages expire by
milliseconds since 1970. A time without a zone counts as UTC.
"""

import math
import re
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Literal

TimeFormat = Literal["auto", "iso", "epoch_s", "epoch_ms", "digits", "java"]

_EPOCH_MS_MIN = 100_000_000_000  # as seconds the year 5138, as milliseconds 1973
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NUMBER = re.compile(r"\d{1,13}(\.\d{1,9})?")
_DIGITS = re.compile(r"\d{14,17}")
_JAVA = re.compile(r"(\w{3}) (\w{3}) (\d{1,2}) (\d\d:\d\d:\d\d) ([A-Z]{2,5}|[+-]\d{4}) (\d{4})")
_LENGTH_MAX = 64


def normalise_time(value: object, format_name: TimeFormat = "auto") -> str | None:
    """Return `value` (a string or a number) as ISO 8601 in UTC; None where it cannot be read.

    `auto` recognises the formats by their shape: 14 to 17 digits are a date written without
    separators, fewer are seconds, or milliseconds from 100,000,000,000 on.
    """
    moment = _moment(value, format_name)
    if moment is None:
        return None
    precision = "milliseconds" if moment.microsecond else "seconds"
    return moment.isoformat(timespec=precision).replace("+00:00", "Z")


def epoch_ms(value: object, format_name: TimeFormat = "auto") -> int:
    """Return `value` as milliseconds since 1970; 0 where it cannot be read, or is before that."""
    moment = _moment(value, format_name)
    return 0 if moment is None else max(0, (moment - _EPOCH) // timedelta(milliseconds=1))


def number_of(value: object) -> float:
    """Return a number or the number in a string; minus infinity for all else."""
    try:
        number = float(value) if isinstance(value, int | float | str) else math.nan
    except (ValueError, OverflowError):
        number = math.nan
    return -math.inf if math.isnan(number) else number


def seconds_of(value: object) -> float:
    """Return a time, in any form, in seconds since 1970; minus infinity for all else."""
    moment = _moment(value, "auto")
    return -math.inf if moment is None else moment.timestamp()


def _moment(value: object, format_name: TimeFormat) -> datetime | None:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    text = str(value).strip()
    if len(text) > _LENGTH_MAX:
        return None
    try:
        moment = _read(text, format_name)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return moment.astimezone(UTC)
    except (ValueError, OverflowError, TypeError):
        return None


def _read(text: str, format_name: TimeFormat) -> datetime:
    if format_name == "auto":
        format_name = _shape(text)
    if format_name == "digits":
        seconds = datetime.strptime(text[:14], "%Y%m%d%H%M%S").replace(tzinfo=UTC)
        return seconds + timedelta(milliseconds=int(text[14:17].ljust(3, "0")))
    if format_name == "epoch_s":
        return _EPOCH + timedelta(seconds=float(text))
    if format_name == "epoch_ms":
        return _EPOCH + timedelta(milliseconds=float(text))
    if format_name == "java":
        return parsedate_to_datetime(_JAVA.sub(r"\1, \3 \2 \6 \4 \5", text))
    return datetime.fromisoformat(text)


def _shape(text: str) -> TimeFormat:
    """Return a time's format by how it looks."""
    if _DIGITS.fullmatch(text):
        return "digits"
    if _NUMBER.fullmatch(text):
        return "epoch_ms" if float(text) >= _EPOCH_MS_MIN else "epoch_s"
    return "java" if text[:1].isalpha() else "iso"
