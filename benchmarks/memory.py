#!/usr/bin/env python3
"""Training in little memory: burnish beside diffusers with AdamW, and with bitsandbytes' 8-bit AdamW, on this CPU.

A FLUX of random weights (one double and two single blocks, width 1024) on 256 image and 64 text tokens, bf16, batch 1. All weights: the
peer computes blocks again or keeps them; burnish takes the settings of recipes/flux_full_80gb.toml. A LoRA of rank 16 over weights in FP8, with
blocks computed again by both. Every case runs in turn in a process of its own, several times over. Peaks are of the resident process,
interpreter and libraries included; times are of the fastest steps, which a busy machine moves least.
"""
import argparse
import datetime
import sys

import measure
from flux_folder import LORA_TARGETS, TINY_INPUTS, Transformer, make_model, make_pictures

MODEL = Transformer(1, 2, 8, 128, **TINY_INPUTS)
IMAGE_SIDE, TEXT_TOKENS, PIXELS, RANK = 16, 64, 128, 16
WARM_UP = 4  # first steps, which are not counted

PEERS = {
    "full-adamw": ["--train", "full"],
    "full-adamw-checkpointed": ["--train", "full", "--checkpointing"],
    "full-adamw8bit": ["--train", "full", "--optimizer", "adamw8bit"],
    "full-adamw8bit-checkpointed": ["--train", "full", "--optimizer", "adamw8bit", "--checkpointing"],
    "lora-fp8-checkpointed": ["--train", "lora", "--fp8", "--targets", LORA_TARGETS, "--rank", RANK, "--checkpointing"],
}
FULL = ["--trainable_models", "dit", "--optimizer", "adamw8bit", "--fused_backward_pass"]
OURS = {
    "full-adamw8bit": FULL,
    "full-adamw8bit-checkpointed": [*FULL, "--use_gradient_checkpointing"],
    "lora-fp8-checkpointed": ["--fp8_models", "dit", "--lora_rank", RANK, "--lora_target_modules", LORA_TARGETS, "--use_gradient_checkpointing"],
}
CASES = [f"peer-{case}" for case in PEERS] + [f"burnish-{case}" for case in OURS]
# Each of ours over a peer's, with the most that is asked of its peak and its time.
RATIOS = [("full-adamw8bit", "full-adamw", 0.45, 1.0), ("full-adamw8bit", "full-adamw8bit", 0.45, 1.0),
          ("full-adamw8bit-checkpointed", "full-adamw-checkpointed", 0.45, 1.0),
          ("full-adamw8bit-checkpointed", "full-adamw8bit-checkpointed", 0.45, 1.0),
          ("lora-fp8-checkpointed", "lora-fp8-checkpointed", 0.3, None)]


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    measure.add_case_options(p, CASES, WARM_UP, alternations=3, steps=12, threads=1)
    return measure.with_chosen_cases(p, p.parse_args(), CASES, WARM_UP)


class Bench:
    def __init__(self, args):
        self.args = args
        self.environment = measure.environment(args.threads) | {"OMP_WAIT_POLICY": "passive"}
        if not measure.has_modules(["torch", "diffusers", "peft", "bitsandbytes"], self.environment):
            sys.exit("python3 cannot import torch, diffusers, peft and bitsandbytes: run ./dev bench memory, which installs them into .deps/golden")
        self.model = make_model(measure.SCRATCH / "flux-1024", MODEL)
        self.metadata = make_pictures(measure.SCRATCH / "pictures", 8, PIXELS)

    def peer(self, case):
        out = measure.SCRATCH / "peer.json"
        done = measure.run([sys.executable, measure.ROOT / "benchmarks/peer_flux.py", "--transformer", self.model / "transformer", "--dtype",
                            "bf16", "--image_side", IMAGE_SIDE, "--text_tokens", TEXT_TOKENS, "--threads", self.args.threads, "--steps",
                            self.args.steps, "--out", out, *PEERS[case]], measure.SCRATCH / "peer.txt", self.environment)
        return done, measure.read_lines(out)[0]["step_seconds"]

    def burnish(self, case):
        out = measure.SCRATCH / "run"
        done = measure.run([measure.burnish(), "train", "--model", self.model, "--dataset_metadata_path", self.metadata, "--height", PIXELS,
                            "--width", PIXELS, "--max_sequence_length", TEXT_TOKENS, "--dtype", "bf16", "--num_threads", self.args.threads,
                            "--device", "cpu", "--overwrite", "--output_path", out, "--save_dtype", "bf16", "--max_steps", self.args.steps,
                            *OURS[case]], measure.SCRATCH / "burnish.txt", self.environment)
        return done, [line["step_seconds"] for line in measure.read_lines(out / "log.jsonl")]

    def run(self):
        """{case: [figures]}; the order turns around with every alternation."""
        results = {case: [] for case in self.args.chosen}
        for alternation in range(self.args.alternations):
            for case in self.args.chosen if alternation % 2 == 0 else reversed(self.args.chosen):
                who, what = case.split("-", 1)
                done, seconds = getattr(self, who)(what)
                steps = [round(1e3 * s, 2) for s in seconds[WARM_UP:]]
                results[case].append({"step_ms": steps, "peak_mib": done.peak_mib, "other_cpu": done.other_cpu})
                print(f"{case:<40} fastest step {min(steps):7.1f} ms, peak {done.peak_mib:6.0f} MiB, others used {done.other_cpu:.0%} of the "
                      "CPU", flush=True)
        return results


def judged(ratio, most):
    return f"{ratio:.3f}" + ("" if most is None else f" ({'meets' if ratio <= most else 'MISSES'} {most})")


def tables(results):
    got = {case: {"time": min(s for run in runs for s in run["step_ms"]), "peak": measure.median(run["peak_mib"] for run in runs)}
           for case, runs in results.items()}
    text = measure.markdown(["case", "fastest step, ms", "peak MiB"], [[case, f"{s['time']:.1f}", f"{s['peak']:.0f}"] for case, s in got.items()])
    rows = []
    for ours, peer, peak, time in RATIOS:
        over, under = got.get(f"burnish-{ours}"), got.get(f"peer-{peer}")
        if over and under:
            rows.append([ours, peer, judged(over["peak"] / under["peak"], peak), judged(over["time"] / under["time"], time)])
    return text + "\n" + measure.markdown(["burnish", "over the peer's", "peak", "step"], rows)


def report(args, results):
    cpu = measure.cpu()
    others = max(run["other_cpu"] for runs in results.values() for run in runs)
    text = (f"# Training in little memory, {datetime.date.today().isoformat()}\n\n{cpu['name']}, {cpu['cores']} cores, {args.threads} threads; burnish {measure.commit()}. FLUX of width {MODEL.width} "
            f"({MODEL.num_parameters() / 1e6:.0f} million parameters, 256 + 64 tokens), bf16; {args.alternations} runs of {args.steps} steps of each case in turn. "
            f"Other processes used at most {others:.0%} of the machine's CPU.\n\n{tables(results)}\n"
            f"Reproduce: `./dev bench memory --alternations {args.alternations} --steps {args.steps} --threads {args.threads}"
            f"{f' --cases {args.cases!r}' if args.cases else ''}`\n")
    measure.tell("memory", text, {"cpu": cpu, "threads": args.threads, "commit": measure.commit(), "results": results})


if __name__ == "__main__":
    chosen = arguments()
    report(chosen, Bench(chosen).run())
