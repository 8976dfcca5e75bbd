#!/usr/bin/env python3
"""What each term against forgetting does: how much of a subject a LoRA learns with it, and how far it moves what it should keep.

The base is assets/tiny-flux, which draws emoji in colour. The subject is the cats among them in pixel art, "sks face" in their captions where the
class's have "cat face"; two of them are held out. Learned: how far the loss of the held-out ones falls, at the same noise and times. Moved: how far
the latents of drawings from the same noise are from the base's, in parts of their norm, under the class's captions and under others. Seeds run in the
outer loop, and runs that are there already are kept, so that a broken one goes on. Nothing is timed: a busy machine gives the same.
"""
import argparse
import csv
import datetime
import json
import re
import statistics
import subprocess
import sys

import measure

TRIGGER, CLASS = "sks", "cat"
HELD_OUT = 2  # of the subject's pictures
DATA, OUT = measure.SCRATCH / "preservation-pictures", measure.SCRATCH / "preservation"
OTHERS = ["red apple", "pizza", "bus", "octopus", "house building", "glowing star", "grinning face", "tree"]
CLASS_CAPTION = ["--diff_output_preservation", "--diff_output_preservation_class", CLASS]
CLASS_PICTURES = ["--class_metadata_path", DATA / "class.csv"]
TERMS = {
    "none": [],
    "class's caption": CLASS_CAPTION,
    "class's caption, ×4": [*CLASS_CAPTION, "--diff_output_preservation_multiplier", 4],
    "empty caption": ["--blank_prompt_preservation"],
    "class's and empty caption": [*CLASS_CAPTION, "--blank_prompt_preservation"],
    "drift 0.1": ["--drift_loss_weight", 0.1],
    "drift 0.5": ["--drift_loss_weight", 0.5],
    "class's pictures": CLASS_PICTURES,
    "class's pictures, model's answers": [*CLASS_PICTURES, "--class_target", "model"],
}


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--steps", type=int, default=100)
    p.add_argument("--seeds", type=int, default=3)
    p.add_argument("--threads", type=int, default=measure.cpu()["cores"])
    p.add_argument("--again", action="store_true", help="run anew what is there already")
    return p.parse_args()


def write_rows(name, rows):
    with open(DATA / name, "w", newline="") as file:
        csv.writer(file).writerows([("image", "prompt"), *rows])
    return DATA / name


def make_pictures():
    """The class's captions."""
    if not (DATA / "pixel/metadata.csv").exists():
        for style in ("colour", "pixel"):
            subprocess.run([sys.executable, "recipes/tiny_flux/make_pictures.py", "--style", style, "--split", "all", "--size", "192", "--out", DATA / style],
                           cwd=measure.ROOT, check=True)
    cats = {}
    for style in ("colour", "pixel"):
        with open(DATA / style / "metadata.csv", newline="") as file:
            cats[style] = [(f"{style}/{row['image']}", row["prompt"]) for row in csv.DictReader(file) if re.search(rf"\b{CLASS} face\b", row["prompt"])]
    subject = [(image, re.sub(rf"\b{CLASS} face\b", f"{TRIGGER} face", prompt)) for image, prompt in cats["pixel"]]
    write_rows("subject.csv", subject[:-HELD_OUT])
    write_rows("held_out.csv", subject[-HELD_OUT:] * 12)  # each row has noise and a time of its own
    write_rows("class.csv", cats["colour"])
    return [prompt for _, prompt in cats["colour"]]


def train(name, options, seed, args):
    out = OUT / re.sub(r"\W+", "-", f"{name} {seed} {args.steps}")
    result = out / "validation.json"
    if args.again or not result.exists():
        measure.run([measure.burnish(), "train", "--model", measure.small_model(), "--dataset_metadata_path", DATA / "subject.csv", "--validation_metadata_path",
                     DATA / "held_out.csv", "--trigger_word", TRIGGER, "--height", 192, "--width", 192, "--dtype", "bf16",
                     "--batch_size", 4, "--lora_rank", 16, "--lora_target_modules", "all-linear", "--learning_rate", 1e-3, "--lr_warmup_steps", 10,
                     "--timestep_sampling", "uniform", "--loss_weighting", "uniform", "--max_steps", args.steps, "--seed", seed, "--num_threads", args.threads,
                     "--overwrite", "--output_path", out, *options], OUT / "log.txt", measure.environment(args.threads) | {"OMP_WAIT_POLICY": "passive"})
    return out, json.loads(result.read_text())


def drawn(prompts, lora, name, args):
    from safetensors.torch import load_file

    latents = OUT / f"{name}.safetensors"
    if args.again or not latents.exists():
        measure.run([measure.burnish(), "sample", "--model", measure.small_model(), *(word for prompt in prompts for word in ("--prompt", prompt)), "--height", 192,
                     "--width", 192, "--seed", 1, "--num_inference_steps", 12, "--dtype", "bf16", "--save_latents", latents, "--output_path", OUT / name,
                     "--num_threads", args.threads, *(["--lora", lora] if lora else [])], OUT / "log.txt", measure.environment(args.threads))
    return load_file(latents)["latents"].float()


def moved(found, base):
    """The mean over drawings of their distance, in parts of their norm."""
    return float(((found - base).flatten(1).norm(dim=1) / base.flatten(1).norm(dim=1)).mean())


def measured(args):
    """{term: [[learned, moved of the class, of others] a seed]}"""
    captions = make_pictures()
    base = {"class": drawn(captions, None, "base-class", args), "others": drawn(OTHERS, None, "base-others", args)}
    found = {name: [] for name in TERMS}
    for seed in range(args.seeds):
        for name, options in TERMS.items():
            out, loss = train(name, options, seed, args)
            lora = out / f"step-{args.steps}.safetensors"
            far = [moved(drawn(prompts, lora, f"{out.name}-{kind}", args), base[kind]) for kind, prompts in (("class", captions), ("others", OTHERS))]
            found[name].append([(loss["before"] - loss["after"]) / loss["before"], *far])
            print(f"{name:<34} seed {seed}: learned {found[name][-1][0]:.3f}, moved {far[0]:.3f} and {far[1]:.3f}", flush=True)
    return found


def table(found):
    rows = []
    for name, of_seeds in found.items():
        cells = []
        for values in zip(*of_seeds):
            deviation = f" ± {100 * statistics.stdev(values):.1f}" if len(values) > 1 else ""
            cells.append(f"{100 * statistics.mean(values):.1f}{deviation} %")
        rows.append([name, *cells])
    return measure.markdown(["term", "subject: the loss falls by", "class moved by", "others moved by"], rows)


def main():
    args = arguments()
    found = measured(args)
    cpu = measure.cpu()
    text = (f"# What terms against forgetting do, {datetime.date.today().isoformat()}\n\n{cpu['name']}; burnish {measure.commit()}. assets/tiny-flux, a LoRA of rank 16 on "
            f"every linear layer, {args.steps} steps of 4 pictures, bf16; means and standard deviations over {args.seeds} seeds.\n\n{table(found)}\n"
            f"Reproduce: `./dev bench preservation --steps {args.steps} --seeds {args.seeds}`\n")
    measure.tell("preservation", text, {"steps": args.steps, "results": found})


if __name__ == "__main__":
    main()
