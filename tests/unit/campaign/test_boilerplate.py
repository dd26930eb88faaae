"""The campaign of templates: its pages, and how many mistakes chance allows."""

from __future__ import annotations

import random

from tests.campaign import boilerplate


def test_chance_allows_more_where_more_pages_are_nearly_alike() -> None:
    near = boilerplate.Tally(shared=420)
    near.kept[495] = 10_000  # resemblance 0.74 to each other
    far = boilerplate.Tally(shared=420)
    far.kept[700] = 10_000
    assert boilerplate.mistaken(700, far) < 1e-9 < boilerplate.mistaken(495, near) < 1


def test_pages_of_a_template_share_what_their_template_gives() -> None:
    made = list(boilerplate.pages(500, seed=3))
    assert {page.template for page in made} == set(range(boilerplate.TEMPLATES))
    assert all(0.45 < page.share < 1 for page in made)
    assert made == list(boilerplate.pages(500, seed=3))
    assert [len(one.words) for one in boilerplate.templates(random.Random(3))][::19] == [30, 900]
