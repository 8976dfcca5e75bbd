#!/usr/bin/env python3
"""Event files of a run, read back by TensorBoard's own reader and compared with its log: part of `./dev golden check`.

usage: check_event_files.py [RUN...]      (default: tests/golden/records, whose bytes are what records::EventFile writes)

Every number of log.jsonl has to be there, at its step, and nothing else: of steps that a resumed run took again, the later. Exits 1 otherwise.
"""
import json, pathlib, sys
import numpy as np
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from make_events import flat


def from_log(run):
    found = {}
    for line in (run / "log.jsonl").read_text().splitlines():
        record = json.loads(line)
        for tag, value in flat({k: v for k, v in record.items() if k not in ("step", "time")}):
            found.setdefault(tag, []).append((record["step"], record["time"], float(np.float32(value))))
    return found


def check(run):
    events = EventAccumulator(str(run), size_guidance={"scalars": 0, "images": 0})
    events.Reload()
    tags, expected = events.Tags(), from_log(run)
    found = {tag: [(event.step, event.wall_time, event.value) for event in events.Scalars(tag)] for tag in tags["scalars"]}
    pictures = [(tag, picture.step, picture.width, picture.height) for tag in tags["images"] for picture in events.Images(tag)]
    count = sum(map(len, found.values()))
    print(f"{run}: {count} numbers under {len(found)} tags, {len(pictures)} pictures: {'as in log.jsonl' if found == expected else 'NOT as in log.jsonl'}")
    return count > 0 and found == expected


if __name__ == "__main__":
    runs = [pathlib.Path(name) for name in sys.argv[1:]] or [pathlib.Path(__file__).parent / "records"]
    sys.exit(0 if all([check(run) for run in runs]) else 1)
