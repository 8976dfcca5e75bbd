#!/usr/bin/env python3
"""What DoRA costs over LoRA, and FP8 over bf16, in burnish and beside diffusers + peft on this CPU.

A FLUX of random weights (one double and two single blocks, width 1024) on 256 image and 64 text tokens, adapters of rank 16 on attention
and feed-forward layers, bf16. Every case runs in turn in a process of its own, several times over. The peer's FP8 is the usual one: weights
cast to E4M3 without scales and cast back at each use; where peft's DoRA cannot add to such a weight, what it says is recorded.
The requirement is held against the fastest steps, which a busy machine moves least, and against the peak resident memory of the process, of
which the heap's holes are a part; tests/train/subject/adapter_memory_test.cpp counts bytes.
"""
import argparse
import datetime
import subprocess
import sys

import measure
from flux_folder import LORA_TARGETS, TINY_INPUTS, Transformer, make_model, make_pictures

MODEL = Transformer(1, 2, 8, 128, **TINY_INPUTS)
TEXT_TOKENS, RANK = 64, 16
WARM_UP = 4  # first steps, which are not counted
REQUIRED = {"time": 1.15, "memory": 1.05}
CASES = [f"{who}-{adapter}-{weights}" for who in ("burnish", "peft") for adapter in ("lora", "dora") for weights in ("bf16", "fp8")]


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    measure.add_case_options(p, CASES, WARM_UP, alternations=3, steps=16, threads=1)
    args = p.parse_args()
    return measure.with_chosen_cases(p, args, CASES, WARM_UP)


def figures(done, seconds):
    return {"step_ms": [round(1e3 * s, 2) for s in seconds[WARM_UP:]], "peak_mib": done.peak_mib, "other_cpu": done.other_cpu}


class Bench:
    """Runs cases "who-adapter-weights" of a model on pictures of `image_side` tokens each way. Weights are as HELD says, or fp32."""

    HELD = {"fp8": ["--fp8_models", "dit"]}

    def __init__(self, args, model=MODEL, image_side=16):
        self.args, self.image_side, self.pixels = args, image_side, 8 * image_side
        self.environment = measure.environment(args.threads) | {"OMP_WAIT_POLICY": "passive"}
        if not measure.has_modules(["torch", "diffusers", "peft"], self.environment):
            sys.exit("python3 cannot import torch, diffusers and peft: run ./dev bench adapters, which installs them into .deps/golden")
        self.model = make_model(measure.SCRATCH / f"flux-{model.width}", model)
        self.metadata = make_pictures(measure.SCRATCH / "pictures", 8, self.pixels)

    @staticmethod
    def dtype(weights):
        return "fp32" if weights == "fp32" else "bf16"

    def peft(self, adapter, weights):
        out = measure.SCRATCH / "peer.json"
        options = (["--dora"] if adapter == "dora" else []) + (["--fp8"] if weights == "fp8" else [])
        command = [sys.executable, measure.ROOT / "benchmarks/peer_flux.py", "--transformer", self.model / "transformer", "--train", "lora",
                   "--dtype", self.dtype(weights), "--targets", LORA_TARGETS, "--rank", RANK, "--image_side", self.image_side, "--text_tokens", TEXT_TOKENS,
                   "--threads", self.args.threads, "--out", out, *options, "--steps"]
        if (adapter, weights) == ("dora", "fp8"):
            tried = subprocess.run([str(word) for word in [*command, 1]], env=self.environment, capture_output=True, text=True)
            if tried.returncode != 0:
                return {"error": tried.stderr.strip().splitlines()[-1]}
        done = measure.run([*command, self.args.steps], measure.SCRATCH / "peer.txt", self.environment)
        return figures(done, measure.read_lines(out)[0]["step_seconds"])

    def burnish(self, adapter, weights):
        out = measure.SCRATCH / "run"
        command = [measure.burnish(), "train", "--model", self.model, "--dataset_metadata_path", self.metadata, "--height", self.pixels,
                            "--width", self.pixels, "--max_sequence_length", TEXT_TOKENS, "--dtype", self.dtype(weights),
                            "--num_threads", self.args.threads, "--device", "cpu", "--overwrite", "--output_path", out, "--lora_type", adapter,
                            "--lora_rank", RANK, "--lora_target_modules", LORA_TARGETS, *self.HELD.get(weights, []), "--max_steps"]
        done = measure.run([*command, self.args.steps], measure.SCRATCH / "burnish.txt", self.environment)
        return figures(done, [line["step_seconds"] for line in measure.read_lines(out / "log.jsonl")])

    def run(self):
        """{case: [figures]}; the order turns around with every alternation."""
        results = {case: [] for case in self.args.chosen}
        for alternation in range(self.args.alternations):
            for case in self.args.chosen if alternation % 2 == 0 else reversed(self.args.chosen):
                who, adapter, weights = case.split("-")
                got = getattr(self, who)(adapter, weights)
                results[case].append(got)
                print(f"{case:<18} " + (got["error"] if "error" in got else f"fastest step {min(got['step_ms']):7.1f} ms, median "
                      f"{measure.median(got['step_ms']):7.1f} ms, peak {got['peak_mib']:6.0f} MiB, others used {got['other_cpu']:.0%} of the CPU"),
                      flush=True)
        return results


def summary(runs):
    steps = [s for run in runs for s in run["step_ms"]]
    return {"fastest": min(steps), "median": measure.median(steps), "memory": measure.median(run["peak_mib"] for run in runs)}


def tables(results):
    done = {case: summary(runs) for case, runs in results.items() if "error" not in runs[0]}
    rows = []
    for case, runs in results.items():
        if case not in done:
            rows.append([case, f"does not run: {runs[0]['error']}", "", ""])
            continue
        s = done[case]
        rows.append([case, f"{s['fastest']:.1f}", f"{s['median']:.1f}", f"{s['memory']:.0f}"])
    text = measure.markdown(["case", "fastest step, ms", "median step, ms", "peak MiB"], rows)
    ratios = []
    for over, under, limits in (("burnish-dora-bf16", "burnish-lora-bf16", REQUIRED), ("burnish-dora-fp8", "burnish-lora-fp8", REQUIRED),
                                ("peft-dora-bf16", "peft-lora-bf16", None), ("burnish-lora-fp8", "burnish-lora-bf16", None),
                                ("peft-lora-fp8", "peft-lora-bf16", None), ("burnish-lora-bf16", "peft-lora-bf16", None),
                                ("burnish-dora-bf16", "peft-dora-bf16", None), ("burnish-lora-fp8", "peft-lora-fp8", None)):
        if over not in done or under not in done:
            continue
        time, memory = (done[over][k] / done[under][k] for k in ("fastest", "memory"))
        verdict = "" if limits is None else "meets" if time <= limits["time"] and memory <= limits["memory"] else "MISSES"
        ratios.append([f"{over} / {under}", f"{time:.3f}", f"{memory:.3f}", verdict])
    return text + "\n" + measure.markdown(["ratio", "of the fastest steps", "of peak memory", f"required: {REQUIRED['time']} and {REQUIRED['memory']}"], ratios)


def report(args, results):
    cpu = measure.cpu()
    others = max(run["other_cpu"] for runs in results.values() for run in runs if "error" not in run)
    text = (f"# LoRA and DoRA, bf16 and FP8, beside peft, {datetime.date.today().isoformat()}\n\n"
            f"{cpu['name']}, {cpu['cores']} cores, {args.threads} threads, {'bf16 instructions: ' + ', '.join(cpu['bf16_instructions']) if cpu['bf16_instructions'] else 'no bf16 instructions'}; "
            f"burnish {measure.commit()}. FLUX of width {MODEL.width} ({MODEL.num_parameters() / 1e6:.0f} million parameters, 256 + 64 tokens), rank {RANK}; "
            f"{args.alternations} runs of {args.steps} steps of each case in turn. Other processes used at most "
            f"{others:.0%} of the machine's CPU.\n\n{tables(results)}\n"
            f"Reproduce: `./dev bench adapters --alternations {args.alternations} --steps {args.steps} --threads {args.threads}"
            f"{f' --cases {args.cases!r}' if args.cases else ''}`\n")
    measure.tell("adapters", text, {"cpu": cpu, "threads": args.threads, "commit": measure.commit(),
                 "required": REQUIRED, "results": results})


if __name__ == "__main__":
    chosen = arguments()
    report(chosen, Bench(chosen).run())
