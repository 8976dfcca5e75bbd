"""Captions as Wan tidies them (Wan-Video: wan/modules/tokenizers.py), by ftfy and Python's html; and the rules that they go by.

Writes wan_prompts.json beside itself, and src/tokenizers/mended_text.rules, which the program reads: characters, bytes and names,
as ftfy's tables and regular expressions and HTML's list have them, each version with rules of its own.
"""
import html
import html.entities
import json
import random
import re
from importlib.metadata import version
from pathlib import Path

import ftfy
from ftfy import badness, chardata

try:
    from re import _constants as sre, _parser as parser
except ImportError:  # before Python 3.11
    import sre_constants as sre
    import sre_parse as parser

HERE = Path(__file__).resolve().parent
RULES = HERE.parents[1] / "src/tokenizers/mended_text.rules"


def ranges_text(codes):
    """Code points as "41-5a,c0"."""
    codes, parts = sorted(codes), []
    for code in codes:
        if parts and parts[-1][1] == code - 1:
            parts[-1][1] = code
        else:
            parts.append([code, code])
    return ",".join(f"{a:x}" if a == b else f"{a:x}-{b:x}" for a, b in parts)


class Classes:
    """Sets of characters, each written once."""

    def __init__(self):
        self.names = {}

    def name(self, items):
        """A class of a parsed regular expression: !: all others; then its name, w and s for letters and white space apart."""
        negated, codes, more = "", set(), ""
        for kind, value in items:
            if kind is sre.NEGATE:
                negated = "!"
            elif kind is sre.LITERAL:
                codes.add(value)
            elif kind is sre.RANGE:
                codes.update(range(value[0], value[1] + 1))
            elif kind is sre.CATEGORY:
                more = {sre.CATEGORY_WORD: "w", sre.CATEGORY_SPACE: "s"}[value]
        if more:
            assert not codes and not negated
            return more
        text = ranges_text(codes)
        return negated + self.names.setdefault(text, f"c{len(self.names)}")


def sequences(pattern, flags, classes):
    """What a regular expression without loops matches: each way as a list of classes; ^ is the start, . any character but a line's end."""

    def of_item(kind, value):
        if kind is sre.LITERAL:
            return [[classes.name([(kind, value)])]]
        if kind is sre.IN:
            return [[classes.name(value)]]
        if kind is sre.ANY:
            return [["."]]
        if kind is sre.AT:
            return [["^"]]
        if kind is sre.MAX_REPEAT:
            least, most, inner = value
            return [of * count for count in range(most, least - 1, -1) for of in of_list(inner)]
        if kind is sre.SUBPATTERN:
            return of_list(value[3])
        if kind is sre.BRANCH:
            return [way for branch in value[1] for way in of_list(branch)]
        raise ValueError(f"a rule has {kind}, which nothing here reads")

    def of_list(items):
        ways = [[]]
        for kind, value in items:
            ways = [before + way for before in ways for way in of_item(kind, value)]
        return ways

    return of_list(parser.parse(pattern, flags))


def detector(classes):
    """The class that may not stand before, and the ways of one of the sequences, of which several stand in a row."""
    (look, (_, strict)), (repeat, (_, _, inner)) = parser.parse(chardata.UTF8_DETECTOR_RE.pattern, re.VERBOSE)
    assert look is sre.ASSERT_NOT and repeat is sre.MAX_REPEAT
    behind = classes.name(strict[0][1])
    (_, (_, _, _, branch)), = inner
    inside = sequences_of(branch, classes)
    return behind, inside


def sequences_of(parsed, classes):
    ways = []
    (kind, value), = parsed
    assert kind is sre.BRANCH
    for branch in value[1]:
        way = []
        for item, of in branch:
            if item is sre.IN:
                way.append(classes.name(of))
            else:
                least, most, inner = of
                assert item is sre.MAX_REPEAT and least == most
                way += [classes.name(inner[0][1])] * least
        ways.append(way)
    return ways


def encoding_line(name):
    sloppy = name.startswith("sloppy-")
    codes = [ord(bytes([byte]).decode(name)) for byte in range(0x80, 0x100)]
    return f"encoding {name} {'fffd' if sloppy else '1a'} {','.join(f'{code:x}' for code in codes)}"


def codes_text(text):
    return ",".join(f"{ord(c):x}" for c in text)


def write_rules():
    classes = Classes()
    lines = []
    for way in sequences(badness.BADNESS_RE.pattern, badness.BADNESS_RE.flags, classes):
        lines.append("bad " + " ".join(way))
    behind, ways = detector(classes)
    lines.append("behind " + behind)
    lines += ["sequence " + " ".join(way) for way in ways]
    for name, pattern in [("altered", chardata.ALTERED_UTF8_RE), ("lossy", chardata.LOSSY_UTF8_RE)]:
        lines += [f"{name} " + " ".join(way) for way in sequences(pattern.pattern.decode("latin-1"), 0, classes)]
    lines += [encoding_line(name) for name in chardata.CHARMAP_ENCODINGS]
    lines += [f"ligature {code:x} {codes_text(text)}" for code, text in chardata.LIGATURES.items()]
    lines += [f"html {name} {codes_text(char)}" for name, char in html.entities.html5.items()]
    known = {"&" + name for name in html.entities.html5}
    lines += [f"capital {name[1:]} {codes_text(char)}" for name, char in chardata.HTML_ENTITIES.items() if name not in known]
    from html import _invalid_charrefs, _invalid_codepoints
    lines += [f"reference {code:x} {codes_text(char)}" for code, char in _invalid_charrefs.items()]
    lines.append("unreferred " + ranges_text(_invalid_codepoints))
    table = [f"class {name} {text}" for text, name in classes.names.items()]
    head = [f"# What text is that was decoded wrongly, and what it was: rules of ftfy {version('ftfy')} (Copyright Robyn Speer, Apache License 2.0) and names of",
            "# HTML 5. tests/golden/make_wan_prompts.py writes this file; src/tokenizers/mended_text.cpp says what its lines mean."]
    RULES.write_text("\n".join(head + table + lines) + "\n")


def tidied(text):
    text = html.unescape(html.unescape(ftfy.fix_text(text))).strip()
    return re.sub(r"\s+", " ", text).strip()


WORDS = ["café au lait", "l’été à Paris", "naïve — “quoted” … text", "Größe: 5 €", "ｆｕｌｌ　ｗｉｄｔｈ", "Škoda žluťoučký kůň", "Привет, мир", "Ελληνικά κείμενα",
         "日本語の文", "😀 smile 🇫🇷", "ﬂuﬃest ĳsvogel", "à la mode", "100 °C ± 2", "İstanbul ğüşiöç", "ąčęėįšųūž", "„Zitat“ ‚so‘", "a\u0085b", "x\u0092s", "R&D AT&T", "œuvre ©®™"]
NAMED = ["Tom &amp;amp; Jerry", "&lt;b&gt; x", "a < b &amp; c", "&eacute;t&EACUTE;", "caf&eacute au lait", "&notit; &not it", "&hellip;&hellip", "this&not that", "&#233; &#xe9 &#x80; &#150; &#0; &#xD800; &#1114112;",
         "&#11;x &#xFFFE;", "&CounterClockwiseContourIntegral;", "&ampamp; &ltb&gt", "&copy2026 &reg", "&nbsp;&ensp;x", "&NotAName; &;& &#; &#x;", "&AMP;&LT;&Quot;&QUOT;", "BUNDESSTRA&SZLIG;E", "&acE;", "&frac12 &frac123", "&yuml;&YUML;"]


def broken(text, generator):
    """Text as it comes of programs that read UTF-8 as something else, once or twice."""
    for _ in range(generator.choice([1, 1, 1, 2])):
        encoding = generator.choice(["latin-1", "cp1252", *chardata.CHARMAP_ENCODINGS])
        data = text.encode()
        if generator.random() < 0.15:
            data = data.replace(b"\xa0", b" ")
        text = data.decode(encoding, errors="replace")
    return text


def cases():
    generator = random.Random(49)
    yield from WORDS
    yield from NAMED
    for word in WORDS:
        for encoding in ["latin-1", *chardata.CHARMAP_ENCODINGS]:
            yield word.encode().decode(encoding, errors="replace")
    for _ in range(400):
        parts = [generator.choice(WORDS + NAMED) for _ in range(generator.choice([1, 2, 3]))]
        parts = [broken(part, generator) if generator.random() < 0.5 else part for part in parts]
        yield generator.choice([" ", "\n", "\t", ", "]).join(parts)
    alphabet = "aZ éÃÂâ€™œ\u009d\u00a0ðŸ˜€ÐžÎ±&;#<\u0085\u2019\u02bc\ufb01\uff21\u0301\n"
    for _ in range(400):
        yield "".join(generator.choice(alphabet) for _ in range(generator.randint(1, 14)))


def main():
    write_rules()
    seen = dict.fromkeys(text for text in cases() if "\ud800" not in text)
    pairs = [[text, tidied(text)] for text in seen]
    (HERE / "wan_prompts.json").write_text(json.dumps({"ftfy": version("ftfy"), "prompts": pairs}, ensure_ascii=True, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
