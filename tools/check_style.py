#!/usr/bin/env python3
"""Laws of size and of headers, and the syntax of the scripts.

usage: check_style.py [ROOT]

- A C++ file has at most 800 lines, a function at most 100.
- A header starts with #pragma once; <torch/torch.h>, which takes 19 s to compile, is included nowhere.
- Every Python file parses.
"""
import re
import sys
from pathlib import Path

from check_rooms import INCLUDE, LEXEME, Problem, line_of

MAX_FILE_LINES = 800
MAX_FUNCTION_LINES = 100
SCOPE = re.compile(r"\b(namespace|class|struct|union|enum|extern)\b")
CODE_FOLDERS = ("src", "tests", "benchmarks", "examples")
SCRIPT_FOLDERS = ("tools", "tests", "benchmarks", "examples", "recipes")


def blanked(text):
    """The text with comments, literals and preprocessor lines blanked, so that every brace left is one of the code."""
    text = LEXEME.sub(lambda match: re.sub(r"[^\n]", " ", match.group(0)), text)
    return re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", lambda match: re.sub(r"[^\n]", " ", match.group(0)), text, flags=re.M)


def opens_function(head):
    """True when the brace after this text starts a function's body: a parameter list, and no initialiser around it."""
    head = head.strip()
    if head.endswith(("=", "(", ",")):
        return False
    return "(" in head and not SCOPE.search(head.split("(")[0])


def function_lengths(text):
    """[(first line, number of lines)] of the outermost functions."""
    text, lengths = blanked(text), []
    depth, function_depth, start, head_start = 0, None, 0, 0
    for match in re.finditer(r"[{};]", text):
        mark, position = match.group(0), match.start()
        if mark == "{":
            head = text[head_start:position]
            if function_depth is None and opens_function(head):
                function_depth, start = depth, head_start + len(head) - len(head.lstrip())
            depth += 1
        elif mark == "}":
            depth -= 1
            if depth == function_depth:
                first = line_of(text, start)
                lengths.append((first, line_of(text, position) - first + 1))
                function_depth = None
        head_start = position + 1
    return lengths


def check_code(where, text, is_header):
    problems, num_lines = [], text.count("\n")
    if num_lines > MAX_FILE_LINES:
        problems.append(Problem(where, f"{num_lines} lines; a file has at most {MAX_FILE_LINES}"))
    for line, length in function_lengths(text):
        if length > MAX_FUNCTION_LINES:
            problems.append(Problem(f"{where}:{line}", f"a function of {length} lines; it has at most {MAX_FUNCTION_LINES}"))
    for match in INCLUDE.finditer(text):
        if (match.group(1) or match.group(2)) == "torch/torch.h":
            problems.append(Problem(f"{where}:{line_of(text, match.start())}", "includes torch/torch.h; include single headers of ATen"))
    if is_header and not text.lstrip().startswith("#pragma once"):
        problems.append(Problem(where, "a header starts with #pragma once"))
    return problems


def check(root):
    problems = []
    for folder in CODE_FOLDERS:
        for path in sorted(root.glob(f"{folder}/**/*")):
            if path.suffix in (".h", ".cpp", ".cu", ".cuh"):
                problems += check_code(path.relative_to(root).as_posix(), path.read_text(), path.suffix == ".h")
    for folder in SCRIPT_FOLDERS:
        for path in sorted(root.glob(f"{folder}/**/*.py")):
            try:
                compile(path.read_text(), str(path), "exec")
            except SyntaxError as error:
                problems.append(Problem(f"{path.relative_to(root)}:{error.lineno}", error.msg))
    return problems


def main(arguments):
    root = Path(arguments[0]) if arguments else Path(__file__).resolve().parent.parent
    problems = check(root)
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
