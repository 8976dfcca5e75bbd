#!/usr/bin/env python3
"""Every sentence that an error of the program says has a row in docs/errors.md.

usage: check_errors.py [ROOT]

A sentence is the text of config_error(...), data_error(...), Error(...) or problems.add(...) in src/. Of the pieces between its values one must stand in
the page: four words of it in a row, or the whole of a shorter piece. A call without two words in a row passes on what is made elsewhere.
"""
import re
import sys

from check_rooms import Problem, line_of, run

CALL = re.compile(r"\b(?:config_error|data_error|Error|problems\.add)\(")
LITERAL = re.compile(r'"((?:[^"\\]|\\.)*)"')
WORDS = 4


def call_text(text, start):
    """The source from `start`, behind a call's opening bracket, to the bracket that closes it."""
    depth, position = 1, start
    for match in re.finditer(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)\'|[()]', text[start:]):
        depth += {"(": 1, ")": -1}.get(match.group(0), 0)
        position = start + match.start()
        if depth == 0:
            break
    return text[start:position]


def sentences(text):
    """[(line, [texts])] of the errors in a source file; values are written {}, and a sentence that is chosen has several texts."""
    found = []
    for call in CALL.finditer(text):
        # Literals side by side are one.
        source = re.sub(r'"\s*\n?\s*"', "", call_text(text, call.end()))
        literals = [match.group(1).replace('\\"', '"') for match in LITERAL.finditer(source)]
        found.append((line_of(text, call.start()), [literal for literal in literals if " " in literal.strip()]))
    return found


def words_of(text):
    words = (word.strip("'") for word in re.findall(r"[\w./'\"*-]+", text))
    return [word for word in words if word]


def pieces(sentence):
    """Lists of words: what stands between the sentence's values and stops."""
    parts = (words_of(part) for part in re.split(r"\{[^}]*\}|[;:()]", sentence))
    return [words for words in parts if len(words) > 1]


def is_documented(texts, page):
    """True when a piece of one of the texts stands in the page, whose words are separated by single blanks; or when there is no piece."""
    found = [words for text in texts for words in pieces(text)]
    runs = [words[i:i + WORDS] for words in found for i in range(max(1, len(words) - WORDS + 1))]
    return not found or any(f" {' '.join(run)} " in page for run in runs)


def as_words(text):
    return f" {' '.join(words_of(text))} "


def check(root):
    page = as_words((root / "docs/errors.md").read_text())
    problems = []
    for path in sorted((root / "src").rglob("*")):
        if path.suffix not in (".cpp", ".h"):
            continue
        for line, texts in sentences(path.read_text()):
            if not is_documented(texts, page):
                problems.append(Problem(f"{path.relative_to(root)}:{line}", f"docs/errors.md has no row for \"{texts[0]}\""))
    return problems


if __name__ == "__main__":
    sys.exit(run(check, sys.argv[1:]))
