"""Random text with the shape of an article: a title and paragraphs of words.

Common words are drawn by rank (Zipf), and between them stand words of the document's own topic,
made of syllables; so tokens repeat from page to page, and sequences of five hardly ever do. All
weights are whole numbers and all draws come from one `random.Random`: the same seed gives the same
text on every machine.

A language's `common` words are real and stand in order of use, so that a draw by rank gives text with
the skew of natural text. `syllables` make the topic words, which keep unrelated pages apart.
`furniture` is what a site says on each of its pages: labels of the navigation, then sentences.
`charset` is what sites in this language used before UTF-8. Change a word and every crawl changes:
the digest in the tests must then change too.

Edits replace, insert, delete a share of the words, or move paragraphs. The places are a sample without replacement, so an edit of share p touches exactly round(p * words)
words. With w-token shingles an edited word spoils up to w of them: for single words replaced at
random, the expected resemblance is q / (2 - q), q = (1 - p)^w. The truth file has the exact value.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from itertools import accumulate
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    Edit = Callable[[Random, "Article", float], "Article"]


# ruff: noqa: E501, RUF001 - other scripts: wide characters count twice, look-alike letters are meant


@dataclass(frozen=True, slots=True)
class Language:
    """One language: its words, and how they are joined into sentences."""

    code: str
    charset: str
    joiner: str
    comma: str
    stop: str
    common: tuple[str, ...]
    syllables: tuple[str, ...]
    labels: tuple[str, ...]
    furniture: tuple[str, ...]


def _language(
    code: str, charset: str, common: str, syllables: str, *furniture: str, joiner: str = " "
) -> Language:
    """Make a language; the first of `furniture` holds the labels.

    One that is written without spaces has no `joiner`, and its syllables are characters.
    """
    return Language(
        code,
        charset,
        joiner,
        comma="," if joiner else "、" if code == "ja" else "\uff0c",
        stop="." if joiner else "。",
        common=tuple(common.split()),
        syllables=tuple(syllables.split() if joiner else syllables),
        labels=tuple(furniture[0].split("|")),
        furniture=furniture[1:],
    )


ENGLISH = _language(
    "en",
    "windows-1252",
    """the of and to in a is that for it was on with as be by at this are from or have an they which
    one you had not but what all were when we there can said their if will each about how up out them
    then many some so would other into has more two like him see time could no make than first been
    its who now people my made over did down only way find use may water long little very after words
    called just where most know year years day new work part place take little live back give same
    under name good through form three small set put end does another well large must big even such
    because turn here why asked men change light kind need house world below between never city last
    tree cross since hard start might story far sea draw left late run while press close night real
    life few stop open seem together next white children begin country plant school father keep""",
    """ba con der el fan gor hin ist jol ker lan mor nel op par quin ros sul ter ven wick yar zen al
    bri cla dun fer gal hol mar ton""",
    "Home|News|Products|About us|Contact|Support|Archive|Search",
    "We use cookies to give you the best experience on our site and to count visits",
    "By continuing to browse you accept the terms of use and our privacy policy",
    "All rights reserved, no part of this page may be reproduced without written permission",
    "Subscribe to our newsletter and receive the latest articles every week by mail",
    "Share this page with your friends, print it or save it to your reading list",
)

GERMAN = _language(
    "de",
    "iso-8859-1",
    """der die und in den von zu das mit sich des auf für ist im dem nicht ein eine als auch es an
    werden aus er hat dass sie nach wird bei einer um am sind noch wie einem über einen so zum war
    haben nur oder aber vor zur bis mehr durch man sein wurde wenn ihre seine mehr schon kann gegen
    vom können dann unter wir soll ich eines jahr zwei jahren diese dieser wieder keine uhr seiner
    worden will zwischen immer was sagte gibt alle seit muss doch jetzt waren drei jahre neue damit
    bereits da ihr seinen müssen ab ihrer ohne sondern selbst ersten nun etwa heute ihren weil ihm
    menschen deutschen anderen rund ihn ende jedoch zeit ins wenig sehr hier ganz große stadt tag
    sagt frage kommen land leben weg haus hand teil welt arbeit wasser kinder schule größer schön""",
    """ber gen hal kirch lin mau nord ost rei sta tal ufer wald ach bach dorf eck feld graf heim jung
    klo lau mühl neu ober pfal quell roth schön thal weil""",
    "Startseite|Aktuelles|Produkte|Über uns|Kontakt|Hilfe|Archiv|Suche",
    "Wir verwenden Cookies, damit unsere Seiten besser für Sie werden und um Besuche zu zählen",
    "Wenn Sie weiterlesen, stimmen Sie den Nutzungsbedingungen und der Datenschutzerklärung zu",
    "Alle Rechte vorbehalten, Nachdruck auch in Auszügen nur mit schriftlicher Genehmigung",
    "Abonnieren Sie unseren Rundbrief und lesen Sie jede Woche die neuesten Beiträge",
    "Diese Seite drucken, weiterempfehlen oder auf die eigene Merkliste setzen",
)

FRENCH = _language(
    "fr",
    "iso-8859-1",
    """de la le et les des en un du une que est pour qui dans a par plus pas au sur ne se ce il sont
    avec ou son aux mais comme cette on ses tout nous sa deux fait elle été aussi leur bien peut
    ces très sans même autres entre encore temps toujours alors après avant ans où faire était
    depuis contre être moins jour trois dont premier vie quelque donc monde sous vers année peu
    chez quand rien homme pays fois grande petit ainsi part place nouveau déjà beaucoup avoir
    point ville femme enfants jamais chaque cas travail pendant eau jours main chose selon mieux
    toute première mort loin tard près état parler dire voir savoir aller venir prendre maison
    nuit terre mer fin cours gens école route histoire""",
    """bel cha dou eau fon gri hau ju lan mont nav our pré ran ser tour ver vil zé bro cre dé fleu
    gau har lou mar pui ro sau val yon""",
    "Accueil|Actualités|Produits|À propos|Contact|Aide|Archives|Recherche",
    "Nous utilisons des cookies afin de vous offrir la meilleure visite et de compter les lectures",
    "En poursuivant votre lecture vous acceptez les conditions et notre politique de données",
    "Tous droits réservés, toute reproduction même partielle est interdite sans accord écrit",
    "Abonnez-vous à notre lettre et recevez chaque semaine les derniers articles parus",
    "Partagez cette page avec vos amis, imprimez-la ou gardez-la pour plus tard",
)

SPANISH = _language(
    "es",
    "iso-8859-1",
    """de la que el en y a los se del las un por con no una su para es al lo como más o pero sus le
    ha me si sin sobre este ya entre cuando todo esta ser son dos también fue había era muy años
    hasta desde está mi porque qué sólo han yo hay vez puede todos así nos ni parte tiene él uno
    donde bien tiempo mismo ese ahora cada vida otro después otros aunque esa eso hace otra
    gobierno tan durante siempre día tanto ella tres sí dijo sido gran país según menos mundo año
    antes estado contra sino forma caso nada hacer general estaba poco estos agua mayor ante
    algunos casa noche ciudad mano hombre tierra mujer pueblo mesa camino escuela historia
    lugar nuevo grande pequeño niños""",
    """al ber cas do es flor gar her is ju lo mon nar ol pe que rí sal tor ul vi za ce fuen guá mar
    pla riñ san tel ven yer""",
    "Inicio|Noticias|Productos|Quiénes somos|Contacto|Ayuda|Archivo|Buscar",
    "Usamos cookies para que la visita a nuestro sitio sea mejor y para contar las lecturas",
    "Si sigue leyendo acepta las condiciones de uso y nuestra política de privacidad",
    "Todos los derechos reservados, prohibida la reproducción sin permiso por escrito",
    "Reciba nuestro boletín cada semana con los artículos más recientes en su correo",
    "Comparta esta página con sus amigos, imprima el texto o guárdelo para después",
)

RUSSIAN = _language(
    "ru",
    "windows-1251",
    """и в не на я быть он с что а по это она этот к но они мы весь который из у то за свой весь
    год от так о для ты же все тот мочь вы человек такой его сказать только или ещё бы себя один
    как уже до время если сам когда другой вот говорить наш мой знать стать при чтобы дело жизнь
    кто первый очень два день её новый рука даже во со раз где там под можно ну какой после их
    работа без самый потом надо хотеть ли слово идти большой должен место иметь ничто сейчас тут
    лицо каждый друг нет теперь ни глаз тоже тогда видеть вопрос через да здесь дом да потому
    сторона какой-то думать сделать страна жить чем мир об последний случай голова более делать
    что-то смотреть ребёнок просто конечно сила российский конец перед несколько вид система""",
    """бор вол го дер ель жу зар ин кам лес мор нов ог пол реч сол тур ух фед хол цар чер шум яр бел
    вет гор дуб зем кры луг мир""",
    "Главная|Новости|Товары|О нас|Контакты|Помощь|Архив|Поиск",
    "Мы используем файлы cookie, чтобы сайт работал лучше, и чтобы считать посещения",
    "Продолжая чтение, вы принимаете условия использования и правила хранения данных",
    "Все права защищены, перепечатка любых материалов только с письменного разрешения",
    "Подпишитесь на нашу рассылку и получайте новые статьи каждую неделю на почту",
    "Поделитесь страницей с друзьями, распечатайте её или сохраните на потом",
)

CHINESE = _language(
    "zh",
    "gb18030",
    """的 了 在 是 我 有 和 就 不 人 都 一个 上 也 很 到 说 要 去 你 会 着 没有 看 好 自己 这 我们 他们 时候
    可以 什么 因为 所以 但是 如果 还是 已经 现在 知道 问题 工作 生活 中国 世界 国家 社会 经济 发展 学生 学校
    老师 朋友 时间 今天 明天 昨天 今年 城市 地方 孩子 先生 事情 东西 开始 觉得 认为 希望 需要 应该 可能 一定
    非常 比较 特别 一起 一直 以后 以前 之间 其中 通过 进行 使用 方法 情况 关系 方面 技术 研究 系统 信息 市场
    公司 产品 服务 管理 历史 文化 教育 科学 自然 环境 能力 水平 结果 过程 内容 作用 影响 条件 部分 主要 重要""",
    "春夏秋冬山水风雨花草木石金银铜铁江河湖海南北东西安宁长永平清白青红黄林松竹梅兰云月星天龙虎马牛羊鱼鸟丰收仁义礼智信德福禄寿康",
    "首页|新闻|产品|关于我们|联系方式|帮助|存档|搜索",
    "本网站使用小型文本文件来改善您的浏览体验并统计访问次数",
    "继续浏览即表示您同意本站的使用条款和隐私政策",
    "版权所有未经书面许可不得转载本站任何内容",
    "订阅我们的每周通讯即可通过邮件收到最新文章",
    "与朋友分享本页或者打印保存到阅读清单",
    joiner="",
)

JAPANESE = _language(
    "ja",
    "shift_jis",
    """の に は を た が で て と し れ さ ある いる も する から な こと として い や れる など なっ ない この ため
    その あっ よう また もの という あり まで られ なる へ か だ これ によって により おり より による ず なり
    られる において ば なかっ なく しかし について せ だっ その後 できる それ う ので なお のみ でき き つ における
    および いう さらに でも ら たり その他 に関する たち ます ん なら に対して 特に せる 及び これら とき では にて
    ほか ながら うち そして とともに ただし かつて それぞれ または お ほど ものの に対する ほとんど と共に 時間 人間
    世界 日本 会社 学校 問題 社会 生活 仕事 言葉 今日 場所 情報 研究 技術 歴史 文化 自然 経済 教育""",
    "春夏秋冬山川海空森林花鳥風月石田村町松竹梅桜東西南北高島原野谷池橋港城寺宮神光影音色米茶魚馬牛犬朝昼夜星雲雪雨アイカキサシタナハマヤラ",
    "ホーム|ニュース|製品|会社概要|お問い合わせ|ヘルプ|過去の記事|検索",
    "当サイトでは利便性の向上と訪問数の集計のためにクッキーを使用しています",
    "閲覧を続ける場合は利用規約と個人情報の取り扱いに同意したものとみなします",
    "本サイトの文章の無断転載を禁じます転載には書面による許可が必要です",
    "毎週のお知らせに登録すると新しい記事をメールで受け取れます",
    "このページを友人に紹介するか印刷して後でお読みください",
    joiner="",
)

LANGUAGES = (ENGLISH, GERMAN, FRENCH, SPANISH, RUSSIAN, CHINESE, JAPANESE)


TOPIC_WORDS = 48
TOPIC_TENTHS = 4  # of ten words, this many belong to the topic
ZIPF_SCALE = 1_000_000

Paragraph = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Article:
    """What a page tells: words with their punctuation, `language.joiner` between them."""

    language: Language
    title: str
    topic: tuple[str, ...]
    paragraphs: tuple[Paragraph, ...]

    def words(self) -> int:
        """Return the number of words in the paragraphs."""
        return sum(map(len, self.paragraphs))


@cache
def _zipf(count: int) -> tuple[int, ...]:
    """Return cumulative weights by rank; whole numbers, so that no machine rounds differently."""
    return tuple(accumulate(ZIPF_SCALE // (rank + 2) for rank in range(count)))


def draw_words(rng: Random, language: Language, topic: tuple[str, ...], count: int) -> list[str]:
    """Draw `count` words without punctuation."""
    common = language.common
    words = rng.choices(common, cum_weights=_zipf(len(common)), k=count)
    for place in range(count):
        if rng.random() * 10 < TOPIC_TENTHS:
            words[place] = topic[int(rng.random() * len(topic))]
    return words


def draw_topic(rng: Random, language: Language) -> tuple[str, ...]:
    """Make the topic words of one document: two to four syllables each."""
    return tuple(
        "".join(rng.choices(language.syllables, k=2 + int(rng.random() * 3)))
        for _ in range(TOPIC_WORDS)
    )


def _paragraph(rng: Random, language: Language, topic: tuple[str, ...], count: int) -> Paragraph:
    """Draw a paragraph of `count` words in sentences of 6 to 21 words."""
    words = draw_words(rng, language, topic, count)
    start = 0
    while start < count:
        end = min(count, start + 6 + int(rng.random() * 16))
        words[start] = words[start][:1].upper() + words[start][1:]
        middle = (start + end) // 2
        if middle > start:
            words[middle] += language.comma
        words[end - 1] = words[end - 1].removesuffix(language.comma) + language.stop
        start = end
    return tuple(words)


def write_article(rng: Random, language: Language, words: int) -> Article:
    """Write an article of about `words` words in paragraphs of 30 to 109 words."""
    topic = draw_topic(rng, language)
    title = language.joiner.join(draw_words(rng, language, topic, 6))
    paragraphs = []
    while words > 0:
        count = min(words, 30 + int(rng.random() * 80))
        paragraphs.append(_paragraph(rng, language, topic, count))
        words -= count
    return Article(language, title[:1].upper() + title[1:], topic, tuple(paragraphs))


def _places(rng: Random, article: Article, share: float) -> set[tuple[int, int]]:
    """Choose (paragraph, word) places to edit."""
    everywhere = [(p, w) for p, words in enumerate(article.paragraphs) for w in range(len(words))]
    return set(rng.sample(everywhere, round(share * len(everywhere))))


def replace_words(rng: Random, article: Article, share: float) -> Article:
    """Put another word in the place of `share` of the words."""
    chosen = _places(rng, article, share)
    fresh = iter(draw_words(rng, article.language, article.topic, len(chosen)))
    paragraphs = tuple(
        tuple(next(fresh) if (p, w) in chosen else word for w, word in enumerate(words))
        for p, words in enumerate(article.paragraphs)
    )
    return replace(article, paragraphs=paragraphs)


def insert_words(rng: Random, article: Article, share: float) -> Article:
    """Put a new word before `share` of the words."""
    chosen = _places(rng, article, share)
    fresh = iter(draw_words(rng, article.language, article.topic, len(chosen)))
    paragraphs = []
    for p, words in enumerate(article.paragraphs):
        longer: list[str] = []
        for w, word in enumerate(words):
            if (p, w) in chosen:
                longer.append(next(fresh))
            longer.append(word)
        paragraphs.append(tuple(longer))
    return replace(article, paragraphs=tuple(paragraphs))


def delete_words(rng: Random, article: Article, share: float) -> Article:
    """Take `share` of the words away."""
    chosen = _places(rng, article, share)
    paragraphs = tuple(
        tuple(word for w, word in enumerate(words) if (p, w) not in chosen)
        for p, words in enumerate(article.paragraphs)
    )
    return replace(article, paragraphs=paragraphs)


def move_paragraphs(rng: Random, article: Article, share: float) -> Article:
    """Take `share` of the paragraphs, at least one, out and put each back at a random place."""
    stay = list(article.paragraphs)
    count = max(1, round(share * len(stay)))
    moved = [stay.pop(int(rng.random() * len(stay))) for _ in range(count)]
    for paragraph in moved:
        stay.insert(int(rng.random() * (len(stay) + 1)), paragraph)
    return replace(article, paragraphs=tuple(stay))
