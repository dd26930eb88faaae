"""Pages in thirteen encodings under right, wrong, missing and conflicting labels.

A label stands in the HTTP header or the message, in a `<meta>` of the page, or in both. What must
hold: with a right label and no other, a page has the signature of its UTF-8 original; and the same
bytes are a duplicate of themselves whatever the header says, where a dozen of them lie outside
ASCII (with fewer, a label that fits is believed). Two charsets that read the same text but for one
in twenty of its characters outside ASCII are both believed, so that a signature may differ a
little; how often it does, and how many pages are read rightly under which labels, is measured.
"""

# ruff: noqa: E501 - texts in many scripts
from __future__ import annotations

import base64
import re
from collections import Counter, defaultdict
from random import Random
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np

from streamer.analysis.sample.prose import CHINESE, FRENCH, GERMAN, JAPANESE, RUSSIAN, write_article
from streamer.model import SIMILARITY_ONE
from streamer.pages.parse import PageParser
from streamer.sketch.resemblance import SKETCH_WORDS, similarity
from streamer.sketch.signer import NativeSigner
from streamer.text.charset import HIGH_BYTES_MIN
from tests.campaign.campaign import Campaign, Outcome
from tests.campaign.judging import SETTINGS, THRESHOLD

if TYPE_CHECKING:
    from pathlib import Path

    import numpy.typing as npt

    from streamer.analysis.sample.prose import Language

    Words = npt.NDArray[np.uint64]

CZECH = """v roce byla na jaře řeka velmi široká a lidé ze vsi chodili přes starý dřevěný most každý den ráno
do města kde měli práci večer se vraceli domů děti čekaly před školou až přijde učitelka která bydlela
u lesa příští týden začne žně a všichni budou pomáhat sousedům na poli protože počasí má být pěkné teplé
později možná přijde déšť žádný člověk však neví jak dlouho ještě vydrží sůl kůň píseň"""
KOREAN = """오늘은 날씨가 매우 좋아서 사람들이 공원에서 산책을 하고 있었다 아이들은 학교가 끝난 뒤에 강가로 나가
자전거를 탔고 어머니는 시장에서 신선한 채소와 과일을 샀다 정부는 내년 봄부터 새로운 교통 정책을 시행할
계획이라고 밝혔다 전문가들은 이번 결정이 지역 경제에 큰 도움이 될 것으로 보고 있다 그러나 일부 주민은
소음과 먼지를 걱정하며 더 많은 대화를 요구했다 우리는 그 문제를 함께 해결해야 한다고 생각한다"""
THAI = """วันนี้ อากาศ ดี มาก ผู้คน จึง ออก ไป เดินเล่น ที่ สวนสาธารณะ เด็ก ๆ เล่น น้ำ ใกล้ แม่น้ำ หลัง เลิกเรียน แม่ ซื้อ ผัก
และ ผลไม้ สด จาก ตลาด รัฐบาล ประกาศ แผน การ ขนส่ง ใหม่ ตั้งแต่ ปีหน้า ผู้เชี่ยวชาญ เห็นว่า การตัดสินใจ ครั้งนี้ จะ ช่วย เศรษฐกิจ
ของ ท้องถิ่น แต่ ชาวบ้าน บางส่วน กังวล เรื่อง เสียง และ ฝุ่น เรา ต้อง แก้ปัญหา ร่วมกัน ต่อไป"""
TAIWANESE = """今天 天氣 很好 我們 去 公園 散步 然後 回家 吃飯 學生 下課 以後 騎 自行車 到 河邊 玩 媽媽 在 市場 買 了 新鮮 的
蔬菜 和 水果 政府 宣布 明年 春天 開始 實施 新的 交通 計畫 專家 認為 這個 決定 對 地方 經濟 有 很大 幫助 但是 部分
居民 擔心 噪音 與 灰塵 要求 更多 對話 我們 應該 一起 解決 這個 問題 圖書館 裡 讀書 的 人 愈來愈 多 了"""


class Encoding(NamedTuple):
    """Python's codec, the label that pages carry, and what is written in it."""

    codec: str
    label: str
    text: Language | str
    joiner: str = " "


ENCODINGS = (
    Encoding("utf-8", "utf-8", FRENCH),
    Encoding("utf-16-le", "utf-16le", GERMAN),
    Encoding("utf-16-be", "utf-16be", RUSSIAN),
    Encoding("cp1251", "windows-1251", RUSSIAN),
    Encoding("koi8-r", "koi8-r", RUSSIAN),
    Encoding("cp1252", "iso-8859-1", FRENCH),
    Encoding("gb18030", "gb2312", CHINESE),
    Encoding("big5", "big5", TAIWANESE, ""),
    Encoding("shift_jis", "shift_jis", JAPANESE),
    Encoding("euc-jp", "euc-jp", JAPANESE),
    Encoding("euc-kr", "euc-kr", KOREAN),
    Encoding("iso-8859-2", "iso-8859-2", CZECH),
    Encoding("tis-620", "tis-620", THAI, ""),
)
_HIGH = re.compile(rb"[\x80-\xff]")
LABELS = [each.label for each in ENCODINGS]
WRONG = 4  # wrong labels a page, drawn anew for each


class _Case(NamedTuple):
    """A page with its labels: what kind of labelling it is."""

    encoding: Encoding
    kind: str  # right, missing, wrong or conflicting
    header: str | None
    meta: str | None

    @property
    def labels(self) -> str:
        """Return the labels in words."""
        return f"header {self.header}, meta {self.meta}"


def _text(rng: Random, encoding: Encoding) -> list[str]:
    """Return paragraphs of a page, 60 to 500 words in all."""
    count = rng.randint(60, 500)
    if not isinstance(encoding.text, str):
        article = write_article(rng, encoding.text, count)
        joiner = encoding.text.joiner
        return [article.title, *(joiner.join(paragraph) for paragraph in article.paragraphs)]
    words = encoding.text.split()
    drawn = [rng.choice(words) for _ in range(count)]
    return [encoding.joiner.join(drawn[i : i + 60]) + "." for i in range(0, count, 60)]


def _page(paragraphs: list[str], meta: str | None) -> str:
    label = f'<meta charset="{meta}">' if meta else ""
    body = "\n".join(f"<p>{each}</p>" for each in paragraphs)
    script = "<script>var page = {width: 1, height: 2};</script>"
    return f"<!doctype html><html><head>{label}<title>{paragraphs[0]}</title>{script}</head><body><div>{body}</div></body></html>"


def _cases(rng: Random, encoding: Encoding) -> list[_Case]:
    own = encoding.label
    cases = [
        _Case(encoding, "right", own, None),
        _Case(encoding, "right", None, own),
        _Case(encoding, "right", own, own),
        _Case(encoding, "missing", None, None),
    ]
    for wrong in rng.sample([label for label in LABELS if label != own], WRONG):
        cases += [
            _Case(encoding, "wrong", wrong, None),
            _Case(encoding, "wrong", None, wrong),
            _Case(encoding, "wrong", wrong, wrong),
            _Case(encoding, "conflicting", own, wrong),
            _Case(encoding, "conflicting", wrong, own),
        ]
    return cases


def _message(page: bytes, label: str | None, *, in_type: bool) -> bytes:
    """Return a message with the page's bytes, the label in its type or in its own field."""
    fields: dict[str, str] = {"url": "u", "body_base64": base64.b64encode(page).decode()}
    fields["content_type"] = f"text/html; charset={label}" if label and in_type else "text/html"
    if label and not in_type:
        fields["charset"] = label
    return msgspec.json.encode(fields)


def run(rounds: int, seed: int, folder: Path) -> Outcome:  # noqa: ARG001 - nothing is written
    """Read `rounds` pages of each encoding under all labellings."""
    rng = Random(seed)
    reader = _Reader()
    for number in range(rounds):
        for encoding in ENCODINGS:
            reader.read(rng, encoding, f"round {number}, seed {seed}: {encoding.codec}")
    return Outcome(rounds, reader.violations, None, reader.figures())


class _Reader:
    """Reads pages under all labellings, and counts what came of it."""

    def __init__(self) -> None:
        self._signer = NativeSigner(SETTINGS, bytes(32))
        self._parser = PageParser()
        self._read: dict[tuple[str, str], Counter[bool]] = defaultdict(Counter)
        self._same_bytes: Counter[bool] = Counter()
        self.violations: list[str] = []

    def read(self, rng: Random, encoding: Encoding, where: str) -> None:
        """Read one page under all labellings."""
        paragraphs = [
            each.encode(encoding.codec, "ignore").decode(encoding.codec)
            for each in _text(rng, encoding)
        ]
        cases = _cases(rng, encoding)
        pages = [_page(paragraphs, case.meta).encode(encoding.codec) for case in cases]
        signed = self._signed(
            [
                _message(page, case.header, in_type=bool(place % 2))
                for place, (page, case) in enumerate(zip(pages, cases, strict=True))
            ]
            + [_message(_page(paragraphs, None).encode(), "utf-8", in_type=True)]
        )
        if signed is None:
            self.violations.append(f"{where}: a page is missing")
            return
        first: dict[bytes, Words] = {}
        for case, page, sketch in zip(cases, pages, signed, strict=False):
            is_right = np.array_equal(sketch, signed[-1])
            self._read[encoding.codec, case.kind][is_right] += 1
            if case.kind == "right" and not is_right:
                self.violations.append(f"{where}: misread under right labels, {case.labels}")
            other = first.setdefault(page, sketch)
            self._same_bytes[np.array_equal(sketch, other)] += 1
            alike = similarity(sketch[-SKETCH_WORDS:], other[-SKETCH_WORDS:]) / SIMILARITY_ONE
            if alike < THRESHOLD and len(_HIGH.findall(page)) >= HIGH_BYTES_MIN:
                self.violations.append(
                    f"{where}: the same bytes are alike by {alike} only under {case.labels}"
                )

    def _signed(self, messages: list[bytes]) -> Words | None:
        """Return the keys and the sketch of each message; None where one of them is no page."""
        each = [(place, None, message) for place, message in enumerate(messages)]
        batch = self._parser.parse_messages(0, len(each), each)
        if len(batch) != len(messages):
            return None
        signed = self._signer.sign(batch.bodies, batch.flags)
        return np.concatenate([signed.keys, signed.sketches], axis=1)

    def figures(self) -> dict[str, float | int | str]:
        """Return the share that is read rightly, by kind of labelling, and by encoding if less."""
        figures: dict[str, float | int | str] = {}
        for kind in ("right", "missing", "wrong", "conflicting"):
            counts = {codec: each for (codec, of), each in self._read.items() if of == kind}
            pages = sum(each.total() for each in counts.values())
            rightly = sum(each[True] for each in counts.values())
            figures[f"read rightly, labels {kind}"] = round(rightly / max(pages, 1), 5)
            for codec, each in counts.items():
                if each[False]:
                    share = round(each[True] / each.total(), 4)
                    figures[f"read rightly, labels {kind}, {codec}"] = share
        figures["the same bytes, signed otherwise under another header"] = self._same_bytes[False]
        figures["of so many"] = self._same_bytes.total()
        return figures


CAMPAIGN = Campaign(
    "encodings",
    "A page in each of 13 encodings under right, wrong, missing and conflicting labels; right ones "
    "give the original's signature, and the same bytes give the same one whatever the header says.",
    rounds=200,
    rounds_in_short=50,
    rounds_in_ci=10,
    run=run,
)
