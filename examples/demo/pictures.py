#!/usr/bin/env python3
"""What the demo shows.

    pictures.py prompts FOLDER   writes FOLDER/prompts.txt: the captions that the LoRA never sees; and preview.txt, some of them
    pictures.py sheet FOLDER     writes FOLDER/sheet.png (what the LoRA was trained on; before and after of the captions that it never saw),
                                 FOLDER/strip.png (some of them as the run went on) and FOLDER/loss.png, and prints the validation loss
"""
import csv, json, pathlib, sys
import matplotlib
matplotlib.use("Agg")
import matplotlib.pyplot as plt
from canvas import Canvas

COLUMNS, TRAINED = 6, 12  # pairs beside each other, and pictures of the training set above them
TRAINED_EVERY = 33
IN_STRIP = (0, 2, 6, 9)  # of the held-out captions
SIDE, GAP, LABELS = 192, 8, 60  # pixels of a picture, between pictures, and left of them


def rows_of(folder, split):
    with open(folder / "pictures" / split / "metadata.csv", newline="") as f:
        return [(row["prompt"], folder / "pictures" / split / row["image"]) for row in csv.DictReader(f)]


def steps_drawn(folder):
    return sorted((int(p.name) for p in (folder / "drawn").iterdir()))


def drawn(folder, step, i):
    return folder / "drawn" / str(step) / f"{i:04}.png"


def contact_sheet(folder):
    captions = [caption for caption, _ in rows_of(folder, "held_out")]
    trained = rows_of(folder, "lora")
    last = steps_drawn(folder)[-1]
    bands = len(captions) // COLUMNS
    small, step = SIDE // 2, SIDE + GAP
    top, band_height = 36 + small + GAP, 2 * step + 58
    sheet = Canvas(LABELS + COLUMNS * step, top + bands * band_height)
    sheet.words(f"The LoRA saw {len(trained)} pictures, of other things than those below. Here are {TRAINED}:", LABELS, 8)
    for i in range(TRAINED):
        sheet.picture(trained[i * TRAINED_EVERY][1], LABELS + i * step * COLUMNS // TRAINED, 36, small)
    for i, caption in enumerate(captions):
        x, y = LABELS + i % COLUMNS * step, top + i // COLUMNS * band_height + 54
        sheet.words(caption.replace(" with ", "\nwith "), x + SIDE // 2, y - 6, anchor="md")
        for line, (at, what) in enumerate(((0, "before"), (last, "after"))):
            sheet.picture(drawn(folder, at, i), x, y + line * step, SIDE)
            if i % COLUMNS == 0:
                sheet.words(what, LABELS // 2 - 2, y + line * step + SIDE // 2, anchor="mm")
    sheet.save(folder / "sheet.png")


def strip(folder):
    """One row for every caption, one column for every step that was drawn."""
    steps = steps_drawn(folder)
    sheet = Canvas(GAP + len(steps) * (SIDE + GAP), 36 + len(IN_STRIP) * (SIDE + GAP))
    for column, step in enumerate(steps):
        x = GAP + column * (SIDE + GAP)
        sheet.words(f"step {step}", x + SIDE // 2, 18, anchor="mm")
        for row, i in enumerate(IN_STRIP):
            sheet.picture(drawn(folder, step, i), x, 36 + row * (SIDE + GAP), SIDE)
    sheet.save(folder / "strip.png")


def loss_curve(folder, validation):
    with open(folder / "run/log.jsonl") as f:
        log = [line for line in map(json.loads, f) if line["step"] > 0]
    losses = [line["raw_loss"] for line in log]
    window = 20
    smooth = [sum(losses[max(0, i - window + 1):i + 1]) / min(i + 1, window) for i in range(len(losses))]
    figure, axis = plt.subplots(figsize=(7, 4))
    axis.plot([line["step"] for line in log], losses, alpha=0.3, label="training loss of each step")
    axis.plot([line["step"] for line in log], smooth, color="tab:blue", label=f"its mean over {window} steps")
    axis.plot([0, log[-1]["step"]], [validation["before"], validation["after"]], "o", color="tab:orange", label="validation loss, before and after")
    axis.set_xlabel("step")
    axis.set_ylabel("flow-matching loss")
    axis.set_ylim(bottom=0)
    axis.legend()
    figure.tight_layout()
    figure.savefig(folder / "loss.png", dpi=90)


def main():
    if len(sys.argv) != 3 or sys.argv[1] not in ("prompts", "sheet"):
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[2])
    if sys.argv[1] == "prompts":
        captions = [caption + "\n" for caption, _ in rows_of(folder, "held_out")]
        (folder / "prompts.txt").write_text("".join(captions))
        (folder / "preview.txt").write_text("".join(captions[i] for i in IN_STRIP))
        return
    validation = json.loads((folder / "run/validation.json").read_text())
    contact_sheet(folder)
    strip(folder)
    loss_curve(folder, validation)
    print(f"validation loss on held-out pixel art: {validation['before']:.4f} before, {validation['after']:.4f} after the LoRA")
    print(f"look at {folder}/sheet.png, strip.png and loss.png; the LoRA is {folder}/pixel-lora.safetensors")


if __name__ == "__main__":
    main()
