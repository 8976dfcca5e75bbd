#!/usr/bin/env python3
"""What a step takes with each term of a loss, beside the passes of the denoiser that it has.

A FLUX of random weights (one double and two single blocks, width 1024) on 256 image and 64 text tokens, a LoRA of rank 16, bf16. Every case
runs in turn in a process of its own, several times over. A plain step is one pass with a gradient, G. What a pass without one takes, F, is
half of what drift and guidance together add to it. From these two numbers each case is foretold by its passes, and held against that.
"""
import argparse
import datetime

import measure
from flux_folder import LORA_TARGETS, TINY_INPUTS, Transformer, make_model, make_pictures

MODEL = Transformer(1, 2, 8, 128, **TINY_INPUTS)
TEXT_TOKENS, PIXELS, RANK = 64, 128, 16
WARM_UP = 4  # first steps, which are not counted
REQUIRED = 1.05
CLASS = ["--trigger_word", "sks", "--diff_output_preservation", "--diff_output_preservation_class", "dog"]
# Options, and passes with a gradient and without.
TERMS = {"plain": ([], 1, 0), "drift": (["--drift_loss_weight", 1], 1, 1), "guided": (["--training_cfg_scale", 3], 1, 1),
         "drift+guided": (["--drift_loss_weight", 1, "--training_cfg_scale", 3], 1, 2), "class": (CLASS, 2, 1),
         "blank": (["--blank_prompt_preservation"], 2, 1), "class+blank": ([*CLASS, "--blank_prompt_preservation"], 3, 2)}


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--alternations", type=int, default=3, help="runs of each case")
    p.add_argument("--steps", type=int, default=16, help=f"of each run; the first {WARM_UP} are not counted")
    p.add_argument("--threads", type=int, default=1)
    args = p.parse_args()
    args.cases = ""
    return measure.with_chosen_cases(p, args, list(TERMS), WARM_UP)


def measured(args):
    """{case: the milliseconds of its steps}, and the largest share of the CPU that other processes used."""
    environment = measure.environment(args.threads) | {"OMP_WAIT_POLICY": "passive"}
    model, metadata = make_model(measure.SCRATCH / "flux-1024", MODEL), make_pictures(measure.SCRATCH / "pictures", 8, PIXELS)
    out, steps, others = measure.SCRATCH / "run", {case: [] for case in args.chosen}, 0
    for alternation in range(args.alternations):
        for case in args.chosen if alternation % 2 == 0 else reversed(args.chosen):
            done = measure.run([measure.burnish(), "train", "--model", model, "--dataset_metadata_path", metadata, "--height", PIXELS, "--width", PIXELS,
                                "--max_sequence_length", TEXT_TOKENS, "--dtype", "bf16", "--num_threads", args.threads, "--device", "cpu", "--overwrite",
                                "--output_path", out, "--lora_rank", RANK, "--lora_target_modules", LORA_TARGETS, *TERMS[case][0],
                                "--max_steps", args.steps], measure.SCRATCH / "burnish.txt", environment)
            steps[case] += [1e3 * line["step_seconds"] for line in measure.read_lines(out / "log.jsonl")][WARM_UP:]
            others = max(others, done.other_cpu)
    return steps, others


def table(steps):
    fastest = {case: min(times) for case, times in steps.items()}
    with_gradient = fastest["plain"]
    without = (fastest["drift+guided"] - with_gradient) / 2
    rows = []
    for case, time in fastest.items():
        _, graded, other = TERMS[case]
        foretold = graded * with_gradient + other * without
        ratio = time / foretold
        rows.append([case, f"{graded} + {other}", f"{time:.1f}", f"{foretold:.1f}", f"{ratio:.3f}", "meets" if ratio <= REQUIRED else "MISSES"])
    return measure.markdown(["term", "passes with a gradient and without", "fastest step, ms", "by its passes, ms", "ratio", f"required: {REQUIRED}"], rows)


def main():
    args = arguments()
    steps, others = measured(args)
    cpu = measure.cpu()
    text = (f"# Terms of a loss, {datetime.date.today().isoformat()}\n\n{cpu['name']}, {cpu['cores']} cores, {args.threads} threads; burnish {measure.commit()}. FLUX of "
            f"width {MODEL.width} (256 + 64 tokens), a LoRA of rank {RANK}; {args.alternations} runs of {args.steps} steps of each case in turn. Other processes "
            f"used at most {others:.0%} of the machine's CPU.\n\n{table(steps)}\n"
            f"Reproduce: `./dev bench terms --alternations {args.alternations} --steps {args.steps} --threads {args.threads}`\n")
    measure.tell("terms", text, {"cpu": cpu, "threads": args.threads, "commit": measure.commit(), "required": REQUIRED,
                 "results": steps})


if __name__ == "__main__":
    main()
