"""Bytes to UTF-8: which charset a page is really in, whatever it claims.

Labels can be wrong: servers declare a default, pages are re-encoded and keep their old `<meta>`,
crawlers guess. So the bytes are asked first. A byte order mark or valid UTF-8 proves itself.
Otherwise the labels are only candidates: one is believed if it decodes the page almost without
damage and a browser's own detector (chardetng) reads the same text, or if there is too little text
for a detector. The same bytes thus give the same text under right and wrong labels.

Labels go through the WHATWG table, so no codec of Python's that is no charset (zip, utf-7,
unicode_escape) can be named. Malformed bytes become U+FFFD. Nothing here raises.
"""

# Two exceptions are measured. With fewer than 12 bytes outside ASCII, a label
# that fits is believed. So is a label that reads 19 of 20 such characters as the detected charset
# does, as ISO-8859-2 does for some French.

import re

import msgspec
import webencodings
from chardetng_py import EncodingDetector

from streamer.text.canonical import category

SAMPLE_BYTES = 4_096  # the detector takes 65 ns a byte
WINDOW_BYTES = 65_536  # where a sample is looked for, from the first high byte on
PRESCAN_BYTES = 4_096
HIGH_BYTES_MIN = 12  # below this a fitting label is believed rather than the detector
DAMAGE_MAX = 0.02  # the share of a page's high bytes that a believed charset may fail on
DISAGREEMENT_MAX = 0.05  # of the non-ASCII characters: two charsets that read "the same text"
CONTROLS_MIN = 0.2  # of the bytes at odd (even) places, for UTF-16 without a label
ESCAPE = 0x1B  # begins every shift of ISO-2022-JP
CONTROLS_COUNT_MIN = 4  # fewer are stray bytes
ODD_MAX = 0.02  # of the characters of a text: controls, and what is not assigned

_ABOUT_JSON = b" \t\r[],"
_OBJECTS = 8  # that are looked at
_ASCII = bytes(range(128))
# Upper bytes of UTF-16 in scripts with small code points. No other charset has these in text.
_CONTROL_BYTES = bytes({*range(0x20)} - {*b"\t\n\f\r\x1b"})
_HIGH = re.compile(rb"[\x80-\xff]")
_ASCII_RUN = re.compile(rb"(?<=[\x80-\xff])([\x00-\x7f]{4})[\x00-\x7f]{29,}")
_CONTROLS = re.compile("[\x80-\x84\x86-\x9f\ufffd]")
_META = re.compile(rb"<meta\b[^<>]*?charset\s*+=\s*+[\"']?\s*+([a-z0-9_.:-]{1,40})", re.IGNORECASE)
_XML = re.compile(rb"\s*<\?xml[^<>]*?encoding\s*+=\s*+[\"']([a-z0-9_.:-]{1,40})", re.IGNORECASE)
_BOMS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))

# WHATWG's name -> Python's codec, where Python's codec of that name is narrower or another one.
_CODECS = {
    "big5": "big5hkscs",
    "euc-kr": "cp949",
    "gbk": "gb18030",
    "iso-8859-8-i": "iso-8859-8",
    "macintosh": "mac-roman",
    "shift_jis": "cp932",
    "utf-16be": "utf-16-be",
    "utf-16le": "utf-16-le",
    "windows-874": "cp874",
    "x-mac-cyrillic": "mac-cyrillic",
}
_NO_CHARSETS = frozenset({"replacement", "x-user-defined"})


def codec_of(label: str | None) -> str | None:
    """Return Python's codec for a charset label as browsers read it; None for what is none."""
    text = (label or "").lower().rpartition("charset=")[2].strip(" \t\r\n\"';")
    encoding = webencodings.lookup(text) if text.isascii() else None
    if encoding is None or encoding.name in _NO_CHARSETS:
        return None
    name: str = encoding.name
    return _CODECS.get(name, name)


def _find_label(body: bytes, *, html: bool) -> str | None:
    """Return the label in the XML declaration or, in HTML, the first `<meta>` that has one."""
    head = body[:PRESCAN_BYTES]
    match = _XML.match(head) or (_META.search(head) if html else None)
    return match[1].decode("ascii") if match else None


def _is_utf8(body: bytes) -> bool:
    """Return whether the bytes are UTF-8 in every place."""
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return True


def _high_bytes(sample: bytes) -> int:
    """Count the bytes outside ASCII."""
    return len(sample.translate(None, _ASCII))


def _damage(sample: bytes, codec: str) -> float:
    """Return the share of the high bytes that a codec fails on or takes for control characters."""
    text = sample.decode(codec, "replace")
    return len(_CONTROLS.findall(text)) / max(_high_bytes(sample), 1)


def _detect(sample: bytes) -> str:
    """Return the detector's guess as a codec."""
    detector = EncodingDetector()
    detector.feed(sample, last=False)  # a sample may end inside a character
    guess = detector.guess(tld=None, allow_utf8=False)
    return codec_of(guess) or codec_of(guess.replace("cp", "windows-")) or "cp1252"


def _read_the_same(sample: bytes, one: str, other: str) -> bool:
    """Return whether two codecs read the same text, except a few of the non-ASCII characters."""
    if one == other:
        return True
    texts = sample.decode(one, "replace"), sample.decode(other, "replace")
    differing = sum(a != b for a, b in zip(*texts, strict=False))
    foreign = sum(not character.isascii() for character in texts[0])
    return len(texts[0]) == len(texts[1]) and differing <= foreign * DISAGREEMENT_MAX


def _sample(body: bytes) -> bytes:
    """Return a part of the page that has text outside ASCII, for the detector.

    It begins at the first high byte. Where little follows, long runs of ASCII (scripts) are left
    out, except the four bytes in which a character may end.
    """
    first = _HIGH.search(body)
    start = first.start() if first else 0
    sample = body[start : start + SAMPLE_BYTES]
    if _high_bytes(sample) >= 4 * HIGH_BYTES_MIN:
        return sample
    return _ASCII_RUN.sub(rb"\1 ", body[start : start + WINDOW_BYTES])[:SAMPLE_BYTES]


def _utf16(body: bytes, labels: list[str]) -> str | None:
    """Return the UTF-16 codec that upper bytes below 32 speak for, or a label that fits, if any."""
    head = body[:PRESCAN_BYTES]
    if len(head.translate(None, _CONTROL_BYTES)) == len(head):
        return None  # as nearly all pages
    announced = any(label.startswith("utf-16") for label in labels)
    even, odd = (
        len(part) - len(part.translate(None, _CONTROL_BYTES)) for part in (head[::2], head[1::2])
    )
    codecs = ("utf-16-le", "utf-16-be") if odd > even else ("utf-16-be", "utf-16-le")
    many, few = max(odd, even), min(odd, even)
    if announced and many + few > ODD_MAX * len(head):
        # Of large code points, lower bytes are controls: either order may be right.
        return next((each for each in codecs if _is_text(head, each)), None)
    enough = many >= CONTROLS_MIN * len(head) / 2 and many >= CONTROLS_COUNT_MIN
    return codecs[0] if enough and few * 10 <= many else None


def _is_text(head: bytes, codec: str) -> bool:
    """Return whether the beginning of a text has hardly a control or unassigned character."""
    text = head[: len(head) & ~1].decode(codec, "replace")
    odd = sum(category(each) in {"Cc", "Cn", "Co"} for each in text)
    odd += text.count("\ufffd") - sum(map(text.count, "\t\n\r"))
    return odd <= ODD_MAX * len(text)


def _is_mostly_utf8(sample: bytes) -> bool:
    """Return whether the sample is damaged or cut UTF-8.

    Text of another charset is malformed as UTF-8 at nearly every high byte.
    """
    text = sample.decode("utf-8", "replace")
    bad = text.count("\ufffd")
    good = len(text) - (len(sample) - _high_bytes(sample)) - bad
    return good > bad * 4


def _choose(body: bytes, labels: list[str]) -> str:
    """Return the codec for bytes that are not UTF-8 throughout."""
    sample = _sample(body)
    if _is_mostly_utf8(sample):
        return "utf-8"
    others = (codec for codec in labels if not codec.startswith("utf-"))
    fitting = [codec for codec in others if _damage(sample, codec) <= DAMAGE_MAX]
    guess = _detect(sample)
    for codec in fitting:
        if _read_the_same(sample, codec, guess):
            return codec
    # Damage misleads the detector about multi-byte charsets: to another one, which then fails too,
    # or to a single-byte one, which cannot fail. Show it a repaired sample.
    if _damage(sample, guess) > 0 or len(sample.decode(guess, "replace")) == len(sample):
        for codec in fitting:
            whole = sample.decode(codec, "ignore").encode(codec, "ignore")
            if whole != sample and _read_the_same(whole, codec, _detect(whole)):
                return codec
    if fitting and _high_bytes(sample) < HIGH_BYTES_MIN:
        return fitting[0]
    return guess


def other_charset(head: bytes, *, json: bool = False) -> str | None:
    """Return the charset that a text without a label begins in; None for UTF-8, damaged or not.

    In another charset half of the lines or more are malformed as UTF-8, at nearly every high byte.
    Of JSON those count that are objects, and one of them is to be an object in that charset.
    """
    if wide := _utf16(head, []):
        return wide
    if _is_utf8(head):
        return None
    lines = head.splitlines()
    if json:
        objects = [each for line in lines if (each := line.strip(_ABOUT_JSON)).startswith(b"{")]
        if not objects:
            return None
        json = any(len(each) > 1 for each in objects)
        # Of objects that are spread over lines those count that are not for the syntax alone.
        lines = objects if json else [line for line in lines if not line.isascii()]
    odd = [line for line in lines if not _is_utf8(line)]
    if 2 * len(odd) < len(lines) or _high_bytes(b"".join(odd)) < HIGH_BYTES_MIN:
        return None
    if _is_mostly_utf8(b"".join(odd)):
        return None
    guess = _detect(_sample(b"\n".join(odd)))
    return guess if not json or any(_is_json(each, guess) for each in odd[:_OBJECTS]) else None


def _is_json(line: bytes, codec: str) -> bool:
    """Return whether a line is JSON in a charset, and not damaged."""
    try:
        msgspec.json.decode(line.decode(codec, "replace"))
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


def cut_utf16(body: bytes, declared: str | None) -> bytes:
    """Return a body in UTF-8 if it is UTF-16 by a mark or by its upper bytes, else as it is."""
    marked = body.startswith(tuple(mark for mark, codec in _BOMS if codec != "utf-8"))
    label = codec_of(declared)
    codec = _utf16(body, [label] if label else [])
    if marked or (codec and _is_text(body[:PRESCAN_BYTES], codec)):
        return decode_body(body, codec, html=False)
    return body


def decode_body(body: bytes, declared: str | None, *, html: bool) -> bytes:
    """Return a page as UTF-8: the very bytes that came in where they are valid UTF-8 already.

    Args:
        body: the page as it was sent, content encodings undone.
        declared: the charset that the message or its HTTP header names, if any; any string is safe.
        html: whether a `<meta>` element may name a charset too.

    Time is linear in the body; the detector sees at most SAMPLE_BYTES of it.
    """
    for mark, codec in _BOMS:
        if body.startswith(mark):
            return _utf8(body[len(mark) :], codec)
    seven_bit = body.isascii()
    if seven_bit and ESCAPE not in body and 0 not in body:
        return body
    named = codec_of(declared), codec_of(_find_label(body, html=html))
    labels = [codec for codec in named if codec]
    if wide := _utf16(body, labels):
        return _utf8(body, wide)
    if seven_bit and ESCAPE in body and _detect(body[:SAMPLE_BYTES]) == "iso-2022-jp":
        return _utf8(body, "iso-2022-jp")
    if seven_bit or _is_utf8(body):
        return body
    return _utf8(body, _choose(body, labels))


def _utf8(body: bytes, codec: str) -> bytes:
    """Decode and encode again; malformed bytes become U+FFFD."""
    if codec == "utf-8" and _is_utf8(body):
        return body
    return body.decode(codec, "replace").encode()
