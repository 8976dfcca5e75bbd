#!/usr/bin/env python3
"""Paging beside a link of known speed: a step's time over its bounds.

The common bound is the longer of what all blocks compute and what the link carries in a step. Forward and backward each have one of their
own, and where one waits for the link and the other for its blocks their sum is larger. It is the least there is: no more blocks than there are
places can be there when forward begins, so that the link carries all others while forward runs, however far ahead they are asked for.

usage: paging.py

24 blocks, all paged, compute for 8 ms forward and 16 ms backward, and wait for weights over a link of 0.1 ms latency whose bandwidth is
such that a block's weights take a quarter of the forward time to four times of it. Nothing else is timed: blocks and link keep time by the
clock, so that the figures are those of the order in which blocks are asked for and not of a processor. The last rows read weights of 16 MiB
a block from a file in the current folder, which is taken out of the system's cache before forward and in backward; its link is what reading it
from end to end takes.
"""
import json
import subprocess

import measure


def kind(case):
    return ("on disk" if case.get("on_disk") else "trained" if case["trains"] else "frozen") + (", recomputed" if case["recomputes"] else "")


def in_all(case, what):
    return case["forward"][what] + case["backward"][what]


def common_bound(case):
    return max(in_all(case, "compute"), in_all(case, "link"))


def bound_by_direction(case):
    return sum(max(case[way]["compute"], case[way]["link"]) for way in ("forward", "backward"))


def table_of_reads(cases):
    rows = {}
    for case in cases:
        gib = case["bytes"] / 2**30
        rows.setdefault(case["reads"], []).append(f"{gib / case['seconds']:.1f} ({case['processor'] / gib:.2f})")
    return measure.markdown(["GiB a second (processor seconds a GiB)", "first", "second", "third"], [[how, *cells] for how, cells in rows.items()])


def main():
    name = measure.cpu()["name"]
    program = measure.ROOT / "build" / "bench_paging"
    got = subprocess.run([str(program)], capture_output=True, text=True, check=True)
    cases = [json.loads(line) for line in got.stdout.splitlines()]
    rows = {}
    for case in (case for case in cases if "reads" not in case):
        row = rows.setdefault((kind(case), case.get("ratio", "the disk's")), {})
        row[case["places"]] = [f"{case['step'] / bound(case):.2f}" for bound in (common_bound, bound_by_direction)]
        if case["places"] == 2:
            row["link"] = f"{in_all(case, 'link') / in_all(case, 'compute'):.2f}"
    counts = ["1 place", "2 places", "4 places"]
    table = measure.markdown(["weights", "a block's transfer over its forward", "link over compute", *counts,
                              *(f"{count}, by direction" for count in counts)],
                             [[*key, row["link"], *(row[places][i] for i in (0, 1) for places in (1, 2, 4))] for key, row in rows.items()])
    text = (f"# Paging beside a link of known speed\n\n{name}; burnish {measure.commit()}; `./dev bench paging`.\n"
            "Step time over max(compute, bytes / bandwidth) of the whole step, and by direction: over that of forward and that of backward\n"
            "added. Where one waits for the link and the other for its blocks, as at twice the forward time, the sum lies above the\n"
            f"common bound.\n\n{table}\nReading the file that begins out of the system's cache, which has room for it:\n\n"
            f"{table_of_reads([case for case in cases if 'reads' in case])}")
    print(text)
    print(measure.record("paging", name, text, cases))


if __name__ == "__main__":
    main()
