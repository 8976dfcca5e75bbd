#!/usr/bin/env python3
"""Event files as TensorBoard's own messages and writer make them, for what records::EventFile is to write byte for byte.

A run logs steps 1 to 3 and draws a picture, is killed, and resumes after step 2: records/log.jsonl is what its log holds in the end.
"""
import json, pathlib, struct, zlib
from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.record_writer import RecordWriter

OUT = pathlib.Path(__file__).parent / "records"
START = 1760000000


def line(step, **values):
    return {"step": step, "time": START + 0.5 * step, **values}


LOG = [line(1, grad_norm=0.25, loss=0.0, loss_by_time=[{"count": 1, "raw": 1.5}, {"count": 0, "raw": None}], lr=1e-4, peak_memory_bytes=6512345088),
       line(2, grad_norm=0.1, loss=0.7071067811865476, loss_by_time=[{"count": 0, "raw": None}, {"count": 2, "raw": 0.3}], lr=2e-4, peak_memory_bytes=6512345088),
       line(3, grad_norm=300.0, loss=-1.5, loss_by_time=[{"count": 1, "raw": 1e-9}, {"count": 1, "raw": 2.0}], lr=3e-4, peak_memory_bytes=6512345088),
       line(200, loss=0.5, validation_loss=0.4)]
KILLED = line(3, loss=9.0)  # logged, and not saved


def flat(value, path=""):
    """The numbers inside a value by path, in the order of their names; None is left out."""
    if isinstance(value, (dict, list)):
        for key, inner in sorted(value.items()) if isinstance(value, dict) else enumerate(value):
            yield from flat(inner, f"{path}/{key}" if path else str(key))
    elif value is not None:
        yield path, float(value)


def event(record):
    values = [Summary.Value(tag=name, simple_value=number) for name, number in flat({k: v for k, v in record.items() if k not in ("step", "time")})]
    return Event(wall_time=record["time"], step=record["step"], summary=Summary(value=values))


def head(last_step, now):
    return [Event(wall_time=now, file_version="brain.Event:2"), Event(wall_time=now, step=last_step + 1, session_log=SessionLog(status=SessionLog.START))]


def png():
    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
    rows = b"".join(b"\0" + bytes(range(40 * y, 40 * y + 9)) for y in range(2))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 3, 2, 8, 2, 0, 0, 0)) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def write(name, events):
    with open(OUT / name, "wb") as file:
        writer = RecordWriter(file)
        for one in events:
            writer.write(one.SerializeToString(deterministic=True))


def main():
    OUT.mkdir(exist_ok=True)
    (OUT / "log.jsonl").write_text("".join(json.dumps(record) + "\n" for record in LOG))
    (OUT / "picture.png").write_bytes(png())
    picture = Summary.Image(height=2, width=3, colorspace=3, encoded_image_string=png())
    drawn = Event(wall_time=START + 1.25, step=2, summary=Summary(value=[Summary.Value(tag="samples/00", image=picture)]))
    write(f"events.out.tfevents.{START}.burnish", [*head(0, START), event(LOG[0]), event(LOG[1]), drawn, event(KILLED)])
    write(f"events.out.tfevents.{START + 60}.burnish", [*head(2, START + 60), event(LOG[2]), event(LOG[3])])


if __name__ == "__main__":
    main()
