#!/usr/bin/env python3
"""Comments that begin without a subject, by room: their share may only shrink.

usage: check_comments.py [ROOT] [--list ROOM]

A block of comments whose first sentence begins with "Of", "Whether", "What" and their like is a clause that hangs on the line below it: who
reads it has to find the subject first. tools/comment_shares.txt has how many such blocks each room has at most. A room that has fewer gets
its smaller number written there, as this check then says. --list shows those of a room.
"""
import re
import sys
from pathlib import Path

from check_rooms import Problem, run

SHARES = "tools/comment_shares.txt"
WORDS = "Of|Whether|Those|What|That|Where|Which|How|Why|Who|Whose|Whom|When|In|As|For|From|By|With|Without|Until|To|Beside|Under"
SUBJECTLESS = re.compile(rf"({WORDS})\b")
# Such a word may begin a sentence with a subject: "Where nothing is said, the scale is 1."
HAS_SUBJECT = re.compile(r"[^.:;]*, (?:an?|the|it|its|they|this|that|these|those|no|nothing|all|each|every|one|both|there|he|she|who\w*|what\w*|[a-z_]+s?) "
                         r"(?:[\w`'-]+ ){0,4}?(?:is|are|was|were|has|have|can|may|must|gets?|takes?|gives?|makes?|does|do|stays?|counts?|[a-z]+s)\b")


def blocks(text):
    """[(line, text)] of the comments that stand on lines of their own, or behind code as ///<, in which a block is what one line begins."""
    found, open_block = [], False
    for number, line in enumerate(text.splitlines(), 1):
        own, behind = re.match(r"\s*///? ?(?!<)(.*)", line), re.search(r"\s///< (.*)", line)
        if own and not re.match(r"\s*///?<", line):
            if open_block:
                found[-1] = (found[-1][0], f"{found[-1][1]} {own.group(1)}")
            else:
                found.append((number, own.group(1)))
            open_block = True
        else:
            open_block = False
            if behind:
                continue
    return found


def begins_without_subject(comment):
    return bool(SUBJECTLESS.match(comment)) and not HAS_SUBJECT.match(comment)


def room_of(path, rooms):
    """The room of a file below src: the longest name that is a folder around it, where 'a/*' names every folder of a."""
    folder = path.parent.as_posix()
    fitting = [room for room in rooms if folder == room or folder.startswith(f"{room.removesuffix('*')}" if room.endswith("*") else f"{room}/")]
    return max(fitting, key=len, default=folder)


def count(root):
    """{room: [places of comments without subject]}, {room: number of comments}."""
    rooms = rooms_in(root)
    found, numbers = {}, {}
    for path in sorted(root.glob("src/**/*")):
        if path.suffix not in (".h", ".cpp"):
            continue
        room = room_of(path.relative_to(root / "src"), rooms)
        for line, comment in blocks(path.read_text()):
            numbers[room] = numbers.get(room, 0) + 1
            if begins_without_subject(comment):
                found.setdefault(room, []).append((f"{path.relative_to(root)}:{line}", comment))
    return found, numbers


def rooms_in(root):
    return re.findall(r"^([a-z][^:\s]*):", (root / "tools/rooms.txt").read_text(), re.M)


def check(root):
    found, numbers = count(root)
    lines = (line.split("#")[0].strip() for line in (root / SHARES).read_text().splitlines())
    bounds = {room: int(bound) for room, bound in (line.split(":") for line in lines if line)}
    problems = [Problem(SHARES, f"no room {room}") for room in sorted(set(bounds) - set(numbers))]
    for room in sorted(numbers):
        have, most = len(found.get(room, [])), bounds.get(room, 0)
        if have > most:
            places = ", ".join(place for place, _ in found[room][:3])
            problems.append(Problem(f"src/{room}", f"{have} comments begin without a subject, and it may have {most}; see check_comments.py --list {room} ({places}, …)"))
        elif have < most:
            problems.append(Problem(SHARES, f"{room} has fewer; write '{room}: {have}'"))
    return problems


def main(arguments):
    if "--list" in arguments:
        room = arguments[arguments.index("--list") + 1]
        for place, comment in count(Path(__file__).resolve().parent.parent)[0].get(room, []):
            print(f"{place}: {comment[:200]}")
        return 0
    return run(check, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
