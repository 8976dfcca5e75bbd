#!/usr/bin/env python3
"""Validation loss after the same LoRA run on the demo's base, its frozen weights held in every format, several seeds each.

A LoRA on every linear layer, so that it hangs on stored weights and on those that stay in bf16; the demo's pictures and settings otherwise.
Seeds run in the outer loop, so a table can be made of whole ones. Runs that are there already are kept: a broken one goes on.
"""
import argparse
import datetime
import json
import statistics
import subprocess
import sys

import measure

FORMATS = {
    "bf16": [],
    "fp8_plain": ["--weight_format", "fp8_plain"],
    "fp8": ["--weight_format", "fp8"],
    "fp8_block": ["--weight_format", "fp8_block"],
    "nf4": ["--weight_format", "nf4"],
    "fp8, products in FP8": ["--weight_format", "fp8", "--fp8_compute"],
}
BASE = measure.ROOT / "assets/tiny-flux"
PICTURES = measure.ROOT / "build/demo/pictures"


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--steps", type=int, default=120)
    p.add_argument("--seeds", type=int, default=3)
    p.add_argument("--threads", type=int, default=measure.cpu()["cores"])
    p.add_argument("--high_precision_layers", default="default", help="as for burnish train; '' stores every linear layer")
    p.add_argument("--again", action="store_true", help="run anew what is there already")
    return p.parse_args()


def make_pictures():
    for split in ("lora", "held_out"):
        if not (PICTURES / split / "metadata.csv").exists():
            subprocess.run([sys.executable, "recipes/tiny_flux/make_pictures.py", "--style", "symbola", "--split", split, "--out",
                            PICTURES / split], cwd=measure.ROOT, check=True)


def run(name, options, seed, args):
    out = measure.SCRATCH / "quality" / f"{name.split(',')[0]}{'-compute' if ',' in name else ''}-{seed}-{args.steps}"
    result = out / "validation.json"
    if args.again or not result.exists():
        stored = ["--fp8_models", "dit", "--high_precision_layers", args.high_precision_layers] + options if options else []
        measure.run([measure.burnish(), "train", "--config", measure.ROOT / "examples/demo/demo.toml", "--model", BASE, "--dtype", "bf16",
                     "--dataset_metadata_path", PICTURES / "lora/metadata.csv", "--validation_metadata_path",
                     PICTURES / "held_out/metadata.csv", "--lora_target_modules", "all-linear", "--learning_rate", "1e-3", "--max_steps",
                     args.steps, "--seed", seed, "--num_threads", args.threads, "--output_path", out, *stored],
                    measure.SCRATCH / "quality.txt", measure.environment(args.threads) | {"OMP_WAIT_POLICY": "passive"})
    got = json.loads(result.read_text())
    print(f"{name:<22} seed {seed}: {got['before']:.4f} -> {got['after']:.4f}", flush=True)
    return got


def table(results):
    base = [r["after"] for r in results["bf16"]]
    noise = statistics.stdev(base) if len(base) > 1 else float("nan")
    rows = []
    for name, runs in results.items():
        after = [r["after"] for r in runs]
        shift = statistics.mean(after) - statistics.mean(base)
        rows.append([name, f"{statistics.mean(r['before'] for r in runs):.4f}", " ".join(f"{a:.4f}" for a in after),
                     f"{statistics.mean(after):.4f}", f"{shift:+.4f}", "" if name == "bf16" else "yes" if abs(shift) <= noise else "no"])
    return noise, measure.markdown(["frozen weights", "before", "after, by seed", "mean", "against bf16", "within seed noise"], rows)


def report(args, results):
    noise, rows = table(results)
    cpu = measure.cpu()
    text = (f"# Validation loss by format of the frozen weights, {datetime.date.today().isoformat()}\n\n"
            f"{cpu['name']}; burnish {measure.commit()}. assets/tiny-flux, a LoRA of rank 8 on every linear layer, {args.steps} steps of 8 "
            f"pictures, {args.seeds} seeds. The standard deviation over the seeds of bf16 is {noise:.4f}.\n\n{rows}\n"
            f"Reproduce: `./dev bench quality --steps {args.steps} --seeds {args.seeds} --threads {args.threads}`\n")
    print("\n" + text)
    print("recorded in", measure.record("quality", cpu["name"], text, {"steps": args.steps, "noise": noise, "results": results}))


if __name__ == "__main__":
    chosen = arguments()
    make_pictures()
    found = {name: [] for name in FORMATS}
    for seed in range(chosen.seeds):
        for name, options in FORMATS.items():
            found[name].append(run(name, options, seed, chosen))
    report(chosen, found)
