"""Articles of the sample crawl: their words, their edits and their print view."""

from random import Random

import pytest

from streamer.analysis.sample import prose
from streamer.analysis.sample.reference import TextShingler, resemblance, tokens
from streamer.analysis.sample.sites import make_site


def article(language: prose.Language = prose.LANGUAGES[0], count: int = 400) -> prose.Article:
    return prose.write_article(Random(7), language, count)


def test_unrelated_articles_of_a_language_share_few_shingles() -> None:
    for language in prose.LANGUAGES:
        shingler = TextShingler()
        sets = [
            shingler.exact(
                "\n".join(
                    language.joiner.join(p)
                    for p in prose.write_article(Random(n), language, 400).paragraphs
                )
            )
            for n in range(12)
        ]
        assert max([resemblance(sets[0], other) for other in sets[1:]]) < 0.002, language.code


def count_tokens(one: prose.Article) -> list[str]:
    return [word for words_ in one.paragraphs for word in words_]


@pytest.mark.parametrize("share", [0.0, 0.02, 0.1])
def test_an_edit_touches_exactly_its_share_of_the_words(share: float) -> None:
    before = article()
    edited = round(share * before.words())
    assert prose.insert_words(Random(1), before, share).words() == before.words() + edited
    assert prose.delete_words(Random(1), before, share).words() == before.words() - edited
    replaced = prose.replace_words(Random(1), before, share)
    pairs = list(zip(count_tokens(before), count_tokens(replaced), strict=True))
    changed = sum(left != right for left, right in pairs)
    assert edited * 0.8 <= changed <= edited  # a word may be replaced by itself


def test_moving_paragraphs_keeps_their_words() -> None:
    before = article(count=1200)
    after = prose.move_paragraphs(Random(3), before, 0.2)
    assert after.paragraphs != before.paragraphs
    assert sorted(after.paragraphs) == sorted(before.paragraphs)


def test_an_article_has_the_words_that_were_asked_for() -> None:
    for language in prose.LANGUAGES:
        assert article(language, 123).words() == 123


def test_a_print_view_has_the_article_and_another_surrounding() -> None:
    site = make_site(1, 0)
    one = prose.write_article(Random(1), site.language, 200)
    text = set(tokens(" ".join(count_tokens(one))))
    assert text <= set(tokens(site.render(one)))
    assert text <= set(tokens(site.print_view(one)))
    assert site.menu[1][1] in site.render(one)
    assert site.menu[1][1] not in site.print_view(one)
