"""Pages in thirteen encodings under right and wrong labels.

A label is in the HTTP header or the message, in a `<meta>` of the page, or in both. With a right
label and no other, a page has the signature of its UTF-8 original. The same bytes are a duplicate
of themselves under any header, where a dozen of them are outside ASCII (with fewer, a label that
fits is believed).
"""

# ruff: noqa: E501 - texts in many scripts
from __future__ import annotations

import base64
import re
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
from tests.campaign.judging import SETTINGS, THRESHOLD

if TYPE_CHECKING:
    from pathlib import Path

    import numpy.typing as npt

    from streamer.analysis.sample.prose import Language

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
LABELS = [each.label for each in ENCODINGS]


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


def run(rounds: int, seed: int, folder: Path) -> list[str]:
    """Read `rounds` pages of each encoding under several labels."""
    del folder  # nothing is written
    rng, violations = Random(seed), []
    for number in range(rounds):
        for encoding in ENCODINGS:
            said = _misread(rng, encoding)
            violations += [
                f"round {number}, seed {seed}: {encoding.codec}: {each}" for each in said
            ]
    return violations


def _misread(rng: Random, encoding: Encoding) -> list[str]:
    """Read a page under right and wrong labels; return what is wrong."""
    own, wrong = encoding.label, rng.choice([each for each in LABELS if each != encoding.label])
    paragraphs = [
        each.encode(encoding.codec, "ignore").decode(encoding.codec)
        for each in _text(rng, encoding)
    ]
    original = _page(paragraphs, None).encode()
    plain, labelled = (_page(paragraphs, meta).encode(encoding.codec) for meta in (None, own))
    right = [(plain, own), (labelled, None), (labelled, own)]
    wanted, *signed = _signed([(original, "utf-8"), *right, (plain, wrong), (labelled, wrong)])
    found = [
        f"misread under header {label}"
        for (_, label), sketch in zip(right, signed, strict=False)
        if not np.array_equal(sketch, wanted)
    ]
    for page, one, other in ((plain, signed[0], signed[3]), (labelled, signed[2], signed[4])):
        alike = similarity(one[-SKETCH_WORDS:], other[-SKETCH_WORDS:]) / SIMILARITY_ONE
        if alike < THRESHOLD and len(re.findall(rb"[\x80-\xff]", page)) >= HIGH_BYTES_MIN:
            found.append(f"the same bytes are alike by {alike} only under header {wrong}")
    return found


def _signed(pages: list[tuple[bytes, str | None]]) -> list[npt.NDArray[np.uint64]]:
    """Return the keys and the sketch of each page, under its header's label."""
    messages = []
    for place, (page, label) in enumerate(pages):
        kind = f"text/html; charset={label}" if label else "text/html"
        body = base64.b64encode(page).decode()
        fields = {"url": "u", "body_base64": body, "content_type": kind}
        messages.append((place, None, msgspec.json.encode(fields)))
    batch = PageParser().parse_messages(0, len(messages), messages)
    assert len(batch) == len(pages), "a page is missing"
    signed = NativeSigner(SETTINGS, bytes(32)).sign(batch.bodies, batch.flags)
    return list(np.concatenate([signed.keys, signed.sketches], axis=1))
