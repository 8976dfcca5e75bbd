#!/usr/bin/env python3
"""Two builds of burnish on the same runs, in turn: did a change cost time or memory, and are the losses still the same?

usage: builds.py OTHER [--steps 12] [--alternations 4] [--threads 2]

OTHER is the program to compare with; this one is named by BURNISH in the environment, or is build/burnish. Medians of the steps
after the first two; the start is from the process's beginning to the beginning of its first step.
"""
import argparse
import json
import os
import shutil
import statistics

import measure

CASES = {
    "lora": "--lora_rank 16",
    "dora over fp8": "--fp8_models dit --lora_type dora --lora_rank 16",
    "full, recomputed": "--trainable_models dit --use_gradient_checkpointing",
}
DROPPED = 2


def train(program, options, args):
    folder = measure.SCRATCH / "builds"
    shutil.rmtree(folder, ignore_errors=True)
    pictures = measure.ROOT / "tests/golden/pipeline/pictures/metadata.csv"
    command = [program, "train", "--model", measure.small_model(), "--dataset_metadata_path", pictures, "--dtype", "fp32",
               "--height", 1024, "--width", 1024, "--max_steps", args.steps, "--num_threads", args.threads, "--output_path", folder,
               *options.split()]
    done = measure.run(command, measure.SCRATCH / "builds.log", dict(os.environ))
    lines = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return {"start": lines[0]["time"] - lines[0]["step_seconds"] - done.start,
            "step": statistics.median(line["step_seconds"] for line in lines[DROPPED:]),
            "peak": done.peak_mib,
            "losses": [line["loss"] for line in lines]}


def compare(name, other, args):
    this = str(measure.burnish())
    runs = {other: [], this: []}
    for turn in range(args.alternations):
        for program in sorted(runs, reverse=bool(turn % 2)):
            runs[program].append(train(program, CASES[name], args))
    theirs, ours = ({key: statistics.median(run[key] for run in of) for key in ("step", "start", "peak")} for of in runs.values())
    same = "same" if runs[other][0]["losses"] == runs[this][0]["losses"] else "differ"
    row = [name, f"{1e3 * theirs['step']:.1f}", f"{1e3 * ours['step']:.1f}"]
    row += [f"{ours[key] / theirs[key]:.3f}" for key in ("step", "start", "peak")] + [same]
    return row, {name: {"other": runs[other], "this": runs[this]}}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("other")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--alternations", type=int, default=4)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    other = os.path.abspath(args.other)
    rows, data = [], {}
    for name in CASES:
        row, runs = compare(name, other, args)
        rows.append(row)
        data.update(runs)
    table = measure.markdown(["case", "other, ms a step", "this", "step", "start", "peak", "losses"], rows)
    machine = measure.cpu()
    text = (f"# Two builds of burnish\n\n{machine['name']}, {machine['cores']} cores, {args.threads} threads; this build is {measure.commit()}.\n"
            f"assets/tiny-flux at 1024x1024, batch 1, fp32; {args.alternations} runs of {args.steps} steps of each in turn, medians. "
            f"Ratios are this build over the other.\n\n{table}\n"
            f"Reproduce: `./dev bench builds OTHER --steps {args.steps} --alternations {args.alternations} --threads {args.threads}`\n")
    print(text)
    print(f"recorded in {measure.record('builds', machine['name'], text, data)}")


if __name__ == "__main__":
    main()
