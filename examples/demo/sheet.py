#!/usr/bin/env python3
"""What the demo shows.

    sheet.py prompts FOLDER   writes FOLDER/prompts.txt: the captions that the LoRA never sees; and preview.txt, some of them
    sheet.py sheet FOLDER     writes FOLDER/sheet.png (what the LoRA was trained on; before and after of the captions that it never saw),
                              FOLDER/strip.png (some of them as the run went on) and FOLDER/loss.png, and prints the validation loss
"""
import csv, json, pathlib, sys
import matplotlib
matplotlib.use("Agg")
import matplotlib.pyplot as plt
from PIL import Image

COLUMNS, TRAINED = 6, 12  # pairs beside each other, and pictures of the training set above them
TRAINED_EVERY = 33
IN_STRIP = (0, 2, 6, 9)  # of the held-out captions
SHARP = 4  # times the side of a picture, so that it is not enlarged by whoever shows the page


def rows_of(folder, split):
    with open(folder / "pictures" / split / "metadata.csv", newline="") as f:
        return [(row["prompt"], folder / "pictures" / split / row["image"]) for row in csv.DictReader(f)]


def show(axis, path):
    picture = Image.open(path).convert("RGB")
    axis.imshow(picture.resize((picture.width * SHARP, picture.height * SHARP), Image.BICUBIC))
    axis.set_xticks([])
    axis.set_yticks([])
    for side in axis.spines.values():
        side.set_color("#cccccc")


def steps_drawn(folder):
    return sorted((int(p.name) for p in (folder / "drawn").iterdir()))


def contact_sheet(folder):
    captions = [caption for caption, _ in rows_of(folder, "held_out")]
    trained = rows_of(folder, "lora")
    last = steps_drawn(folder)[-1]
    bands = len(captions) // COLUMNS
    figure = plt.figure(figsize=(10, 1.15 + 3.65 * bands))
    outer = figure.add_gridspec(1 + bands, 1, height_ratios=[1.15, *[3.65] * bands], hspace=0.16, left=0.075, right=0.995, top=0.95, bottom=0.01)
    top = outer[0].subgridspec(1, TRAINED, wspace=0.06)
    for i in range(TRAINED):
        show(figure.add_subplot(top[i]), trained[i * TRAINED_EVERY][1])
    figure.text(0.075, 0.965, f"The LoRA saw {len(trained)} pictures, of other things than those below. Here are {TRAINED}:", fontsize=11)
    for band in range(bands):
        grid = outer[1 + band].subgridspec(2, COLUMNS, wspace=0.04, hspace=0.04)
        for column in range(COLUMNS):
            i = band * COLUMNS + column
            for line, (step, what) in enumerate(((0, "before"), (last, "after"))):
                axis = figure.add_subplot(grid[line, column])
                show(axis, folder / "drawn" / str(step) / f"{i:04}.png")
                if line == 0:
                    axis.set_title(captions[i].replace(" with ", "\nwith "), fontsize=9.5, pad=4)
                if column == 0:
                    axis.set_ylabel(what, fontsize=13)
    figure.savefig(folder / "sheet.png", dpi=100)
    Image.open(folder / "sheet.png").convert("P", palette=Image.ADAPTIVE, colors=256).save(folder / "sheet.png", optimize=True)


def strip(folder):
    """One row for every caption, one column for every step that was drawn."""
    steps = steps_drawn(folder)
    figure, axes = plt.subplots(len(IN_STRIP), len(steps), figsize=(1.5 * len(steps), 1.53 * len(IN_STRIP) + 0.2), squeeze=False)
    for i, row in zip(IN_STRIP, axes):
        for step, axis in zip(steps, row):
            show(axis, folder / "drawn" / str(step) / f"{i:04}.png")
            if i == IN_STRIP[0]:
                axis.set_title(f"step {step}", fontsize=10)
    figure.tight_layout(pad=0.3)
    figure.savefig(folder / "strip.png", dpi=100)
    Image.open(folder / "strip.png").convert("P", palette=Image.ADAPTIVE, colors=256).save(folder / "strip.png", optimize=True)


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
    print(f"validation loss on held-out Delft blue: {validation['before']:.4f} before, {validation['after']:.4f} after the LoRA")
    print(f"look at {folder}/sheet.png, strip.png and loss.png; the LoRA is {folder}/delft-lora.safetensors")


if __name__ == "__main__":
    main()
