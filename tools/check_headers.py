#!/usr/bin/env python3
"""Every header compiles by itself: whoever includes it needs nothing before it.

usage: check_headers.py BUILD [SINCE]

A release build compiles several files as one, which hides an include that is missing. This compiles a file with nothing in it but
one header, for each header of src/ whose code is changed since the commit SINCE (without one: for all), as BUILD/compile_commands.json compiles
the files beside it, and without its precompiled header.
"""
import json
import os
import re
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from check_rooms import Problem

ROOT = Path(__file__).resolve().parent.parent
DROPPED, DROPPED_WITH_NEXT = {"-c", "-Winvalid-pch"}, {"-o", "-MF", "-MT", "-MQ"}


def flags_of(command):
    """The flags of a compilation: without launcher, source, output and precompiled header."""
    words, flags, skip = shlex.split(command), [], False
    compiler = next(i for i, word in enumerate(words) if os.path.basename(word).startswith(("c++", "g++", "clang++")))
    for word, after in zip(words[compiler:], [*words[compiler + 1:], ""]):
        is_precompiled = word == "-include" and "cmake_pch" in after
        if skip:
            skip = False
        elif word in DROPPED_WITH_NEXT or is_precompiled:
            skip = True
        elif word not in DROPPED and not word.endswith((".cpp", ".cxx")):
            flags.append(word)
    return flags


def commands(build):
    """{room, as its target is named: flags of one of its files}, of what the build compiles. A companion's files are none of its room's."""
    if not (build / "compile_commands.json").is_file():
        sys.exit(f"{build} is not the folder of a build: ./dev lint --headers makes one, or give one that has compile_commands.json")
    found = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        room = room_of(entry["command"])
        if room is not None:
            found.setdefault(room, flags_of(entry["command"]))
    return found


def room_of(command):
    """The room whose target a file is compiled for; the targets of tests and of companions are none."""
    target = re.search(r"/room_(\w+)\.dir/", command)
    return target and target[1]


def flags_for(header, found):
    """Those of its own room, else of the room app, which sees everything."""
    rooms = (folder.as_posix().replace("/", "_") for folder in header.parents)
    return next((found[room] for room in rooms if room in found), found["app"])


def changed_headers(since):
    listed = ["git", "ls-files", "src"] if since is None else ["git", "diff", "--name-only", "--diff-filter=d", since, "--", "src"]
    names = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()
    if since is not None:
        names += subprocess.run(["git", "ls-files", "--others", "--exclude-standard", "src"], cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()
    headers = [name for name in names if name.endswith(".h")]
    return [Path(name).relative_to("src") for name in headers if since is None or code_of((ROOT / name).read_text()) != code_of(text_at(since, name))]


def text_at(commit, name):
    """A file as it was, or nothing where it was not there."""
    return subprocess.run(["git", "show", f"{commit}:{name}"], cwd=ROOT, capture_output=True, text=True).stdout


def code_of(text):
    """A header without its comments and blank lines."""
    lines = (re.sub(r"\s*//.*", "", line) for line in text.splitlines())
    return [line for line in lines if line]


def compile_alone(header, flags):
    run = subprocess.run([*flags, "-fsyntax-only", "-x", "c++", "-"], input=f'#include "{header.as_posix()}"\n', cwd=ROOT, text=True, capture_output=True)
    first = next((line for line in run.stderr.splitlines() if "error" in line), run.stderr[:200])
    return Problem(f"src/{header.as_posix()}", f"does not compile alone: {first}") if run.returncode else None


def main(build, since=None):
    found, headers = commands(ROOT / build), changed_headers(since)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        problems = [problem for problem in pool.map(lambda header: compile_alone(header, flags_for(header, found)), headers) if problem]
    for problem in problems:
        print(problem)
    print(f"{len(headers) - len(problems)} of {len(headers)} headers compile alone")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
