#!/usr/bin/env python3
"""A run on cores that other programs use too: how threads wait, chosen by the program and by the environment, idle and beside busy processes.

usage: neighbours.py [OTHER] [--busy 3] [--steps 60] [--alternations 4] [--threads 2] [--size 512]

OTHER is a build of burnish to compare with; this one is named by BURNISH in the environment, or is build/burnish. The machine should do
nothing else. Steps are those after the first two.
"""
import argparse
import contextlib
import json
import os
import shutil
import statistics
import subprocess
import sys

import measure

DROPPED = 2
SAID = "threads wait asleep"
ALLOWED = {"idle": 1.02, "busy": 1.2}  # of the other build, and of threads that always wait asleep


@contextlib.contextmanager
def busy_processes(number):
    """So many processes that never wait, while the block lasts."""
    processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(number)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def train(program, policy, args):
    folder, log = measure.SCRATCH / "neighbours", measure.SCRATCH / "neighbours.log"
    shutil.rmtree(folder, ignore_errors=True)
    pictures = measure.ROOT / "tests/golden/pipeline/pictures/metadata.csv"
    environment = {k: v for k, v in os.environ.items() if k not in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")} | policy
    command = [program, "train", "--model", measure.small_model(), "--dataset_metadata_path", pictures, "--dtype", "fp32",
               "--height", args.size, "--width", args.size, "--max_steps", args.steps, "--num_threads", args.threads,
               "--lora_rank", 16, "--output_path", folder]
    done = measure.run(command, log, environment)
    lines = measure.read_lines(folder / "log.jsonl")
    seconds = [line["step_seconds"] for line in lines]
    return {"step": statistics.median(seconds[DROPPED:]), "mean": statistics.mean(seconds[DROPPED:]), "seconds": seconds,
            "losses": [line["loss"] for line in lines], "said": SAID in log.read_text(errors="replace"), "other_cpu": done.other_cpu}


def measure_all(variants, args):
    """The runs of every variant in both surroundings, one of each in turn."""
    runs = {(around, name): [] for around in ALLOWED for name in variants}
    for turn in range(args.alternations):
        for around in ALLOWED:
            with busy_processes(args.busy if around == "busy" else 0):
                for name in sorted(variants, reverse=bool(turn % 2)):
                    runs[around, name].append(train(*variants[name], args))
    return runs


def describe(runs, variants, args):
    median = {key: {of: statistics.median(run[of] for run in of_key) for of in ("step", "mean")} for key, of_key in runs.items()}
    rows = []
    for around in ALLOWED:
        for name in variants:
            row, passive = median[around, name], median[around, "passive"]
            said = sum(run["said"] for run in runs[around, name])
            rows.append([around, name, f"{1e3 * row['step']:.1f}", f"{1e3 * row['mean']:.1f}", f"{row['step'] / passive['step']:.3f}",
                         f"{row['mean'] / passive['mean']:.3f}", f"{said} of {args.alternations}"])
    table = measure.markdown(["machine", "threads wait", "median step, ms", "mean step, ms", "median over passive", "mean over passive",
                              "runs that said so"], rows)
    judged = {"idle": ("other", median["idle", "this"]["step"] / median["idle", "other"]["step"]) if "other" in variants else None,
              "busy": ("passive", median["busy", "this"]["step"] / median["busy", "passive"]["step"])}
    lines = [f"- {around}: {ratio:.3f} of {beside}'s median step, allowed {ALLOWED[around]}: {'meets' if ratio <= ALLOWED[around] else 'MISSES'}"
             for around, (beside, ratio) in judged.items() if judged[around]]
    losses = {json.dumps(run["losses"]) for of_key in runs.values() for run in of_key}
    lines.append("- losses: " + ("the same in every run" if len(losses) == 1 else f"DIFFER, {len(losses)} kinds"))
    return table + "\n" + "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("other", nargs="?")
    parser.add_argument("--busy", type=int, default=3)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--alternations", type=int, default=4)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--size", type=int, default=512)
    args = parser.parse_args()
    if args.steps <= DROPPED or args.alternations < 1 or args.busy < 1:
        parser.error(f"--steps must be above {DROPPED}, --alternations and --busy at least 1")
    this = measure.burnish()
    variants = {"this": (this, {}), "passive": (this, {"OMP_WAIT_POLICY": "passive"})}
    if args.other:
        variants["other"] = (os.path.abspath(args.other), {})
    runs = measure_all(variants, args)
    machine = measure.cpu()
    disturbed = max(run["other_cpu"] for (around, _), of_key in runs.items() if around == "idle" for run in of_key)
    other = "other: another build of burnish; " if args.other else ""
    text = (f"# Cores that others use too\n\n{machine['name']}, {machine['cores']} cores, {args.threads} threads; this build is {measure.commit()}.\n"
            f"A LoRA on assets/tiny-flux at {args.size}x{args.size}, batch 1, fp32; {args.alternations} runs of {args.steps} steps of each in turn, "
            f"medians of runs. busy: beside {args.busy} processes that never wait. {other}passive: this build under OMP_WAIT_POLICY=passive. "
            f"While the machine was to be idle, other processes used at most {100 * disturbed:.0f}% of it.\n\n{describe(runs, variants, args)}\n"
            f"Reproduce: `./dev bench neighbours{' OTHER' if args.other else ''} --busy {args.busy} --steps {args.steps} "
            f"--alternations {args.alternations} --threads {args.threads} --size {args.size}`\n")
    print(text)
    data = {f"{around}, {name}": of_key for (around, name), of_key in runs.items()}
    print(f"recorded in {measure.record('neighbours', machine['name'], text, data)}")


if __name__ == "__main__":
    main()
