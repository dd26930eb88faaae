"""No verdict differs from those whose digests are written, whatever the options."""

import json
from pathlib import Path

import pytest

from tests.helpers import verdict_digests
from tests.helpers.verdict_digests import OPTIONS, SAMPLE, SETS, digest, options_of, sample_crawl

EXPECTED: dict[str, dict[str, str]] = json.loads(
    verdict_digests.DIGESTS.read_text(encoding="utf-8")
)


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sample_crawl(tmp_path_factory.mktemp(SAMPLE) / "pages")


@pytest.mark.parametrize("options", OPTIONS)
def test_the_sample_crawl_keeps_its_verdicts(sample: Path, tmp_path: Path, options: str) -> None:
    assert digest(sample, (), OPTIONS[options], tmp_path) == EXPECTED[SAMPLE][options]


@pytest.mark.parametrize("name", SETS)
def test_a_labelled_set_has_the_verdicts_that_it_had(name: str, tmp_path: Path) -> None:
    pages = verdict_digests.labelled_pages(name, tmp_path)
    if pages is None:
        pytest.skip(
            f"{name}.tar.xz: put it into {verdict_digests.DATA.name}, next to this checkout"
        )
    found = {}
    for options, arguments in options_of(name).items():
        scratch = tmp_path / options
        scratch.mkdir()
        found[options] = digest(pages, SETS[name], arguments, scratch)
    assert found == EXPECTED[name]
