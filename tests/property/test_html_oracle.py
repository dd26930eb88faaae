"""The scanner gives what the regular expressions give, for made and for arbitrary markup."""

from html.entities import html5

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from streamer.text.html import html_to_text, text_bytes_max
from streamer.text.scan import VECTOR_BYTES
from tests.oracles import visible_text

PLAIN_NAMES = """
    a b span p div LI br h1 td Title textarea script STYLE noscript noembed iframe noframes svg sVg
    template dialog x-y blockquote scripts svgsvgsvgsvg blockquotes figcaption7 optgroup
"""
NAMES = [*PLAIN_NAMES.split(), "pre\0", "p\x0b", "h\x11"]
ATTRIBUTES = [
    "", " ", " a", "/", " /", " a=b", ' a="b>c"', " a='>'", " =", ' ="x>"', " a = ' b '",
    "\n\t\f\r", ' a="', " a='", " a=b/", ' a="b"c', " a=b'c>", " a==", " a=>", ' a"b="c"', "=",
    " a / = '>'", " a='1' shadowRootMode", " shadowrootmode=open", " shadowrootmod",
    " =/shadowrootmode/", " Open", " open=open", " opened",
]  # fmt: skip
REFERENCES = f"""
    & &amp; &amp &notit; &notin; &nGt; &nosuch; &ampx &; &# &#x &#; &#65; &#65x &#x41; &#X41g &#128;
    &#129; &#0; &#13; &#11; &#xd800; &#xfdd0; &#x1ffff; &#1114111; &#1114112; &#00000000000000065;
    &#99999999999999; &CounterClockwiseContourIntegral; &CounterClockwiseContourIntegra &am
    &frac12x &nbsp; &#x110000; &{"a" * 40}; &thetasym; &ThickSpace; &lt;b&gt;
""".split()
WITHOUT_SPACES = """
    <!--> <!---> <!--a--!>b <!--!> <!---!> <!----!> <!-- <!--a --> <! <!> <? </ </> </1> < << <1
    <![CDATA[a>b]]> <![CDATA[ <![CDATA[]]> <![CDATA]]> <![cdata[a>b]]> <!--->--> > <![CDATA[>]>
    <!--a--!-->b ]]> <a </a " '
"""
DECLARATIONS = [
    *WITHOUT_SPACES.split(), "<!-- a -->", "<!doctype html>", "<?xml a='>'?>", "</ a>", "<!- a>",
    "\0", "<\0a>", "</\xe9>",
]  # fmt: skip
text = st.sampled_from(["a", "word ", "\n", "é", "漢字", "x" * 16, "y" * 33, "0", ";", "b]"])
tags = st.builds(
    "<{}{}{}{}".format,
    st.sampled_from(["", "", "/"]),
    st.sampled_from(NAMES),
    st.sampled_from(ATTRIBUTES),
    st.sampled_from([">", ">", ">", "/>", " >", ""]),
)
pieces = st.one_of(text, tags, tags, st.sampled_from(REFERENCES), st.sampled_from(DECLARATIONS))
markup = st.lists(pieces, max_size=25).map(lambda parts: "".join(parts).encode())
soup = st.lists(st.sampled_from(b"<>!-/&#;xa\"'= svg[]?"), max_size=60).map(bytes)


def scanned(page: bytes) -> bytes:
    """Scan a page in the middle of a buffer that holds misleading bytes around it."""
    source = np.frombuffer(b"</svg>'" + page + b"</svg></title></script>-->'\">;" * 2, np.uint8)
    out = np.full(5 + text_bytes_max(len(page)) + 1, 0xEE, np.uint8)
    place = html_to_text(source, 7, 7 + len(page), out, 5)
    assert place <= 5 + text_bytes_max(len(page)) - VECTOR_BYTES
    assert (out[:5] == 0xEE).all()
    assert out[-1] == 0xEE
    return out[5:place].tobytes()


@settings(max_examples=1500, deadline=None)
@given(markup, st.data())
def test_made_markup_cut_anywhere_gives_the_oracles_text(page: bytes, data: st.DataObject) -> None:
    page = page[: data.draw(st.integers(0, len(page)) | st.just(len(page)))]
    assert scanned(page) == visible_text.html_to_text(page)


@settings(max_examples=700, deadline=None)
@given(st.one_of(st.binary(max_size=60), soup))
def test_any_bytes_give_the_oracles_text(page: bytes) -> None:
    assert scanned(page) == visible_text.html_to_text(page)


@settings(max_examples=500, deadline=None)
@given(st.lists(st.one_of(text, st.sampled_from(REFERENCES), st.sampled_from(sorted(html5)))))
def test_text_without_tags_gives_the_oracles_text(parts: list[str]) -> None:
    page = "&".join(parts).encode()
    assert scanned(page) == visible_text.html_to_text(page)


def test_every_name_of_the_standard_library_resolves_to_its_characters() -> None:
    for name, value in html5.items():
        assert scanned(f"&{name} ".encode()) == value.encode() + b" ", name


def test_every_number_below_70000_resolves_as_the_standard_library_does() -> None:
    numbers = [*range(70_000), *range(0x10FFF0, 0x110010)]
    page = " ".join(f"&#{number};" for number in numbers).encode()
    assert scanned(page) == visible_text.resolve(page)
