"""Articles of the sample crawl."""

from random import Random

from streamer.analysis.sample import prose
from streamer.analysis.sample.reference import TextShingler, resemblance


def test_unrelated_articles_of_a_language_share_few_shingles() -> None:
    for language in prose.LANGUAGES:
        shingler, sets = TextShingler(), []
        for n in range(12):
            paragraphs = prose.write_article(Random(n), language, 400).paragraphs
            sets.append(shingler.exact("\n".join(map(language.joiner.join, paragraphs))))
        assert max([resemblance(sets[0], other) for other in sets[1:]]) < 0.002, language.code
