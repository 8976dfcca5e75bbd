#!/usr/bin/env python3
"""What the demo of clips shows.

    video.py prompts FOLDER   writes FOLDER/prompts.txt: the captions that the LoRA never sees
    video.py sheet FOLDER     writes FOLDER/sheet.webp, an animation: clips that the LoRA was trained on; before and after of the captions that it
                              never saw; and FOLDER/frames.png, the frames of some of them; and prints the validation loss
"""
import csv, json, pathlib, sys
from canvas import Canvas
from PIL import Image, ImageSequence

SIDE, SMALL, GAP, LABELS = 128, 64, 8, 72  # pixels of a clip, of one of the training set, between clips, and left of them
IN_FRAMES = (0, 3)  # of the held-out captions
TIMES = range(0, 17 * 1000 // 16, 125)  # milliseconds at which a frame of theirs is shown: every other one


def rows_of(folder, split):
    with open(folder / split / "metadata.csv", newline="") as f:
        return [(row["prompt"], folder / split / row["video"]) for row in csv.DictReader(f)]


def frames_of(path):
    """Each frame with the milliseconds for which it is seen."""
    return [(frame.convert("RGB"), frame.info["duration"]) for frame in ImageSequence.Iterator(Image.open(path))]


def at_time(frames, ms):
    for picture, duration in frames:
        if ms < duration:
            return picture
        ms -= duration
    return frames[-1][0]


def animation(folder):
    captions = [caption for caption, _ in rows_of(folder, "held_out")]
    trained = [frames_of(path) for _, path in rows_of(folder, "lora")]
    drawn = {name: [frames_of(folder / name / f"{i:04}.webp") for i in range(len(captions))] for name in ("before", "after")}
    step, top = SIDE + GAP, 36 + SMALL + GAP + 30
    pictures, ms, durations = [], 0, [62 + i % 2 for i in range(17)]
    for duration in durations:
        sheet = Canvas(LABELS + len(captions) * step, top + 2 * step)
        sheet.words(f"The LoRA saw these {len(trained)} clips; below are others.", LABELS, 8)
        for i, frames in enumerate(trained):
            sheet.picture(at_time(frames, ms), LABELS + i * step * len(captions) // len(trained), 36, SMALL)
        for i, caption in enumerate(captions):
            x = LABELS + i * step
            sheet.words(caption.replace(" hopping", ""), x + SIDE // 2, top - 6, size=14, anchor="md")
            for line, (name, clips) in enumerate(drawn.items()):
                sheet.picture(at_time(clips[i], ms), x, top + line * step, SIDE)
                if i == 0:
                    sheet.words(name, LABELS // 2 - 2, top + line * step + SIDE // 2, anchor="mm")
        pictures.append(sheet.image)
        ms += duration
    pictures[0].save(folder / "sheet.webp", save_all=True, append_images=pictures[1:], duration=durations, loop=0, quality=80, method=6)


def strip(folder):
    """Frames beside each other, before above after, for a page that does not move."""
    captions = [caption for caption, _ in rows_of(folder, "held_out")]
    lines = [(name, i) for i in IN_FRAMES for name in ("before", "after")]
    sheet = Canvas(LABELS + 24 + len(TIMES) * (SMALL + GAP), GAP + len(lines) * (SMALL + GAP))
    for line, (name, i) in enumerate(lines):
        y = GAP + line * (SMALL + GAP)
        sheet.words(f"{captions[i].replace(' hopping', '')},\n{name}", (LABELS + 20) // 2, y + SMALL // 2, size=12, anchor="mm")
        frames = frames_of(folder / name / f"{i:04}.webp")
        for column, ms in enumerate(TIMES):
            sheet.picture(at_time(frames, ms), LABELS + 24 + column * (SMALL + GAP), y, SMALL)
    sheet.save(folder / "frames.png")


def main():
    if len(sys.argv) != 3 or sys.argv[1] not in ("prompts", "sheet"):
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[2])
    if sys.argv[1] == "prompts":
        (folder / "prompts.txt").write_text("".join(caption + "\n" for caption, _ in rows_of(folder, "held_out")))
        return
    animation(folder)
    strip(folder)
    validation = json.loads((folder / "run/validation.json").read_text())
    print(f"validation loss on held-out hopping: {validation['before']:.4f} before, {validation['after']:.4f} after the LoRA")
    print(f"look at {folder}/sheet.webp (in a browser) and frames.png; the LoRA is {folder}/hopping-lora.safetensors")


if __name__ == "__main__":
    main()
