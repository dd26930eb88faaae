import pytest

from streamer.console.render import Renderer, amount, percent, visible


@pytest.mark.parametrize(
    ("part", "said"),
    [(0, "0.0 %"), (0.0004, "< 0.1 %"), (0.421, "42.1 %"), (0.9999, "> 99.9 %"), (1, "100.0 %")],
)
def test_a_share_is_near_none_and_all_only_where_it_is(part: float, said: str) -> None:
    assert percent(part) == said


@pytest.mark.parametrize(
    ("size", "said"), [(0, "0 bytes"), (999, "999 bytes"), (1500, "1.5 kB"), (2**51, "2,251.8 TB")]
)
def test_an_amount_has_its_unit(size: int, said: str) -> None:
    assert amount(size) == said


def test_what_steers_a_reader_is_replaced() -> None:
    assert visible("a\x00b\u202ec\x9b d\n") == "a\ufffdb\ufffdc\ufffd d\n"
    assert visible(5) == 5


def test_a_link_has_its_parameters_escaped() -> None:
    link = Renderer("/console").link
    assert link("/page", page="a b&c=<d>", host=None) == "/console/page?page=a+b%26c%3D%3Cd%3E"
    assert link("/hosts") == "/console/hosts"
