#!/usr/bin/env python3
"""What DMD2 does for drawing in few steps: drawings of a model in 1, 2 and 4 steps before and after it, beside what it draws in many.

The model is assets/tiny-flux, trained on over all its emoji in colour under one caption, so that what is drawn is left to the noise: a model in too few steps
draws the mean of what it could draw. A student trains for each number of steps, a LoRA, in several seeds, and draws at the times that it was trained at, most
of them early, from noisy data, and under backward simulation with a fake score that learns faster and no momentum; before that, the model draws in as many
steps of its own schedule. All are held against drawings of the model in 24 steps, and against the data, which a model that is not done learning differs from.
Apart: the energy distance (Székely and Rizzo 2013) between the latents of the two, from other noise, in parts of the mean distance between two of the latter.
Variety: the mean distance between two drawings, in parts of that. Off: the distance of a drawing from that in many steps from its noise, in parts of its
norm, which nothing asks of a student that draws new noise. Nothing is timed: a busy machine gives the same. Runs that are there already are kept, so that a
broken one goes on.
"""
import argparse
import csv
import datetime
import shutil
import statistics
import subprocess
import sys

import torch
from safetensors.torch import load_file

import measure

DATA, OUT = measure.SCRATCH / "few-pictures", measure.SCRATCH / "few-steps"
SIDE, MANY, DRAWN, CAPTION = 192, 24, 96, "emoji"
BEFORE, AFTER, SIMULATED = "before", "after", "after, simulated"
OPTIONS = {AFTER: [], SIMULATED: ["--dmd2_backward_simulation", "--dmd2_fake_score_learning_rate", 1e-3, "--optimizer_args", "betas=0,0.999"]}
TIMES = {1: "0.999,0", 2: "0.999,0.9,0", 4: "0.999,0.96,0.9,0.8,0"}  # most of what is drawn is settled where there is much noise


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--steps", type=int, default=200, help="of each student's training")
    p.add_argument("--model_steps", type=int, default=400, help="of the model's own training")
    p.add_argument("--drawn_in", default="1,2,4", help=f"steps that students draw in, of {', '.join(map(str, TIMES))}")
    p.add_argument("--seeds", type=int, default=3)
    p.add_argument("--first_seed", type=int, default=0, help="settings are tuned with other seeds than are recorded")
    p.add_argument("--threads", type=int, default=measure.cpu()["cores"])
    args = p.parse_args()
    args.drawn_in = [int(number) for number in args.drawn_in.split(",")]
    return args


def make_pictures():
    if not (DATA / "one-caption.csv").exists():
        subprocess.run([sys.executable, "recipes/tiny_flux/make_pictures.py", "--style", "colour", "--split", "all", "--size", str(SIDE), "--out", DATA],
                       cwd=measure.ROOT, check=True)
        with open(DATA / "metadata.csv", newline="") as read, open(DATA / "one-caption.csv", "w", newline="") as written:
            csv.writer(written).writerows([("image", "prompt"), *((row["image"], CAPTION) for row in csv.DictReader(read))])
    return DATA / "one-caption.csv"


class Bench:
    def __init__(self, args):
        self.args, self.environment = args, measure.environment(args.threads) | {"OMP_WAIT_POLICY": "passive"}
        self.pictures, self.model = make_pictures(), OUT / f"model-{args.model_steps}"
        if not self.model.exists():
            trained = self.train(measure.small_model(), f"trained-{args.model_steps}", 0, args.model_steps, "--trainable_models", "dit", "--batch_size", 16,
                                 "--learning_rate", 3e-4, "--timestep_sampling", "uniform", "--loss_weighting", "uniform")
            shutil.copytree(measure.small_model(), self.model)
            shutil.copy(trained, self.model / "transformer/diffusion_pytorch_model.safetensors")

    def run(self, verb, model, *options):
        measure.run([measure.burnish(), verb, "--model", model, "--height", SIDE, "--width", SIDE, "--dtype", "bf16", "--num_threads", self.args.threads, *options],
                    OUT / "log.txt", self.environment)

    def train(self, model, name, seed, steps, *options):
        file = OUT / name / f"step-{steps}.safetensors"
        if not file.exists():
            self.run("train", model, "--dataset_metadata_path", self.pictures, "--max_steps", steps, "--seed", seed, "--lr_warmup_steps", 10, "--overwrite",
                     "--output_path", OUT / name, *options)
        return file

    def data(self):
        """Latents of all pictures [N, C H W], as their encoder leaves them in a cache."""
        cache = OUT / "data"
        if not (cache / "manifest.json").exists():
            self.run("train", self.model, "--task", "sft:data_process", "--lora_rank", 4, "--dataset_metadata_path", self.pictures, "--output_path", cache)
        return torch.cat([latents for file in sorted(cache.glob("encode_image-*/*.safetensors")) for latents in load_file(file).values()]).float().flatten(1)

    def student(self, num_steps, seed, when):
        name = f"student-{num_steps}-{seed}-{self.args.steps}-{self.args.model_steps}" + ("-simulated-fast" if when == SIMULATED else "")
        return self.train(self.model, name, seed, self.args.steps, "--task", "dmd2", *OPTIONS[when],
                          "--dmd2_student_sample_steps", num_steps, "--dmd2_student_t_list", TIMES[num_steps], "--batch_size", 8, "--lora_rank", 32,
                          "--lora_target_modules", "all-linear", "--learning_rate", 3e-4)

    def drawn(self, name, seed, *options):
        """Latents of so many drawings [N, C H W]."""
        latents = OUT / f"{name}-{seed}-{self.args.model_steps}.safetensors"
        if not latents.exists():
            self.run("sample", self.model, *(["--prompt", CAPTION] * DRAWN), "--seed", seed, "--save_latents", latents, "--output_path", OUT / name, *options)
        return load_file(latents)["latents"].float().flatten(1)

    def drawn_by(self, num_steps, seed, when, of_pictures):
        if when == BEFORE:
            return self.drawn(f"before-{num_steps}", of_pictures, "--num_inference_steps", num_steps)
        student = self.student(num_steps, seed, when)
        return self.drawn(f"{student.parent.name}-drawn", of_pictures, "--lora", student)

    def measured(self):
        """{(steps, when): [[apart, variety, off, apart from data, variety beside data] a seed]}; of many steps those from other noise."""
        ways = [(n, when) for n in self.args.drawn_in for when in (BEFORE, AFTER, SIMULATED) if n > 1 or when != SIMULATED]
        found, data = {way: [] for way in [*ways, (MANY, BEFORE)]}, self.data()
        for seed in range(self.args.first_seed, self.args.first_seed + self.args.seeds):
            of_pictures = 1000 * seed  # the seeds of the pictures count on from it
            many, others = (self.drawn("many", of, "--num_inference_steps", MANY) for of in (of_pictures, of_pictures + 500))
            found[MANY, BEFORE].append(compared(many, many, others, data))
            for n, when in ways:
                found[n, when].append(compared(self.drawn_by(n, seed, when, of_pictures), many, others, data))
                print(f"{n} steps, {when}, seed {seed}: " + ", ".join(f"{x:.3f}" for x in found[n, when][-1]), flush=True)
        return found


def among(x):
    return float(torch.cdist(x, x).sum()) / (len(x) * (len(x) - 1))


def apart(drawn, others):
    return (2 * float(torch.cdist(drawn, others).mean()) - among(drawn) - among(others)) / among(others)


def compared(drawn, many, others, data):
    off = float(((drawn - many).norm(dim=1) / many.norm(dim=1)).mean())
    return [apart(drawn, others), among(drawn) / among(others), off, apart(drawn, data), among(drawn) / among(data)]


def table(found):
    rows = []
    for (num_steps, when), of_seeds in found.items():
        cells = [f"{100 * statistics.mean(values):.1f}" + (f" ± {100 * statistics.stdev(values):.1f}" if len(values) > 1 else "") + " %" for values in zip(*of_seeds)]
        rows.append([num_steps, when, *cells])
    return measure.markdown(["steps", "DMD2", "apart", "variety", "off", "apart from data", "variety beside data"], rows)


def main():
    args = arguments()
    found = Bench(args).measured()
    cpu = measure.cpu()
    text = (f"# Drawing in few steps before and after DMD2, {datetime.date.today().isoformat()}\n\n{cpu['name']}; burnish {measure.commit()}. assets/tiny-flux after {args.model_steps} "
            f"steps of 16 pictures under one caption; students are LoRAs of rank 32 on every linear layer, {args.steps} steps of 8 pictures, bf16; {DRAWN} drawings each; means and "
            f"standard deviations over {args.seeds} seeds from {args.first_seed} on.\n\n{table(found)}\nReproduce: `./dev bench few_steps --steps {args.steps} --seeds {args.seeds} --first_seed {args.first_seed} --model_steps "
            f"{args.model_steps} --drawn_in {','.join(map(str, args.drawn_in))}`\n")
    measure.tell("few_steps", text, {"steps": args.steps, "results": {f"{n} {when}": of for (n, when), of in found.items()}})


if __name__ == "__main__":
    main()
