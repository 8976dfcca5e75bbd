#!/usr/bin/env python3
"""Laws of size and of headers, and the syntax of the scripts.

usage: check_style.py [ROOT]

- A C++ file has at most 800 lines, a function at most 60. Longer functions are listed in tools/function_exceptions.txt, by the length of
  each in a file, and that list can only shrink.
- A class has at most 22 member functions and, if it has any, at most 10 data members; without functions it is a list of values, such as
  options. Members of bases that are no interfaces (neither have nor inherit a virtual function) count as its own. Constants and defaulted or
  deleted functions do not count, nor do the members of a class inside it. Larger ones are listed in tools/class_exceptions.txt
  with what they may have, and the list can only shrink: it grants no more than a class has.
- A header starts with #pragma once.
- A header of a library that takes long to compile is included by the few that need it (DEAR).
- Every Python file parses.
- A line of a Markdown file has at most 140 columns, but in tables and in blocks of commands and output.
- Every decision has a row in docs/decisions/README.md, which says where it is replaced.
"""
import os
import re
import sys
from dataclasses import dataclass

from check_rooms import INCLUDE, LEXEME, Problem, line_of, run

MAX_FILE_LINES = 800
MAX_FUNCTION_LINES = 60
MAX_FIELDS = 10
MAX_METHODS = 22
EXCEPTIONS = "tools/class_exceptions.txt"
LONG_FUNCTIONS = "tools/function_exceptions.txt"
MAX_PIPELINE_BYTES = 1_500_000
MAX_COLUMNS = 140
DECISION_ROW = re.compile(r"^\| \[\d{4}\]\(([^)]+)\) \| (.*) \|$", re.M)
SCOPE = re.compile(r"\b(namespace|class|struct|union|enum|extern)\b")
CODE_FOLDERS = ("src", "tests", "benchmarks", "examples")
PAGE_FOLDERS = ("src", "docs", "tests", "benchmarks", "examples", "recipes", "packaging", "assets")
SCRIPT_FOLDERS = ("src", "tools", "tests", "benchmarks", "examples", "recipes")


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


SAYS = "src/base/say.h"
# Headers that take seconds to compile: how the paths begin that may include them, and what the others do instead.
WITH_GRADIENTS = ("src/kernels/", "src/nn/", "src/memory/", "src/quant/", "src/models/families/wan/blocks.cpp", "src/train/step/", "tests/", "benchmarks/")
LOGGERS = ("src/base/", "src/app/together.cpp", "src/train/plan/memory_planner.cpp", "tests/")
SINGLE = "include single operators (<ATen/ops/linear.h>)"
DEAR = {
    "torch/torch.h": ((), SINGLE),
    "ATen/ATen.h": (("tests/", "benchmarks/"), SINGLE),
    "ATen/Functions.h": (("tests/", "benchmarks/"), SINGLE),
    "torch/csrc/autograd/custom_function.h": (WITH_GRADIENTS, "gradients are written in kernels, nn and memory"),
    "torch/csrc/autograd/autograd.h": (WITH_GRADIENTS, "gradients are written in kernels, nn and memory"),
    "spdlog/spdlog.h": (LOGGERS, "base/log.h has info and warn"),
    "toml++/toml.h": (("src/config/", "src/foreign/"), "config/settings.h reads TOML"),
    "CLI/CLI.hpp": (("src/config/",), "rows of config make flags"),
    "httplib.h": (("src/report/", "src/studio/", "tests/"), "report and studio serve"),
}
PRINTS = re.compile(r"\bfmt::(?:print|println)\b|\bstd::(?:cout|cerr|clog)\b|\bstd::f?printf\b|\bstd::f?puts\b")
CLASS = re.compile(r"(?<!enum )\b(?:class|struct|union)\s+([A-Za-z_][\w:]*)\s*(?:<[^{};]*>)?\s*(?:final\s*)?(?P<bases>:[^{};]*)?\{")
PARENTHESES, BRACES = "\x01", "\x02"  # stand for what was between them
NO_MEMBER = re.compile(r"(?:using|typedef|friend|static_assert|enum|class|struct|union)\b|static constexpr\b|constexpr static\b|static const\b[^\x01]*$")


def replaced_inside_out(pattern, mark, text):
    """The text with every match replaced, again and again, until none is left: nested ones go from the inside out."""
    while True:
        text, count = re.subn(pattern, mark, text)
        if not count:
            return text


def body_from(text, start):
    """The text between the brace before `start` and the one that closes it."""
    depth = 1
    for match in re.finditer(r"[{}]", text[start:]):
        depth += 1 if match.group(0) == "{" else -1
        if depth == 0:
            return text[start:start + match.start()]
    return text[start:]


def declarations(body):
    """What a class body declares, one string each, with parameter lists, function bodies and initialisers as marks."""
    body = replaced_inside_out(r"\([^()]*\)", PARENTHESES, body)
    body = replaced_inside_out(r"\{[^{}]*\}", BRACES, body)
    body = re.sub(r"\b(?:public|protected|private)\s*:", "", body)
    for statement in body.split(";"):
        statement = statement.strip()
        while BRACES in statement:
            before, _, after = statement.partition(BRACES)
            if PARENTHESES in without_templates(before).split("=")[0]:  # a function's body, which no semicolon follows
                yield before.strip()
                statement = after.strip()
            else:
                statement = before + after
            # Members that a constructor initialises, and the body after them.
            while statement.startswith((",", BRACES)):
                statement = statement.partition(BRACES)[2].strip()
        if statement:
            yield statement


def without_templates(text):
    return replaced_inside_out(r"<[^<>]*>", "", text)


def count_members(body):
    """(data members, member functions) of a class body."""
    fields = methods = 0
    for declaration in declarations(body):
        declaration = re.sub(r"\[\[[^\]]*\]\]|\balignas\x01", "", declaration).strip()
        plain = declaration if "operator" in declaration else without_templates(declaration)
        plain = re.sub(r"^template\s*", "", plain)
        if not plain or NO_MEMBER.match(plain) or re.search(r"=\s*(?:default|delete)$", plain):
            continue
        head = plain.split("=")[0]
        is_function_pointer = re.search(r"\x01\s*\x01", head)
        if "operator" in plain or (PARENTHESES in head and not is_function_pointer):
            methods += 1
        else:
            fields += 1 + plain.count(",")
    return fields, methods


def class_sizes(text):
    """[(line, name, data members, member functions)] of every class of the file, each with those members alone that it declares itself."""
    return [(size.line, size.name, size.fields, size.methods) for size in classes_of("", text)]


@dataclass
class Size:
    """What a class declares itself, and of what it is derived, without namespaces."""
    where: str
    line: int
    name: str
    fields: int
    methods: int
    bases: list
    is_interface: bool


def classes_of(where, text):
    text = blanked(text)
    found = []
    for match in CLASS.finditer(text):
        body = body_from(text, match.end())
        bases = without_templates((match.group("bases") or ":")[1:]).split(",")
        bases = [re.sub(r"\b(?:public|protected|private|virtual)\b", "", base).strip().split("::")[-1] for base in bases]
        is_interface = bool(re.search(r"\bvirtual\b|\boverride\b", body))
        found.append(Size(where, line_of(text, match.start()), match.group(1), *count_members(body), [base for base in bases if base], is_interface))
    return found


def bases_of(size, known):
    """The classes from which a class is derived. Of several of one name it is the one whose file is nearest; those of libraries are left out."""
    choices = ([base for base in known.get(name, []) if base is not size] for name in size.bases)
    return [max(choice, key=lambda base: len(os.path.commonprefix([base.where, size.where]))) for choice in choices if choice]


def ancestry(size, known):
    """A class, its bases, theirs, and so on, each once."""
    found = [size]
    for one in found:
        found += [base for base in bases_of(one, known) if not any(base is other for other in found)]
    return found


def with_bases(size, known):
    """(data members, functions) of a class and of those of its bases that are no interfaces."""
    counted = [size] + [base for base in ancestry(size, known)[1:] if not any(one.is_interface for one in ancestry(base, known))]
    return sum(one.fields for one in counted), sum(one.methods for one in counted)


@dataclass
class Granted:
    """What a line of the list grants a class, and the most that the classes of that name have."""
    where: str
    name: str
    methods: int
    fields: int
    has_methods: int = 0
    has_fields: int = 0

    def covers(self, full_name):
        return f"::{full_name}".endswith(f"::{self.name}")


def read_exceptions(path):
    """The lines 'Name: methods fields' of the list, and what is wrong with them. A name may say the folder too: 'flux::Config'."""
    exceptions, problems = [], []
    for number, line in enumerate(path.read_text().splitlines() if path.exists() else [], 1):
        line, where = line.split("#")[0].strip(), f"{EXCEPTIONS}:{number}"
        match = re.fullmatch(r"([A-Za-z_]\w*(?:::\w+)*): (\d+) (\d+)", line)
        if match:
            exceptions.append(Granted(where, match.group(1), int(match.group(2)), int(match.group(3))))
        elif line:
            problems.append(Problem(where, f"expected 'Name: methods fields', found '{line}'"))
    return exceptions, problems


def check_classes(where, text, exceptions, known=None):
    problems, folders = [], where.split("/")[1:-1]
    for size in classes_of(where, text):
        line, name = size.line, size.name
        fields, methods = with_bases(size, known or {})
        most_methods, most_fields = MAX_METHODS, MAX_FIELDS
        for granted in exceptions:
            if methods > 0 and granted.covers("::".join([*folders, name])):
                granted.has_methods, granted.has_fields = max(granted.has_methods, methods), max(granted.has_fields, fields)
                most_methods, most_fields = granted.methods, granted.fields
        if methods > most_methods or (methods > 0 and fields > most_fields):
            problems.append(Problem(f"{where}:{line}", f"{name} has {fields} data members and {methods} functions; "
                                                       f"it may have at most {most_fields} and {most_methods}"))
    return problems


def check_needed(exceptions):
    """An exception grants what its class has, or the law's own number where the class has no more than that."""
    problems = []
    for granted in exceptions:
        methods, fields = max(granted.has_methods, MAX_METHODS), max(granted.has_fields, MAX_FIELDS)
        if (methods, fields) == (MAX_METHODS, MAX_FIELDS):
            problems.append(Problem(granted.where, f"no class {granted.name} is larger than others; take the line out"))
        elif granted.methods > methods or granted.fields > fields:
            problems.append(Problem(granted.where, f"{granted.name} is smaller than its exception; write '{granted.name}: {methods} {fields}'"))
    return problems


def read_long_functions(path):
    """{file: lengths of the functions that may be longer than the law, the longest first} of the lines 'file: lengths'."""
    lines = (line.split("#")[0].strip() for line in (path.read_text().splitlines() if path.exists() else []))
    rows = (line.split(":") for line in lines if line)
    return {name: [int(length) for length in lengths.split()] for name, lengths in rows}


def check_functions(where, text, granted):
    found = sorted(((length, line) for line, length in function_lengths(text) if length > MAX_FUNCTION_LINES), reverse=True)
    allowed, problems = granted.get(where, []), []
    for number, (length, line) in enumerate(found):
        most = allowed[number] if number < len(allowed) else MAX_FUNCTION_LINES
        if length > most:
            problems.append(Problem(f"{where}:{line}", f"a function of {length} lines; it has at most {most}"))
    lengths = [length for length, _ in found]
    if not problems and allowed != lengths:
        line = f"{where}: {' '.join(map(str, lengths))}"
        problems.append(Problem(LONG_FUNCTIONS, f"write '{line}'" if lengths else f"{where} has no long function; take its line out"))
    return problems


def check_code(where, text, is_header, exceptions=(), known=None, long_functions=None):
    problems, num_lines = check_classes(where, text, exceptions, known), text.count("\n")
    if num_lines > MAX_FILE_LINES:
        problems.append(Problem(where, f"{num_lines} lines; a file has at most {MAX_FILE_LINES}"))
    problems += check_functions(where, text, long_functions or {})
    for match in INCLUDE.finditer(text):
        header = match.group(1) or match.group(2)
        may, instead = DEAR.get(header, ("", ""))
        if not where.startswith(may):
            problems.append(Problem(f"{where}:{line_of(text, match.start())}", f"includes {header}, which takes seconds to compile; {instead}"))
    if where.startswith("src/") and where != SAYS:
        for match in PRINTS.finditer(text):
            problems.append(Problem(f"{where}:{line_of(text, match.start())}", f"prints by itself; print() and tell() of {SAYS} end nothing where nobody reads"))
    if is_header and not text.lstrip().startswith("#pragma once"):
        problems.append(Problem(where, "a header starts with #pragma once"))
    return problems


def check_pipelines(root):
    problems = []
    for folder in sorted(root.glob("tests/golden/*_pipeline")):
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        if size > MAX_PIPELINE_BYTES:
            problems.append(Problem(folder.relative_to(root).as_posix(), f"{size} bytes; a golden pipeline has at most {MAX_PIPELINE_BYTES}"))
    return problems


def check_page(where, text):
    """The lines of a page that are too long. Rows of tables and fenced blocks cannot be broken, so they may be."""
    problems, fenced = [], False
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("```"):
            fenced = not fenced
        elif len(line) > MAX_COLUMNS and not fenced and not line.lstrip().startswith("|"):
            problems.append(Problem(f"{where}:{number}", f"{len(line)} columns; a line of a page has at most {MAX_COLUMNS}"))
    return problems


def pages(root):
    """The Markdown files of the checkout, and none of what was built or installed in it."""
    return sorted([*root.glob("*.md"), *(path for folder in PAGE_FOLDERS for path in root.glob(f"{folder}/**/*.md"))])


def check_decisions(root):
    """Every page of a decision has one row in the index, which says where another page replaces it."""
    folder, problems = root / "docs/decisions", []
    rows = dict(DECISION_ROW.findall((folder / "README.md").read_text())) if folder.exists() else {}
    for path in sorted(folder.glob("[0-9]*.md")):
        where, replaced = path.relative_to(root).as_posix(), re.search(r"^Replaced by \[(\d{4})\]", path.read_text(), re.M)
        if path.name not in rows:
            problems.append(Problem(where, "docs/decisions/README.md has no row for this page"))
        elif replaced and not rows[path.name].startswith(f"Replaced by {replaced.group(1)}"):
            problems.append(Problem(where, f"its row in docs/decisions/README.md begins with 'Replaced by {replaced.group(1)}'"))
    for name in sorted(set(rows) - {path.name for path in folder.glob("*.md")}):
        problems.append(Problem("docs/decisions/README.md", f"no page {name}"))
    return problems


def check(root):
    exceptions, problems = read_exceptions(root / EXCEPTIONS)
    long_functions = read_long_functions(root / LONG_FUNCTIONS)
    problems += [Problem(LONG_FUNCTIONS, f"no file {name}") for name in long_functions if not (root / name).exists()]
    problems += check_pipelines(root) + check_decisions(root)
    paths = [path for folder in CODE_FOLDERS for path in sorted(root.glob(f"{folder}/**/*")) if path.suffix in (".h", ".cpp", ".cu", ".cuh")]
    code, known = {path.relative_to(root).as_posix(): path.read_text() for path in paths}, {}
    for where, text in code.items():
        for size in classes_of(where, text):
            known.setdefault(size.name.split("::")[-1], []).append(size)
    for where, text in code.items():
        problems += check_code(where, text, where.endswith(".h"), exceptions, known, long_functions)
    problems += check_needed(exceptions)
    for folder in SCRIPT_FOLDERS:
        for path in sorted(root.glob(f"{folder}/**/*.py")):
            try:
                compile(path.read_text(), str(path), "exec")
            except SyntaxError as error:
                problems.append(Problem(f"{path.relative_to(root)}:{error.lineno}", error.msg))
    for path in pages(root):
        problems += check_page(path.relative_to(root).as_posix(), path.read_text())
    return problems


if __name__ == "__main__":
    sys.exit(run(check, sys.argv[1:]))
