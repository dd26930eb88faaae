"""The scanner's rules once more, with regular expressions: slow, and written another way.

Tests hold `html_to_text` against this byte for byte. It may be quadratic: inputs are short.
"""

import html
import re

BLOCKS = frozenset(
    b"""
    address article aside blockquote body br button canvas caption center col colgroup dd
    details dialog dir div dl dt fieldset figcaption figure footer form frameset h1 h2 h3 h4
    h5 h6 head header hgroup hr html iframe legend li link listing main menu meta nav noframes
    noscript ol optgroup option p plaintext pre search section select summary table tbody td
    textarea tfoot th thead title tr ul video xmp
    """.split()
)
DROPPED = frozenset([b"script", b"style", b"noembed", b"iframe", b"noframes"])
KEPT = frozenset([b"title", b"textarea"])
CONTAINERS = frozenset([b"svg", b"template", b"dialog"])

TAG = re.compile(
    rb"""
    <(?P<slash>/?)(?P<name>[a-zA-Z][^\t\n\f\r />]*+)
    (?>[\t\n\f\r /]*+
        [^\t\n\f\r />][^\t\n\f\r />=]*+
        (?:[\t\n\f\r ]*+=[\t\n\f\r ]*+(?>"[^"]*"|'[^']*'|[^\t\n\f\r >]*+))?+
    )*+
    (?P<rest>[\t\n\f\r /]*+)>
    """,
    re.VERBOSE,
)
# The attribute by which a container is visible.
SHOWN_BY = {b"template": b"shadowrootmode", b"dialog": b"open"}
ATTRIBUTE = re.compile(
    rb"""
    [\t\n\f\r /]*+
    ([^\t\n\f\r />][^\t\n\f\r />=]*+)
    (?:[\t\n\f\r ]*+=[\t\n\f\r ]*+(?>"[^"]*"|'[^']*'|[^\t\n\f\r >]*+))?+
    """,
    re.VERBOSE,
)
COMMENT = re.compile(rb"<!--(?:-?>|.*?(?:--!?>|\Z))", re.DOTALL)
SECTION = re.compile(rb"<!\[CDATA\[.*?\]\]>", re.DOTALL)
BOGUS = re.compile(rb"<(?:[!?]|/(?=.))[^>]*>?", re.DOTALL)
TAG_BEGINS = re.compile(rb"</?[a-zA-Z]")
REFERENCE = re.compile(rb"&(?:#([0-9]+);?|#[xX]([0-9a-fA-F]+);?|[0-9A-Za-z]{1,32};?)")


def end_tag(name: bytes) -> re.Pattern[bytes]:
    return re.compile(rb"</" + name + rb"(?=[\t\n\f\r />])", re.IGNORECASE)


def resolve(text: bytes) -> bytes:
    def value(match: re.Match[bytes]) -> bytes:
        if len((match[1] or match[2] or b"").lstrip(b"0")) > 9:
            return "\ufffd".encode()
        return html.unescape(match.group().decode()).encode()

    return REFERENCE.sub(value, text)


class Page:
    """One page on its way: where we are, what came out, how deep in which container."""

    def __init__(self, source: bytes) -> None:
        self.source = source
        self.read_up_to = 0  # of the last <noscript> that is read
        self.at = 0
        self.out = bytearray()
        self.depth = dict.fromkeys(CONTAINERS, 0)

    def visible(self) -> bool:
        return not any(
            depth and end_tag(name).search(self.source, self.at)
            for name, depth in self.depth.items()
        )

    def text(self) -> bytes:
        while self.at < len(self.source):
            stop = self.source.find(b"<", self.at)
            stop = len(self.source) if stop < 0 else stop
            if self.visible():
                self.out += resolve(self.source[self.at : stop])
            self.at = stop
            if stop < len(self.source):
                self.markup()
        return bytes(self.out)

    def markup(self) -> None:
        if TAG_BEGINS.match(self.source, self.at):
            self.tag()
            return
        for pattern in (COMMENT, SECTION, BOGUS):
            if match := pattern.match(self.source, self.at):
                self.at = match.end()
                return
        if self.visible():
            self.out += b"<"
        self.at += 1

    def tag(self) -> None:
        match = TAG.match(self.source, self.at)
        if not match:
            self.at = len(self.source)
            return
        name = match["name"].lower()
        if after := self.after_noscript(match):
            self.at = after
            return
        if name in BLOCKS and self.visible():
            self.out += b" "
        self.at = match.end()
        if match["slash"]:
            self.depth[name] = max(self.depth.get(name, 0) - 1, 0)
            self.depth = {key: self.depth[key] for key in CONTAINERS}
        elif not match["rest"].endswith(b"/") and not self.is_shown(match):
            self.contents(name)

    def is_shown(self, match: re.Match[bytes]) -> bool:
        name = match["name"].lower()
        given = ATTRIBUTE.findall(match.string, match.end("name"), match.start("rest"))
        shown = name in SHOWN_BY and SHOWN_BY[name] in map(bytes.lower, given)
        return shown and not self.depth[name]

    def after_noscript(self, match: re.Match[bytes]) -> int:
        """Return where a <noscript> ends that is passed unseen; 0 if it is read, or another tag."""
        if match["name"].lower() != b"noscript" or match["slash"] or match["rest"].endswith(b"/"):
            return 0
        at = match.end()
        close = end_tag(b"noscript").search(self.source, at)
        if at < self.read_up_to or not close:
            return 0
        if seen(re.sub(rb"<[^>]*>?", b"", self.source[at : close.start()])) >= 300:
            self.read_up_to = close.start()
            return 0
        whole = TAG.match(self.source, close.start())
        return whole.end() if whole else len(self.source)

    def contents(self, name: bytes) -> None:
        close = end_tag(re.escape(name)).search(self.source, self.at)
        if name in CONTAINERS and close:
            self.depth[name] += 1
        elif name in DROPPED | KEPT and close:
            if name in KEPT and self.visible():
                self.out += resolve(self.source[self.at : close.start()])
            self.at = close.start()
        elif name in (b"script", b"style"):
            self.at = len(self.source)


def html_to_text(source: bytes) -> bytes:
    return Page(source).text()


def seen(text: bytes) -> int:
    return sum(byte > 32 and byte != ord(">") for byte in text)
