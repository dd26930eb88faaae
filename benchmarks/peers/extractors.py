"""Libraries that take the main text out of HTML: each a function from a page to its text.

trafilatura   extract(html, favor_precision=False), its defaults
resiliparse   extract_plain_text(html, main_content=True), without links, forms and noscript
jusText       paragraphs of jusText(html, English stop words) that are no boilerplate
"""

from collections.abc import Callable

Extractor = Callable[[str], str]


def extractors() -> dict[str, Extractor]:
    """Return the extractors that are installed, by name."""
    found = {}
    for name, make in (
        ("trafilatura", _trafilatura),
        ("resiliparse", _resiliparse),
        ("jusText", _justext),
    ):
        try:
            found[name] = make()
        except ImportError:
            continue
    return found


def _trafilatura() -> Extractor:
    from trafilatura import extract  # noqa: PLC0415 - it may not be installed

    return lambda page: extract(page) or ""


def _resiliparse() -> Extractor:
    from resiliparse.extract.html2text import extract_plain_text  # noqa: PLC0415 - as above

    return lambda page: str(extract_plain_text(page, main_content=True))


def _justext() -> Extractor:
    from justext import get_stoplist, justext  # noqa: PLC0415 - as above

    stop_words = get_stoplist("English")

    def text(page: str) -> str:
        parts = justext(page.encode("utf-8", "replace"), stop_words, encoding="utf-8")
        return "\n".join(part.text for part in parts if not part.is_boilerplate)

    return text
