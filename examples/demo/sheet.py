#!/usr/bin/env python3
"""What the demo shows.

    sheet.py prompts FOLDER   writes FOLDER/prompts.txt: captions of the contact sheet, held-out ones first; and preview.txt, some of them
    sheet.py sheet FOLDER     writes FOLDER/sheet.png (target style | before | after), FOLDER/strip.png (held-out captions as the run went
                              on) and FOLDER/loss.png, and prints the validation loss
"""
import csv, json, pathlib, sys
import matplotlib
matplotlib.use("Agg")
import matplotlib.pyplot as plt
from PIL import Image

NUM_HELD_OUT, NUM_TRAINED = 12, 4
PREVIEWED = (0, 2, 6, 9)  # of the held-out captions, as the run goes on
SCALE = 2


def chosen(folder):
    """(caption, target picture, held out?) of every row of the sheet."""
    rows = []
    for split, count in (("held_out", NUM_HELD_OUT), ("lora", NUM_TRAINED)):
        with open(folder / "pictures" / split / "metadata.csv", newline="") as f:
            for row in list(csv.DictReader(f))[:count]:
                rows.append((row["prompt"], folder / "pictures" / split / row["image"], split == "held_out"))
    return rows


def enlarged(path):
    picture = Image.open(path).convert("RGB")
    return picture.resize((picture.width * SCALE, picture.height * SCALE), Image.LANCZOS)


def contact_sheet(folder):
    rows = chosen(folder)
    columns = 4
    figure, axes = plt.subplots((len(rows) + columns - 1) // columns, columns, figsize=(14, 6.8))
    figure.suptitle("target style  |  base model  |  with the LoRA        (same caption, same noise)", fontsize=13)
    for i, (axis, (caption, target, held_out)) in enumerate(zip(axes.flat, rows)):
        parts = [enlarged(p) for p in (target, folder / "before" / f"{i:04}.png", folder / "after" / f"{i:04}.png")]
        strip = Image.new("RGB", (sum(p.width for p in parts) + 8, parts[0].height), (200, 200, 200))
        x = 0
        for part in parts:
            strip.paste(part, (x, 0))
            x += part.width + 4
        axis.imshow(strip)
        axis.set_title(f"{caption} ({'held out' if held_out else 'trained on'})", fontsize=9, color="black" if held_out else "tab:blue")
    for axis in axes.flat:
        axis.axis("off")
    figure.tight_layout()
    figure.savefig(folder / "sheet.png", dpi=80)


def strip(folder):
    """One row for every caption of preview.txt, one column for every time at which the run drew it."""
    drawn = sorted((folder / "run/samples").glob("step-*"))
    captions = (folder / "preview.txt").read_text().splitlines()
    figure, axes = plt.subplots(len(captions), len(drawn), figsize=(1.2 * len(drawn), 1.25 * len(captions)), squeeze=False)
    for i, caption in enumerate(captions):
        for axis, step in zip(axes[i], drawn):
            axis.imshow(enlarged(step / f"{i:02}.png"))
            axis.axis("off")
            if i == 0:
                axis.set_title(f"step {int(step.name.removeprefix('step-'))}", fontsize=9)
    figure.tight_layout(pad=0.3)
    figure.savefig(folder / "strip.png", dpi=90)


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
        captions = [caption + "\n" for caption, _, _ in chosen(folder)]
        (folder / "prompts.txt").write_text("".join(captions))
        (folder / "preview.txt").write_text("".join(captions[i] for i in PREVIEWED))
        return
    validation = json.loads((folder / "run/validation.json").read_text())
    contact_sheet(folder)
    strip(folder)
    loss_curve(folder, validation)
    print(f"validation loss on held-out Delft blue: {validation['before']:.4f} before, {validation['after']:.4f} after the LoRA")
    print(f"look at {folder}/sheet.png, strip.png and loss.png; the LoRA is {folder}/delft-lora.safetensors")


if __name__ == "__main__":
    main()
