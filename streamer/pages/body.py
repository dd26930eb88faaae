r"""What a body is: by its type as it was sent, by its first bytes, and whether it is HTML.

Types are read as browsers read them (WHATWG MIME Sniffing, 4.4; Fetch, "extract a MIME type"): up
to the first `;`, if that is valid; of a list the last valid one. Where no type is valid, or it is
one that servers give when they do not know, the bytes decide.

The bytes of a known format that is no text win over any type: servers label PDF files and images as
HTML. Such a body is no page, and is counted by its kind.

A body without a type is HTML if it begins with a doctype, a comment or an element of HTML, after
byte order marks, white space and processing instructions; or if an element of HTML begins and ends
within HEAD_BYTES. Bodies are UTF-8, or the inside of a JSON string, where `<` may be `\u003c`.
"""

import re
from functools import lru_cache

import numpy as np

from streamer.text.visible import Buffer

HEAD_BYTES = 4096  # of a body without a type, in which an element is looked for
BINARY_BYTES = 512  # as many decide whether a body is binary
LEADING_MAX = 1 << 16  # bytes of white space, or units of it, that are skipped
_TYPES_KEPT = 1024  # a crawl repeats few,
_TYPE_CHARACTERS_MAX = 128  # and longer ones may be of any length

_LIST_ITEM = re.compile(r'(?:[^,"]|"(?:[^"\\]|\\.)*"?)+')
_ESSENCE = re.compile(
    r"\s*([!#$%&'*+.^_`|~0-9a-z-]+/[!#$%&'*+.^_`|~0-9a-z-]+)\s*(?:;|$)", re.IGNORECASE
)
_HTML_TYPES = frozenset({"text/html", "application/xhtml+xml"})
_MEANT_FOR_HTML = frozenset({"text/htm", "text/xhtml", "application/html", "application/xhtml"})
# Types that servers and crawlers give when they do not know.
_VAGUE_TYPES = {"", "application/octet-stream", "application/xml", "text/xml", "unknown/unknown"}
# Text that is written for programs, never a page, whatever `pages_type` says of text/*.
PROGRAM_TYPES = frozenset(
    {
        "text/css", "text/javascript", "text/ecmascript", "text/jscript", "text/livescript",
        "text/x-javascript", "text/x-ecmascript", "text/vbscript", "text/x-component",
        "text/cache-manifest", "text/x-source-map",
    }
)  # fmt: skip

_LESS = rb"(?:<|\\u003[cC])"
_ELEMENT = (
    rb"(?:html|head|body|title|meta|link|base|script|style|template|slot|noscript|iframe|frameset"
    rb"|div|span|p|a|b|i|u|s|q|h[1-6]|hgroup|br|hr|wbr|table|thead|tbody|tfoot|tr|td|th|caption"
    rb"|colgroup|col|ul|ol|li|dl|dt|dd|menu|dir|img|picture|source|map|area|font|center|big|small"
    rb"|form|fieldset|legend|label|input|button|select|option|optgroup|textarea|output|progress"
    rb"|meter|datalist|main|article|section|header|footer|nav|aside|address|search|figure"
    rb"|figcaption|blockquote|details|summary|dialog|pre|code|samp|kbd|var|strong|em|mark|cite|dfn"
    rb"|abbr|acronym|time|data|del|ins|sub|sup|ruby|rt|rp|bdi|bdo|tt|strike|nobr|marquee|object"
    rb"|embed|param|applet|audio|video|track|canvas|svg|math|[a-z][a-z0-9]*-[a-z0-9-]*)"
)
_SPACE = rb"(?:[\t\n\f\r ]|\\[nrtf])"
_BEGINNING = re.compile(
    rb"(?:\xef\xbb\xbf|\\ufeff){0,8}%(space)b{0,%(most)d}+"
    rb"(?:%(less)b\?[^<>]{0,200}(?:>|\\u003[eE])%(space)b{0,%(most)d}+){0,8}"
    rb"%(less)b(?:!--|!doctype%(space)b++html|%(element)b(?=[\t\n\f\r />\\]))"
    % {b"space": _SPACE, b"most": LEADING_MAX, b"less": _LESS, b"element": _ELEMENT},
    re.IGNORECASE,
)
# Those within a sentence, and scripts, stand in texts about HTML too.
_BLOCK = (
    rb"(?:html|head|body|title|div|p|h[1-6]|table|thead|tbody|tr|td|th|ul|ol|li|dl|dt|dd|form|main"
    rb"|article|section|header|footer|nav|aside|figure|figcaption|blockquote|details)"
)
_END = re.compile(rb"%b\\?/(%b)%b?(?:>|\\u003[eE])" % (_LESS, _BLOCK, _SPACE), re.IGNORECASE)
MAY_BEGIN_HTML = np.zeros(256, np.bool_)  # by the first byte of a body
MAY_BEGIN_HTML[list(b"\xef\\ \t\n\f\r<")] = True

_BYTE_ORDER_MARKS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")
# "binary data byte" in the WHATWG MIME sniffing standard
_BINARY = re.compile(rb"[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f]")

# The signatures of that standard, and of what else is found under the names of pages. A crawler
# that took bytes for text has put U+FFFD, or the character of that number, in the place of some.
_NO_CHARACTER = (
    rb"(?:\xef\xbf\xbd|\xc2[\x80-\xbf]|\xc3[\x80-\xbf]|\\u00[89a-fA-F][0-9a-fA-F]|\\ufffd)"
)
_ZERO = rb"(?:\x00|\\u0000)"
_SIZE = rb"(?:[\x00-\xff]{4}|(?:%b|\\u00[01][0-9a-f]|[\x00-\x7f]){4})" % _NO_CHARACTER
_FOREIGN = re.compile(
    rb"(?:\xef\xbb\xbf)?[\t\n\f\r ]{0,64}(?:(?P<pdf>%%(?:PDF-[0-9]|!PS-Adobe-))"
    rb"|(?P<image>(?:\x89|%(no)b)PNG|GIF8[79]a|\xff\xd8\xff|%(no)b{3}[\x00-\xff]{0,24}?(?:JFIF|Exif)"
    rb"|RIFF%(size)bWEBP|II\*%(zero)b|MM%(zero)b\*|\x00\x00\x01\x00|8BPS%(zero)b"
    rb"|\x00\x00\x00.ftyp(?:avif|heic|mif1))"
    rb"|(?P<font>wOF[F2](?:%(zero)b|\x00)|OTTO%(zero)b|\x00\x01\x00\x00\x00|ttcf%(zero)b)"
    rb"|(?P<archive>PK(?:\x03\x04|\x05\x06|\\u0003\\u0004)|Rar!\x1a|7z\xbc\xaf\x27\x1c|BZh[1-9]1AY"
    rb"|\xfd7zXZ\x00|\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1|\{\\\\?rtf1)"
    rb"|(?P<media>OggS%(zero)b|ID3[\x02-\x04]|\x1aE\xdf\xa3|fLaC%(zero)b|\x00\x00\x00.ftyp"
    rb"|RIFF%(size)b(?:WAVE|AVI ))"
    rb"|(?P<program>\x7fELF|\x00asm|\xca\xfe\xba\xbe|SQLite format 3%(zero)b))"
    % {b"no": _NO_CHARACTER, b"zero": _ZERO, b"size": _SIZE},
    re.DOTALL,
)
MAY_BE_FOREIGN = np.zeros(256, np.bool_)  # by the first byte
MAY_BE_FOREIGN[list(b"%GRIM8wOtPB7fS{\\\xef\xc2\xc3 \t\n\f\r")] = True
FOREIGN_KINDS = (*_FOREIGN.groupindex, "binary")
CONTROLS_MAX = 0.05  # of the first BINARY_BYTES; of random bytes a tenth are controls
_CONTROLS = bytes({*range(32)} - {*b"\t\n\v\f\r\x1a\x1b"}) + b"\x7f"


def essence_of(content_type: str) -> str:
    """Return type and subtype in lower case, as `text/html`; "" where none is valid."""
    is_kept = len(content_type) <= _TYPE_CHARACTERS_MAX
    return (_kept_essence if is_kept else _read_essence)(content_type)


def _read_essence(content_type: str) -> str:
    found = ""
    for item in _LIST_ITEM.findall(content_type):
        own = _ESSENCE.match(item)
        if own and not own[1].endswith("/*"):
            found = own[1].lower()
    return "text/html" if found in _MEANT_FOR_HTML else found


_kept_essence = lru_cache(_TYPES_KEPT)(_read_essence)


def declares_html(content_type: str | None) -> bool | None:
    """Return whether a type is that of HTML; None for one that says nothing."""
    essence = essence_of(content_type or "")
    if essence in _HTML_TYPES:
        return True
    return None if essence in _VAGUE_TYPES else False


def sniff_html(body: Buffer) -> bool:
    """Return whether a body looks like HTML; UTF-8 text or the inside of a JSON string."""
    return _BEGINNING.match(body) is not None or has_element(body)


def has_element(body: Buffer) -> bool:
    """Return whether an element of HTML begins and ends in the first HEAD_BYTES of a body."""
    head = bytes(body[:HEAD_BYTES])
    if b"</" not in head and b"<\\/" not in head and b"\\u003" not in head:
        return False
    for end in _END.finditer(head):
        begin = re.compile(rb"%b%b(?=[\t\n\f\r />\\])" % (_LESS, re.escape(end[1])), re.IGNORECASE)
        if begin.search(head, 0, end.start()):
            return True
    return False


def looks_like_html(body: Buffer, content_type: str | None) -> bool:
    """Return whether a page is HTML: by its type, or else by its body."""
    declared = declares_html(content_type)
    return sniff_html(body) if declared is None else declared


def foreign_kind(body: Buffer) -> str | None:
    """Return which of FOREIGN_KINDS a body is by its first bytes; None for what may be a page."""
    found = _FOREIGN.match(body)
    if found:
        return found.lastgroup
    head = bytes(body[:BINARY_BYTES])
    controls = len(head) - len(head.translate(None, _CONTROLS))
    return "binary" if controls > CONTROLS_MAX * len(head) else None


def is_binary(body: bytes) -> bool:
    """Return whether a body of no known type begins like something other than text."""
    return not body.startswith(_BYTE_ORDER_MARKS) and bool(_BINARY.search(body, 0, BINARY_BYTES))
