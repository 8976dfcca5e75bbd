#!/usr/bin/env python3
"""Clips to frames beside PyAV and decord, of the kinds that users have: 81 frames at 16 a second of each, scaled and cut to 832x480, on one
thread each, in turn.

usage: clips.py [--clips 2] [--alternations 3] [--cases REGEX]

Each decodes a file, takes the frames that are shown at 0, 1/16 s and so on, scales them so that they cover 832x480, cuts out the centre and
stacks uint8 [81, 480, 832, 3]. PyAV's frames are scaled by Pillow (BILINEAR, which smooths), decord's by itself while it decodes. Ours is
bench_micro on the same files. "decoder" is PyAV that decodes all frames up to the last one and does nothing with them: what no reader of all
frames goes below.
"""
import argparse
import re
import subprocess
from pathlib import Path

import measure

TO_WIDTH, TO_HEIGHT, FRAMES, TO_RATE, SECONDS = 832, 480, 81, 16, 6
# Sides, frames a second, the ending, and what ffmpeg writes them by: its encoders' own qualities.
KINDS = {
    "h264-480p-16": (832, 480, 16, "mp4", "-c:v libx264"),
    "h264-480p-24": (854, 480, 24, "mp4", "-c:v libx264"),
    "h264-720p-30": (1280, 720, 30, "mp4", "-c:v libx264"),
    "h265-720p-24": (1280, 720, 24, "mp4", "-c:v libx265 -x265-params log-level=none"),
    "vp9-720p-24": (1280, 720, 24, "webm", "-c:v libvpx-vp9 -crf 32 -b:v 0 -deadline realtime -cpu-used 8"),
}


def folder_of(kind, count):
    return measure.SCRATCH / f"clips-{count}" / kind


def files_of(kind, count):
    return sorted(folder_of(kind, count).iterdir())


def make_clips(kind, count):
    width, height, rate, ending, encoder = KINDS[kind]
    folder = folder_of(kind, count)
    folder.mkdir(parents=True, exist_ok=True)
    for i in range(count):
        path = folder / f"{i}.{ending}"
        if not path.exists():
            # A picture that moves, under noise as a camera has it.
            subprocess.run(["ffmpeg", "-v", "error", "-f", "lavfi", "-i", f"testsrc2=s={width}x{height}:r={rate}:d={SECONDS}", "-vf",
                            f"noise=alls=4:allf=t:all_seed={i}", *encoder.split(), "-pix_fmt", "yuv420p", path], check=True)


def wanted_frames(times):
    """For each wanted time the frame that was shown last, by the times of all frames, to a thousandth."""
    taken, k = [], 0
    for number, time_s in enumerate(times):
        following = times[number + 1] if number + 1 < len(times) else float("inf")
        while k < FRAMES and k / TO_RATE < following - 1e-3 and k / TO_RATE >= time_s - 1e-3:
            taken.append(number)
            k += 1
    return taken


def times_of(kind):
    rate = KINDS[kind][2]
    return [k / rate for k in range(rate * SECONDS)]


def covering(kind):
    """The sides to which a frame is scaled, and where the cut begins."""
    width, height = KINDS[kind][:2]
    scale = max(TO_WIDTH / width, TO_HEIGHT / height)
    size = round(width * scale), round(height * scale)
    return size, (size[0] - TO_WIDTH) // 2, (size[1] - TO_HEIGHT) // 2


def frames_of_pyav(path):
    import av
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        stream.thread_type, stream.codec_context.thread_count = "NONE", 1
        for frame in container.decode(stream):
            yield frame
            if frame.time > (FRAMES - 1) / TO_RATE:
                return


def load_pyav(kind, path):
    import numpy as np
    from PIL import Image
    wanted, frames = set(wanted_frames(times_of(kind))), []
    size, left, top = covering(kind)
    for number, frame in enumerate(frames_of_pyav(path)):
        if number in wanted:
            image = Image.fromarray(frame.to_ndarray(format="rgb24"))
            image = image if image.size == size else image.resize(size, Image.BILINEAR)
            frames.append(np.asarray(image.crop((left, top, left + TO_WIDTH, top + TO_HEIGHT))))
    return np.stack(frames)


def load_decord(kind, path):
    import decord
    size, left, top = covering(kind)
    reader = decord.VideoReader(str(path), width=size[0], height=size[1], num_threads=1)
    frames = reader.get_batch(wanted_frames(times_of(kind))).asnumpy()
    return frames[:, top:top + TO_HEIGHT, left:left + TO_WIDTH].copy()


def load_decoder(kind, path):
    for _ in frames_of_pyav(path):
        pass


LOADERS = {"PyAV": load_pyav, "decord": load_decord, "decoder": load_decoder}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clips", type=int, default=2)
    parser.add_argument("--alternations", type=int, default=3)
    parser.add_argument("--cases", default="")
    parser.add_argument("--kind", choices=KINDS)
    parser.add_argument("--peer", choices=LOADERS)
    args = parser.parse_args()
    if args.peer:
        return print(measure.cpu_per_file(lambda path: LOADERS[args.peer](args.kind, path), files_of(args.kind, args.clips)))
    times = {}
    for kind in filter(re.compile(args.cases).search, KINDS):
        make_clips(kind, args.clips)
        times[kind] = measure.loaders_in_turn(Path(__file__), ["--clips", args.clips, "--kind", kind], LOADERS, "clips", args.alternations,
                                              BURNISH_BENCH_CLIPS=str(folder_of(kind, args.clips)))
    if not times:
        parser.error(f"--cases '{args.cases}' matches none of {', '.join(KINDS)}")
    measure.record_loaders(
        "clips", "Clips to frames", f"./dev bench clips --clips {args.clips} --alternations {args.alternations}",
        f"{args.clips} clips of each kind, {FRAMES} frames at {TO_RATE} a second of each to {TO_WIDTH}x{TO_HEIGHT} uint8, one thread, CPU time, medians "
        f"of {args.alternations} runs in turn.", times)


if __name__ == "__main__":
    main()
