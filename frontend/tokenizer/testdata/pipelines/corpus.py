"""Text of many scripts, made from a seed: what vocabularies are trained on, and lines that are hard to tokenize."""

import random
import unicodedata

# Syllables of a script are (consonant) (vowel) (coda); words are one to four syllables.
SCRIPTS = {
    "latin": ("b c d f g h j k l m n p r s t v w z st tr pl gr ch sh th br cl".split(), "a e i o u ea ou io ai ee y".split(), ["", "", "n", "r", "s", "t", "l", "m", "ng", "st", "ck"]),
    "accents": ("b c d f g h l m n p r s t v z ç ñ š ž".split(), "á é í ó ú à è ì ò ù â ê î ô û ä ë ï ö ü ã õ å æ ø a e i o u".split(), ["", "", "n", "r", "s", "ß", "l"]),
    "cyrillic": (list("бвгджзклмнпрстфхцчшщ"), list("аеёиоуыэюя"), ["", "", "й", "н", "т", "ь", "сть", "л", "р"]),
    "greek": (list("βγδζθκλμνξπρστφχψ"), "α ε η ι ο υ ω ά έ ή ί ό ύ ώ ου ει αι".split(), ["", "", "ς", "ν"]),
    "arabic": (list("بتثجحخدذرزسشصضطظعغفقكلمنهوي"), ["", "ا", "ي", "و", "َ", "ِ"], ["", "", "ة", "ن", "ّ"]),
    "hebrew": (list("אבגדהוזחטיכלמנסעפצקרשת"), ["", "ו", "י", "ָ"], ["", "", "ם", "ן", "ה"]),
    "devanagari": (list("कखगघचछजझटठडढणतथदधनपफबभमयरलवशषसह"), ["", "ा", "ि", "ी", "ु", "ू", "े", "ै", "ो", "ौ"], ["", "", "ं", "्य", "्र"]),
    "tamil": (list("கசடதபறஙஞணநமனயரலவழள"), ["", "ா", "ி", "ீ", "ு", "ே", "ொ"], ["", "", "்"]),
    "thai": (list("กขคงจชซดตถทนบปผพฟมยรลวสหอ"), ["ะ", "า", "ิ", "ี", "ุ", "ู", "ั", "ื"], ["", "", "น", "ง", "่", "้"]),
    "hangul": (list("가나다라마바사아자차카타파하거너더러머버서어저처커터퍼허고노도로모보소오조초코토포호"), [""], ["", "은", "는", "을", "이", "한", "국", "말"]),
    "kana": (list("かきくけこさしすせそたちつてとなにぬねのはひふへほまみむめもやゆよらりるれろわカキクケコサシスセソタチツテト"), [""], ["", "ん", "ー", "っ"]),
    "armenian": (list("բգդզթժլխծկհձղճմնշչպջռսվտրցփք"), list("աեէըիոօ"), ["", "", "ն", "ր"]),
    "georgian": (list("ბგდვზთკლმნპჟრსტფქღყშჩცძწჭხჯჰ"), list("აეიოუ"), ["", "", "ს", "ნ"]),
    "ethiopic": (list("ሀሁሂለሉሊመሙሚረሩሪሰሱሲበቡቢተቱቲነኑኒ"), [""], ["", "ን", "ት"]),
}
HAN = [chr(c) for c in range(0x4E00, 0x4E00 + 2500)]
PLAIN = """the of and to in a is that for it as was with be by on not he i this are or his from at which but have an had they you were their one all we can her has there been if more when will would who so no what out up about into than them time could these some like only other new two may then do first any my now such our man me even most made after also did many must before back through years where much your way well down should because each just those people mr how too little state good very make world still own see men work long get here between both life being under never day same another know while last might us great old year off come since against go came right used take three computer language model token value function return string import class result""".split()
CONTRACTED = "I'm you're he'd we'll they've isn't don't it's I'M YOU'RE HE'D WE'LL THEY'VE IT'S it’s don’t 'tis rock'n'roll O'Brien's".split()


class Text:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.words = {name: self.lexicon(*parts) for name, parts in SCRIPTS.items()}
        self.words["han"] = ["".join(self.random.choices(HAN, k=self.random.choice([1, 2, 2, 2, 3, 4]))) for _ in range(6000)]
        self.words["plain"] = PLAIN
        self.names = list(SCRIPTS) + ["han"]

    def lexicon(self, onsets, vowels, codas):
        r, words = self.random, set()
        while len(words) < 5000:
            words.add("".join(r.choice(onsets) + r.choice(vowels) + r.choice(codas) for _ in range(r.choice([1, 2, 2, 3, 3, 4]))))
        return sorted(words)

    def word(self, name):
        words = self.words[name]
        return words[min(int(self.random.expovariate(6.0 / len(words))), len(words) - 1)]

    def sentence(self, name, length):
        r, out = self.random, []
        for _ in range(length):
            kind = r.random()
            if kind < 0.03:
                out.append(str(r.randrange(10 ** r.randint(1, 7))))
            elif kind < 0.06 and name == "latin":
                out.append(r.choice(CONTRACTED))
            elif kind < 0.4 and name == "latin":
                out.append(r.choice(PLAIN))
            else:
                out.append(self.word(name))
            if r.random() < 0.08:
                out[-1] = out[-1].title() if r.random() < 0.7 else out[-1].upper()
            if r.random() < 0.1:
                out[-1] += r.choice([",", ".", ";", ":", "!", "?", "...", ")", "\"", "。", "、", "،", "।"])
        return ("" if name in ("han", "kana", "thai") and r.random() < 0.6 else " ").join(out)

    def code(self):
        r = self.random
        a, b = self.word("latin"), self.word("latin")
        return r.choice([
            f"def {a}_{b}(self, x={r.randrange(1000)}):\n\treturn self.{a}[x] ** {r.random():.4f}  # {b}\n",
            f"for (int {a} = 0; {a} < {r.randrange(99)}; ++{a}) {{ {b}->{a}({a}, \"%d\\n\"); }}",
            f"https://www.{a}.com/{b}?q={r.randrange(10**6)}&lang=en#{a}",
            f"    if err != nil {{\r\n        return nil, fmt.Errorf(\"{a}: %w\", err)\r\n    }}\r\n",
            f"{a}@{b}.org wrote: <b>{b}</b> && $x = ['{a}' => {r.randrange(100)}];",
            f"{r.randrange(1, 13):02d}/{r.randrange(1, 29):02d}/2024 {r.randrange(24):02d}:{r.randrange(60):02d} £{r.randrange(10**5)/100:,.2f} ±{r.random():.3e}",
        ])

    def training(self, lines):
        for i in range(lines):
            k = self.random.random()
            if k < 0.06:
                yield self.code()
            else:
                yield self.sentence("latin" if k < 0.4 else self.random.choice(self.names), self.random.randint(4, 24))


EMOJI = ["😀", "👍🏽", "👩‍👩‍👧‍👦", "🏳️‍🌈", "🇩🇪", "🇯🇵🇺🇸", "1️⃣", "#️⃣", "❤️", "❤", "🧑🏿‍🚀", "👨🏻‍❤️‍💋‍👨🏼", "🫠", "🏴󠁧󠁢󠁥󠁮󠁧󠁿", "☺︎", "🤷🏾‍♀️", "🪿", "🇦"]
CONTROLS = [chr(c) for c in list(range(0x20)) + list(range(0x7F, 0xA1))] + list("\xad\u200b\u200c\u200d\u200e\u200f\u2028\u2029\u202a\u202e\u2060\ufeff\u061c\u180e\u3000\u2007\u202f\u1680\u2009\u205f\ufff9\ufffb\ufffd\ufffe\U000e0001")
ODD = list("İıſßẞK℀Å℃ŁǅǆﬁﬃﬆﷺﷲŉΐΰΣςσⅣⅷ①⓪㍿㎒½¾²₃ªº™…‥ⓐＡｂ１！　ｶﾞﾊﾟ㋿㍻힣각각각꙰ݐ𝒜𝟙𝕳𐐀𐐨ꭰᏸᾳᾼŸÿ˚ʼ’‘“”«»‐–—―−~～〜•·°§¶†₿€¥￥〇々〆ヶ々ꓘৎ്ഽਂ૱௹ේ་༼ကៗ᠐ᜀ")
MARKS = [chr(c) for c in range(0x300, 0x370)] + list("़゙゚्ٌٍَُِّْٰ่้๊҃҄⃣⃝︠︡︎️ִּ𝅥")


def hard_lines(text, count, literals):
    """Lines of all kinds, in an order that a prefix of them has all kinds too. A line is bytes; 1 of 20 is not UTF-8."""
    r = text.random
    mixed = lambda n: [text.sentence(r.choice(text.names), r.randint(1, 4)) for _ in range(n)]

    def random_points(n):
        out = []
        while len(out) < n:
            c = r.choice([r.randrange(0x80), r.randrange(0x800), r.randrange(0x10000), r.randrange(0x20000), r.randrange(0x110000)])
            if not 0xD800 <= c < 0xE000:
                out.append(chr(c))
        return "".join(out)

    def assigned(n):
        out = []
        while len(out) < n:
            c = chr(r.choice([r.randrange(0x500), r.randrange(0x3000), r.randrange(0x20000)]))
            if unicodedata.category(c) not in ("Cn", "Cs", "Co"):
                out.append(c)
        return "".join(out)

    def sprinkled(pieces, n, join):
        words = mixed(n)
        for _ in range(r.randint(1, 5)):
            words.insert(r.randint(0, len(words)), "".join(r.choices(pieces, k=r.randint(1, 3))))
        return join.join(words)

    def marks():
        out = []
        for c in " ".join(mixed(2)):
            out.append(c)
            if r.random() < 0.2:
                out.extend(r.choices(MARKS, k=r.choice([1, 1, 2, 3, 12])))
        return "".join(out)

    def run():
        c = r.choice(["a", " ", "  x", "9", "!", "é", "語", "한", "😀", "\t", "\n", "_", "=-", "ab", "\u0301", "z\u200d", "Ⅷ", "' ", "'s", ".", " \n", "\r\n", "▁", "Ġ"])
        return r.choice(["", "x ", " "]) + c * r.choice([2, 5, 17, 60, 200, r.randrange(1, 700)]) + r.choice(["", " y", "z"])

    def long_word():
        return "".join(r.choice(PLAIN + text.words["latin"][:50]) for _ in range(r.randrange(5, 60)))

    def spaced():
        return "".join(w + r.choice([" ", "  ", "   ", "\t", "\n", "\n\n", " \n ", "\u00a0", "\u3000", "\r\n", " ▁", "\u2028"]) for w in mixed(r.randint(2, 6)))

    def literal():
        words = mixed(3)
        for _ in range(r.randint(1, 4)):
            l = r.choice(literals)
            if r.random() < 0.2:
                l = r.choice([l[:-1], l[1:], l.upper(), l.lower(), l + l, l[:-1] + " " + l[-1:]])
            words.insert(r.randint(0, len(words)), l)
        return r.choice([" ", "", "  ", "x", "\n"]).join(words)

    def cases():
        s = text.sentence(r.choice(["latin", "accents", "greek", "cyrillic", "armenian", "georgian"]), r.randint(2, 6))
        return r.choice([str.upper, str.title, str.swapcase, lambda s: unicodedata.normalize("NFD", s), lambda s: unicodedata.normalize("NFKD", s)])(s)

    kinds = [
        lambda: text.sentence("latin", r.randint(3, 25)), lambda: text.sentence("latin", r.randint(3, 25)),
        lambda: text.sentence(r.choice(text.names), r.randint(2, 14)), lambda: " ".join(mixed(4)), lambda: "".join(mixed(3)),
        text.code, lambda: sprinkled(EMOJI, 3, r.choice([" ", ""])), lambda: sprinkled(CONTROLS, 3, r.choice([" ", ""])),
        lambda: sprinkled(ODD, 3, r.choice([" ", ""])), marks, run, long_word, spaced, literal, cases,
        lambda: random_points(r.randint(1, 30)), lambda: assigned(r.randint(1, 40)), lambda: r.choice(["", " ", "  ", "\n", "\t", "a", "▁", "'", "\u0301", "👍", "\ufeff", "\x00"]),
    ]
    for i in range(count):
        line = kinds[i % len(kinds)]().encode()
        if i % 20 == 19:
            line = bytearray(line)
            for _ in range(r.randint(1, 4)):
                at = r.randint(0, len(line))
                if r.random() < 0.5:
                    line[at:at] = bytes(r.choices([0x80, 0xBF, 0xC0, 0xC3, 0xE2, 0xED, 0xF0, 0xF5, 0xFF, 0xA0], k=r.randint(1, 3)))
                else:
                    del line[at:at + 1]
            line = bytes(line)
        yield line
