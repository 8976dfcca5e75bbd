#!/usr/bin/env python3
"""Clips to frames beside PyAV and decord: H.264 clips of 1280x720, 30 frames a second; 81 frames at 16 a second of each, scaled and cut to
832x480, on one thread each, in turn.

usage: clips.py [--clips 4] [--alternations 3]

Each decodes a file, takes the frames that are shown at 0, 1/16 s and so on, scales them so that they cover 832x480, cuts out the centre and
stacks uint8 [81, 480, 832, 3]. PyAV's frames are scaled by Pillow (BILINEAR, which smooths), decord's by itself while it decodes. Ours is
bench_micro on the same files. "decoder" is PyAV that decodes all frames up to the last one and does nothing with them: the bound.
"""
import argparse
import statistics
import subprocess
from pathlib import Path

import measure

WIDTH, HEIGHT, RATE, SECONDS = 1280, 720, 30, 6
TO_WIDTH, TO_HEIGHT, FRAMES, TO_RATE = 832, 480, 81, 16


def make_clips(folder, count):
    folder.mkdir(parents=True, exist_ok=True)
    for i in range(count):
        path = folder / f"{i}.mp4"
        if not path.exists():
            # A picture that moves, under noise as a camera has it.
            subprocess.run(["ffmpeg", "-v", "error", "-f", "lavfi", "-i", f"testsrc2=s={WIDTH}x{HEIGHT}:r={RATE}:d={SECONDS}", "-vf",
                            f"noise=alls=8:allf=t:all_seed={i}", "-c:v", "libx264", "-crf", "20", "-pix_fmt", "yuv420p", path], check=True)


def wanted_frames(times):
    """For each wanted time the frame that was shown last, by the times of all frames, to half a frame of 30 a second."""
    taken, k = [], 0
    for number, time_s in enumerate(times):
        following = times[number + 1] if number + 1 < len(times) else float("inf")
        while k < FRAMES and k / TO_RATE < following - 1e-3 and k / TO_RATE >= time_s - 1e-3:
            taken.append(number)
            k += 1
    return taken


def frames_of_pyav(path):
    import av
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        stream.thread_type, stream.codec_context.thread_count = "NONE", 1
        for frame in container.decode(stream):
            yield frame
            if frame.time > (FRAMES - 1) / TO_RATE:
                return


def load_pyav(path):
    import numpy as np
    from PIL import Image
    wanted = set(wanted_frames([k / RATE for k in range(RATE * SECONDS)]))
    frames = []
    scale = max(TO_WIDTH / WIDTH, TO_HEIGHT / HEIGHT)
    size = round(WIDTH * scale), round(HEIGHT * scale)
    left, top = (size[0] - TO_WIDTH) // 2, (size[1] - TO_HEIGHT) // 2
    for number, frame in enumerate(frames_of_pyav(path)):
        if number in wanted:
            image = Image.fromarray(frame.to_ndarray(format="rgb24")).resize(size, Image.BILINEAR)
            frames.append(np.asarray(image.crop((left, top, left + TO_WIDTH, top + TO_HEIGHT))))
    return np.stack(frames)


def load_decord(path):
    import decord
    scale = max(TO_WIDTH / WIDTH, TO_HEIGHT / HEIGHT)
    size = round(WIDTH * scale), round(HEIGHT * scale)
    reader = decord.VideoReader(str(path), width=size[0], height=size[1], num_threads=1)
    frames = reader.get_batch(wanted_frames([k / RATE for k in range(RATE * SECONDS)])).asnumpy()
    left, top = (size[0] - TO_WIDTH) // 2, (size[1] - TO_HEIGHT) // 2
    return frames[:, top:top + TO_HEIGHT, left:left + TO_WIDTH].copy()


def load_decoder(path):
    for _ in frames_of_pyav(path):
        pass


LOADERS = {"PyAV": load_pyav, "decord": load_decord, "decoder": load_decoder}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clips", type=int, default=4)
    parser.add_argument("--alternations", type=int, default=3)
    parser.add_argument("--peer", choices=LOADERS)
    args = parser.parse_args()
    folder = measure.SCRATCH / f"clips-{args.clips}"
    if args.peer:
        return print(measure.cpu_per_file(LOADERS[args.peer], sorted(folder.glob("*.mp4"))))
    make_clips(folder, args.clips)
    times = measure.loaders_in_turn(Path(__file__), LOADERS, "clips", args.clips, args.alternations, BURNISH_BENCH_CLIPS=str(folder))
    ours = statistics.median(times["burnish"])
    rows = [[name, f"{1e3 / statistics.median(of):.2f}", f"{statistics.median(of) / ours:.2f}"] for name, of in times.items()]
    machine = measure.cpu()
    command = f"./dev bench clips --clips {args.clips} --alternations {args.alternations}"
    text = (f"# Clips to frames\n\n{machine['name']}; burnish {measure.commit()}; `{command}`.\n{args.clips} clips of {WIDTH}x{HEIGHT} at {RATE} a second, {FRAMES} "
            f"frames at {TO_RATE} of each to {TO_WIDTH}x{TO_HEIGHT} uint8, one thread, CPU time, medians of {args.alternations} runs in turn.\n\n"
            + measure.markdown(["program", "clips a second", "burnish over it"], rows))
    print(text)
    print(f"recorded in {measure.record('clips', machine['name'], text, times)}")


if __name__ == "__main__":
    main()
