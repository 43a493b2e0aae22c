"""Writes answers.json: what the tokenizers library matches for expressions and texts, and which expressions it refuses.

    python answers.py > answers.json
"""

import json
import random

from tokenizers import Regex, pre_tokenizers

CASES = r'''
a{1,2}+|aaaaa
(?:|a)*|aab
(?:|a)+|aab
(?:a|)*b|aab
(?i:'s)|'s'S'ſ
(?i:ss)|ß ẞ ss ſs
(?i:ß)|ss SS ß ẞ
(?i)[ß]+|ss SS ß
(?i)[ßs]+|ss ß
(?i)[ßs]|ss
(?i)[^ß]|ssß
(?i:ss+)|ß ßs sß ss
(?i:st)|ﬆ ﬅ st ST
(?i:ﬁ)|fi ﬁ FI
(?i:fi)|fi ﬁ FI
(?i:offıce|office)|oﬃce oﬀice OFﬁCE
(?i:straße)|STRASSE straße STRAẞE
(?i:[^k])|kKxK
(?i)k|kKK
(?i)[k]|kKK
(?i)[a-c]+|aBC
(?i)σ|ΣσςΣ
(?i)İ|iİıI i̇
(?i)i|iİıI
(?i)ΐ|ΐ ΐ
(?i:ǆ)|ǆǅǄ
(?i:ſ)|sSſ
(?i)\p{Lu}+|aA
(?i)[\p{Lu}]+|aA
(?i)É+|éÉe
(?i)ᲊ|Ᲊᲊ
.+|a∤b∥c
.+|a
^a|aa
a$|aa
\w+|aé_१‿⁀①Ⅷ²ªʰ  ́a⃣
\d+|12१२²①
\h+|afAF09g
[[:alpha:]]+|aé1ª
[[:^alpha:]]+|aé1ª
[[:punct:]]+|!$+<^`|~©«
\p{Punct}+|!$+<^`|~©«
\p{Graph}+|a b
\p{Blank}+| a b　c
\p{ASCII}+|aé
\p{Cn}|a͸
\p{LC}+|aAǅ1
[a-z&&[^b]]+|abc
[^a-z&&b]+|abc
[a-z&&[aeiou]&&[^e]]+|aei
[a&&]+|a
[^&&a]+|ab
[\p{^L}]+|a1
[^\p{^L}]+|a1
[[^a]b]+|abc
\p{^L}+|a1b
\P{L}+|a1b
\P{^L}+|a1b
\pL+|pLL a
\p{Greek}+|aαβ
\p{Han}+|a漢字
\p{Alphabetic}+|aª
\p{lowercase letter}+|abA
\p{Other_Letter}|漢
\p{Uppercase_Letter}|aB
\p{White_Space}|a b
\p{ Lu }|A
[\p{L}\p{M}]+|é1
\R|abc
(?<=a)b|ab b
(?<!a)b|ab b
(?<=a|bc)x|ax bcx cx
(?<!a|bc)x|ax bcx cx
(?<!a)(?<!b)c|ac bc cc
(?<!^)a|aa
\bab\b|ab abx
\Bb|ab b
\x{1F600}|😀
\u0041|A
\x41|A
\101|A
[\x41-\x43]+|ABC
\o{101}|A
a++a|aaa
a?+a|a
(?>a+)a|aaa
(?>a|ab)c|abc ac
(?:ab?+)b|ab abb
a+?|aaa
a{,3}|aaaa
a{2}|aaaa
a{2}?|aaaaa
a{2,3}?|aaaaa
a{2,}?|aaaaa
a{|a{
a{,}|a{,}
a{1,2,3}|a{1,2,3}
a**|aaa
a+*|aaa
(?:a*)*|aab
(?:a*?)*|aa
(?:a*?)+b|aab
(?:a?)*?b|aab
(?:a?){3}b|aab
(?:|a){2,5}|aaa
(?:a|b|)*c|abc
(?:a|b)*?c|abc
(?:(?=a)|b)*a|bba
(?:(?:a|)(?:b|))*c|ababc
(?:(?>a?)b?)*c|aabc
(a|ab)(c|bcd)(d*)|abcd
(?x) a b # c|ab
(?x)[ a]| a
a(?i)b|c|ab aB aC c C
(?:(?i)a)b|AbAB
(?i:a(?-i)b)|AbAB
(?i-m:a)|A
(?m:a.b)|a∤b
\Aa|aa
a\z|aa
a\Z|aa
\N+|a b
\O+|a b
[]a]|]a
[a-]+|a-
[-a]+|a-
[a\]b]+|a]b
[[a]b]+|a]b
[a-c-e]+|abc-ed
[\b]|a
(?#c)a|a
\e|e
(?!a|b)c|c
(?=ab)a|abac
a(?!b)|abac
(?:a(?=(?:b(?=c))))|abcab
\s+(?!\S)|\s+|a   b  
a\
b|a
\ |a  b
x*|axb
a|b||ab
x|y*|yxy
(?<n>a)b|ab
(?W:a)|a
\Q.\E|Q.E
\p{IsL}|a
[\w-.]+|a-.
[\d-a]+|a-1
[a-\d]+|a-1
[]|a
a|*|a*
(?=a)*b|ab
^*a|aa
(?P<n>a)|a
(?s:.+)|a
\p{sc=Greek}|a
(a|a
a)|a
[a|a
[z-a]|a
(?<=a*)x|aax
*a|a
[[:]]+|a:[:]:]
[[:]]+punct:]]+|:punct:]]
[[:a]b:]+|ab:c
[[:a:b]]+|ab:c]
[[:^]a]+|a^:
[[::]]+|a::]
[[::]abcdefghijk]+|abc:d
[[:^:]abcdefghijk]+|abc:d
[[:a:]]+|abc:d
[[:foo:]]+|foo
[[:]a-]+|:a-]
[[:alpha]+|a
[[:alpha:a]+|a:
(?:(?=[ab])(?:(?!(?i:a))|(?:a)++|(?:\p{L}){,3})){3,}|ccabab a 
(?:(?:[^a]{2,3}|(?:ab)++)){,2}(?:bccb.|(?:c|(?i:a)|abc)(?:é|(?i:a))abc[^a]|(?:b+?)*+)(?:(?=[^a])[^a]?){2}|b a∤ébbbab∤∤ba
(?:(?:(?i:bÉ))?+|[^\n]|(?:(?i:[a-b])){2}){,2}\p{L}(?>(?:(?i:[a-b]))?)|B bÉ é∤B漢-∤c
(?:a?+|.|bb){,2}c|abbc aac bbbc c
(?:a?+|.|bb){,2}?c|abbc aac bbbc c
(?:a*+|.|bb|cc){,2}c|abbc aac bbbc c
(?:a?+|.){3}c|abbc aac bbbc c
'''.strip("\n").split("\n")

# Expressions of published tokenizers; their texts are random.
PUBLISHED = [
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    r" ?[^(\s|[.,!?…。，、।۔،])]+", r"\s+", r" {2,}", r"\s{2,}|[\n\r\t]", r"[0-9][0-9][0-9]", r"[一-龥぀-ゟ゠-ヿ]+", r"\p{N}{1,3}(?=(?:\p{N}{3})*(?:\P{N}|$))", r"\d{3}(?=(?:\d{3})*\b)",
]
ATOMS = ["a", "b", "é", "'s", "1", " ", "\n", "\r\n", "  ", "A", "ß", "漢", "字", ".", "!", "'LL", "😀", "\u0301", "ǅ", "²", "ſ", "\t", "\u3000", "हि", "-", "123", "/", "_", "s", "\u200d", "Ⅷ", "ʰ", "\ue000", "\u0378"]


def find(expr, text):
    split = pre_tokenizers.Split(Regex(expr), "removed", invert=True)
    return [[len(text[:a].encode()), len(text[:b].encode())] for _, (a, b) in split.pre_tokenize_str(text)]


def random_expr(r, depth):
    k = r.random()
    if depth == 0 or k < 0.3:
        return r.choice(["a", "b", "c", "[ab]", "[^a]", ".", r"\w", r"\s", "ab", "[a-c&&[^b]]", r"\p{L}", "é", " "])
    if k < 0.5:
        return "".join(random_expr(r, depth - 1) for _ in range(r.randint(2, 3)))
    if k < 0.65:
        return "(?:" + "|".join(random_expr(r, depth - 1) for _ in range(r.randint(2, 3))) + ")"
    if k < 0.85:
        return "(?:" + random_expr(r, depth - 1) + ")" + r.choice(["*", "+", "?", "*?", "+?", "??", "*+", "++", "?+", "{2}", "{1,2}", "{,2}", "{1,}", "{1,2}?"])
    if k < 0.9:
        return "(?>" + random_expr(r, depth - 1) + ")"
    return r.choice(["(?=", "(?!"]) + random_expr(r, depth - 1) + ")" + r.choice(["", random_expr(r, depth - 1)])


def main():
    out = []

    def case(expr, text):
        try:
            out.append({"expr": expr, "text": text, "matches": find(expr, text)})
        except BaseException as e:
            out.append({"expr": expr, "text": text, "error": str(e)})

    for line in CASES:
        if "|" in line:
            expr, text = line.rsplit("|", 1)
            case(expr, text.replace("∤", "\n").replace("∥", "\r"))
            case(expr, text.replace("∤", "\n").replace("∥", "\r") + "\n" + text)
    r = random.Random(5)
    for expr in PUBLISHED:
        for _ in range(60):
            case(expr, "".join(r.choices(ATOMS, k=r.randint(1, 24))))
    for _ in range(1500):
        case(random_expr(r, 3), "".join(r.choices("aabbc é\n", k=r.randint(0, 14))))
    print("[\n" + ",\n".join(json.dumps(c, ensure_ascii=False) for c in out) + "\n]")


main()
