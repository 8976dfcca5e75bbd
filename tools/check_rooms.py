#!/usr/bin/env python3
"""Holds src/ to the table in tools/rooms.txt.

usage: check_rooms.py [ROOT]      (default: the checkout this file is in)

- A room lists only rooms above it, so the rooms have an order and no cycle; a cycle is named.
- Every C++ file of src/ lies in a room of the table, and every room has files.
- A room lists only rooms that its files include: an arrow that no include uses is a hole in the wall.
- Modules of a room (X.h and X.cpp are one) do not include each other in a circle; a circle is named.
- An include of the project is the full path from src/, in quotes, of a file that exists, in the file's own room or in one
  that its row lists.
- A row of `models/families/*` is that of every folder there, each a room of its own. A room that lists them is linked to all and names none.
- A family (a folder of src/models/families/) is named in its own folder alone, and in the list src/models/families.txt,
  whatever the spelling; comments may cite it as a source of facts. No other file includes its headers. Strings of room
  foreign are words of other programs and may name it. Words that other rooms share with other programs are listed in the
  table as lines '@ word', and the beginnings of ordinary words that happen to spell a family as lines '~ beginning'.
- A word of a line '! word: paths' is said in code below these paths alone; comments may say it.
"""
import re
import sys
from dataclasses import dataclass
from pathlib import Path

SUFFIXES = {".h", ".cpp", ".cu", ".cuh"}
FAMILIES = "models/families/"
OF_OTHER_PROGRAMS = "foreign/"  # the room that reads other programs' settings
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"\n]*)"|<([^>\n]*)>)', re.M)
WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
# One alternative for each thing in which the marks of the others mean nothing.
LEXEME = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"([^()\\ \n]*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<![0-9A-Za-z_])\'(?:\\.|[^\'\\\n])*\'', re.S)


@dataclass(frozen=True)
class Problem:
    where: str
    text: str

    def __str__(self):
        return f"{self.where}: {self.text}"


def read_table(path):
    """The rows of rooms.txt in order: [(line number, room, [rooms it may include])], patterns of its '@' words and '~' beginnings, its '!' words
    with their paths, and what is wrong with it."""
    rows, words, kept, problems = [], [], {}, []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        line = line.split("#")[0].strip()
        if not line:
            continue
        if line.startswith("@"):
            words.append(re.compile(rf"(?<![A-Za-z0-9_]){re.escape(line[1:].strip())}(?![A-Za-z0-9_])"))
            continue
        if line.startswith("~"):
            words.append(re.compile(re.escape(line[1:].strip()), re.I))
            continue
        if line.startswith("!"):
            word, colon, paths = line[1:].partition(":")
            if not colon or not word.strip() or not paths.split():
                problems.append(Problem(f"{path.name}:{number}", f"expected '! word: paths', found '{line}'"))
            kept.setdefault(word.strip(), []).extend((number, below) for below in paths.split())
            continue
        room, colon, listed = line.partition(":")
        if not colon or not room.strip():
            problems.append(Problem(f"{path.name}:{number}", f"expected 'room: rooms', found '{line}'"))
            continue
        rows.append((number, room.strip(), listed.split()))
    return rows, words, kept, problems


def find_cycle(graph):
    """One cycle of the graph as a list whose first and last entries are the same, or None."""
    done, path = set(), []

    def visit(node):
        if node in path:
            return path[path.index(node):] + [node]
        if node in done:
            return None
        path.append(node)
        for neighbour in graph.get(node, ()):
            cycle = visit(neighbour)
            if cycle:
                return cycle
        path.pop()
        done.add(node)
        return None

    for start in graph:
        cycle = visit(start)
        if cycle:
            return cycle
    return None


def check_table(name, rows):
    problems, above = [], set()
    graph = {room: listed for _, room, listed in rows}
    for number, room, listed in rows:
        where = f"{name}:{number}"
        if room in above:
            problems.append(Problem(where, f"room {room} has two rows"))
        for other in listed:
            if other not in graph:
                problems.append(Problem(where, f"{room} lists {other}, which is no room of the table"))
            elif other not in above:
                problems.append(Problem(where, f"{room} lists {other}, which is not above it"))
        above.add(room)
    cycle = find_cycle(graph)
    if cycle:
        problems.append(Problem(name, "the rooms form a cycle: " + " -> ".join(cycle)))
    return problems


def check_unused(name, rows, used):
    """`used` holds each room that has files, with the rooms that they include."""
    problems, above = [], set()
    for number, room, listed in rows:
        where = f"{name}:{number}"
        if room not in used:
            problems.append(Problem(where, f"room {room} has no files; take its row out"))
        for other in listed:
            if other in above and other not in used.get(room, ()) and not other.endswith("/*"):
                problems.append(Problem(where, f"{room} lists {other}, which none of its files includes; take it out"))
        above.add(room)
    return problems


def room_of(path, rooms):
    """The innermost room that holds the file (a path from src/), or None."""
    parts = path.split("/")[:-1]
    for length in range(len(parts), 0, -1):
        if "/".join(parts[:length]) in rooms:
            return "/".join(parts[:length])
    return None


def family_of(path, families):
    parts = path.split("/")
    return parts[2] if len(parts) > 3 and path.startswith(FAMILIES) and parts[2] in families else None


def row_of(room):
    """The row of a room: its own, or that of all folders beside it."""
    return FAMILIES + "*" if room and room.startswith(FAMILIES) else room


def rooms_and_rows(rows, src):
    """Each room with the rooms that it may include, rows of a folder's children written out."""
    def children(name):
        return [f"{name[:-1]}{p.name}" for p in sorted((src / name[:-2]).glob("*")) if p.is_dir()] if name.endswith("/*") else [name]
    return {room: {each for other in listed for each in children(other)} for _, name, listed in rows for room in children(name)}


def without_comments(text):
    """The text with comments blanked; lines keep their numbers."""
    def blank(match):
        lexeme = match.group(0)
        return re.sub(r"[^\n]", " ", lexeme) if lexeme.startswith(("//", "/*")) else lexeme
    return LEXEME.sub(blank, text)


def without_strings(text):
    """The text without comments and with its strings blanked; lines keep their numbers."""
    return LEXEME.sub(lambda match: re.sub(r"[^\n]", " ", match.group(0)), text)


def words_of(text):
    """The words of identifiers and strings, in lower case: 'FluxBlock', 'flux_block' and 'FLUX-BLOCK' all give flux, block."""
    return [word.lower() for word in WORD.findall(text)]


def names_family(line, family):
    """True when the line spells the family. A name of four letters or more is found inside any word, a shorter one as a word."""
    if len(family) >= 4:
        return family.replace("_", "").lower() in re.sub(r"[_\-. ]", "", line).lower()
    return family.lower() in words_of(line)


def line_of(text, position):
    return text.count("\n", 0, position) + 1


def rooms_included(text, files, rooms):
    """The rooms of the project's headers that a file includes."""
    quoted = (match.group(1) for match in INCLUDE.finditer(text))
    return {room_of(target, rooms) for target in quoted if target in files}


def module_of(path):
    """X.h and X.cpp are one module, X."""
    return path.rsplit(".", 1)[0]


def shortest_circle(graph, start):
    """The shortest way in the graph from `start` back to it, as a list that begins and ends with it, or None."""
    came_from, queue = {}, [start]
    for node in queue:
        for neighbour in sorted(graph.get(node, ())):
            if neighbour == start:
                path = [node]
                while path[-1] != start:
                    path.append(came_from[path[-1]])
                return path[::-1] + [start]
            if neighbour not in came_from:
                came_from[neighbour] = node
                queue.append(neighbour)
    return None


def check_circles(texts, rooms):
    """Circles of modules inside rooms, each through other modules; `texts` has every file by its path."""
    graph, problems = {}, []
    for path, text in texts.items():
        targets = (match.group(1) for match in INCLUDE.finditer(text))
        own = {module_of(target) for target in targets if target in texts and room_of(target, rooms) == room_of(path, rooms)}
        graph.setdefault(module_of(path), set()).update(own - {module_of(path)})
    for module in sorted(graph):
        circle = shortest_circle(graph, module)
        if circle:
            problems.append(Problem(f"src/{module}", "modules include each other in a circle: " + " -> ".join(circle)))
            for each in circle:
                graph.pop(each, None)
    return problems


def check_includes(path, text, allowed, files, families):
    problems = []
    own_room, own_family = room_of(path, allowed), family_of(path, families)
    for match in INCLUDE.finditer(text):
        quoted, angled = match.groups()
        target = quoted if quoted is not None else angled
        where = f"src/{path}:{line_of(text, match.start())}"
        if quoted is None:
            if target in files:
                problems.append(Problem(where, f"write \"{target}\": headers of the project are included in quotes"))
            continue
        if target not in files:
            problems.append(Problem(where, f"\"{target}\" is no file of src/; an include is the full path from src/"))
            continue
        room, family = room_of(target, allowed), family_of(target, families)
        if family and family != own_family:
            problems.append(Problem(where, f"\"{target}\" belongs to a family; only its own folder may include it"))
        elif room is not None and room != own_room and room not in allowed[own_room]:
            may = " ".join(allowed[own_room]) or "nothing"
            problems.append(Problem(where, f"room {own_room} may not include room {room} (\"{target}\"); its row lists {may}"))
    return problems


def check_names(path, text, families, words):
    problems = []
    own = family_of(path, families)
    # A family whose name begins as another's ("flux2") cannot help spelling that.
    foreign = [family for family in families if family != own and not (own and names_family(own, family))]
    code = without_strings(text) if path.startswith(OF_OTHER_PROGRAMS) else without_comments(text)
    for number, line in enumerate(code.splitlines(), 1):
        for word in words:
            line = word.sub("", line)
        for family in foreign:
            if names_family(line, family):
                problems.append(Problem(f"src/{path}:{number}", f"names the family {family}; only its own folder may"))
    return problems


def lines_with(word, text):
    """The numbers of the lines whose code says the word."""
    return [number for number, line in enumerate(without_comments(text).splitlines(), 1) if word.lower() in line.lower()]


def check_kept(name, kept, texts):
    """`kept` has the '!' words with the lines and paths that the table has for them, `texts` every file by its path."""
    problems = []
    for word, places in kept.items():
        said = {path: lines for path, text in texts.items() if (lines := lines_with(word, text))}
        for path, lines in said.items():
            if not any(path.startswith(below) for _, below in places):
                problems += [Problem(f"src/{path}:{number}", f"says '{word}'; only what {name} lists behind '! {word}' may") for number in lines]
        for number, below in places:
            if not any(path.startswith(below) for path in said):
                problems.append(Problem(f"{name}:{number}", f"nothing below {below} says '{word}'; take the path out"))
    return problems


def check(root):
    """Every problem of the checkout at root, in the order of files and lines."""
    table, src = root / "tools/rooms.txt", root / "src"
    rows, words, kept, problems = read_table(table)
    problems += check_table(table.name, rows)
    allowed = rooms_and_rows(rows, src)
    paths = sorted(p.relative_to(src).as_posix() for p in src.rglob("*") if p.suffix in SUFFIXES)
    families = sorted(p.parent.name for p in src.glob(FAMILIES + "*/family.cpp"))
    used, texts = {}, {path: (src / path).read_text() for path in paths}
    for path, text in texts.items():
        if room_of(path, allowed) is None:
            problems.append(Problem(f"src/{path}", f"lies in no room of {table.name}"))
        else:
            problems += check_includes(path, text, allowed, set(paths), families)
            used.setdefault(row_of(room_of(path, allowed)), set()).update(rooms_included(text, paths, allowed))
        problems += check_names(path, text, families, words)
    problems += check_circles(texts, allowed)
    return problems + check_kept(table.name, kept, texts) + check_unused(table.name, rows, used)


def run(check, arguments):
    """Prints the problems that `check` finds in this checkout, or in the one that is named; the exit code."""
    root = Path(arguments[0]) if arguments else Path(__file__).resolve().parent.parent
    problems = check(root)
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(run(check, sys.argv[1:]))
