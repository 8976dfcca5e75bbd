#!/usr/bin/env python3
"""SDXL's UNet, burnish beside diffusers + peft on this CPU: step time and peak memory of LoRA, DoRA and full training.

A small random UNet of SDXL's shape (two levels with attention, widths 96, 192, 384) on 32x32 latents, batch 1, in fp32, bf16 and with
frozen weights stored in FP8 (burnish: a scale for each row; the peer: cast at each use). Every case runs in turn in a process of the peer
and one of burnish. burnish reads pictures, encodes them, logs and saves; the peer is given its tensors and keeps nothing.
"""
import argparse
import datetime
import itertools
import re
import sys
from pathlib import Path

import measure
from flux_folder import make_pictures
from unet_folder import LORA_TARGETS, SMALL, TEXT_TOKENS, make_model

PIXELS, RANK = 256, 16
DROPPED = 3  # first steps, which warm caches and allocators
CASES = ["fp32-lora", "fp32-dora", "fp32-full", "bf16-lora", "bf16-dora", "bf16-full", "fp8-lora", "fp8-dora"]


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    measure.add_case_options(p, CASES, DROPPED, alternations=3, steps=15, threads=measure.cpu()["cores"])
    args = p.parse_args()
    return measure.with_chosen_cases(p, args, CASES, DROPPED)


def figures(finished, step_seconds, trained_millions):
    return {"step_ms": [round(1e3 * s, 2) for s in step_seconds], "median_step_ms": 1e3 * measure.median(step_seconds[DROPPED:]),
            "fastest_step_ms": 1e3 * min(step_seconds[DROPPED:]), "peak_mib": finished.peak_mib, "other_cpu": finished.other_cpu,
            "trained_millions": round(trained_millions, 2)}


class Bench:
    def __init__(self, args):
        self.args, self.environment, self.versions = args, measure.environment(args.threads), {}
        if not measure.has_modules(["torch", "diffusers", "peft"], self.environment):
            sys.exit("python3 cannot import torch, diffusers and peft: run ./dev bench unet, which installs them into .deps/golden")
        self.model = make_model(measure.SCRATCH / "sdxl-small", SMALL)
        self.metadata = make_pictures(measure.SCRATCH / f"pictures-{PIXELS}", 8, PIXELS)

    def peer(self, case):
        """None where the peer cannot run the case."""
        dtype, train = case.split("-")
        out, log = measure.SCRATCH / "peer.json", measure.SCRATCH / f"peer-{case}.txt"
        command = [sys.executable, measure.ROOT / "benchmarks/peer_unet.py", "--unet", self.model / "unet", "--train", train, "--dtype", dtype,
                   "--targets", LORA_TARGETS, "--rank", RANK, "--latent_side", PIXELS // 8, "--text_tokens", TEXT_TOKENS, "--steps", self.args.steps,
                   "--threads", self.args.threads, "--out", out]
        try:
            done = measure.run(command, log, self.environment)
        except SystemExit as failure:
            print(f"{case:<10} peer     fails: {failure}", flush=True)
            return {"failed": Path(log).read_text(errors="replace").strip().splitlines()[-1]}
        got = measure.read_lines(out)[0]
        self.versions = got["versions"]
        return figures(done, got["step_seconds"], got["trained_parameters"] / 1e6)

    def burnish(self, case):
        dtype, train = case.split("-")
        out, log = measure.SCRATCH / "run", measure.SCRATCH / f"burnish-{case}.txt"
        what = ["--trainable_models", "unet"] if train == "full" else ["--lora_type", train, "--lora_rank", RANK, "--lora_target_modules", LORA_TARGETS]
        if dtype == "fp8":
            what += ["--fp8_models", f"{self.model}:unet"]
        done = measure.run([measure.burnish(), "train", "--model", self.model, "--dataset_metadata_path", self.metadata, "--height", PIXELS,
                            "--width", PIXELS, "--dtype", "fp32" if dtype == "fp32" else "bf16", "--max_steps", self.args.steps, "--num_threads",
                            self.args.threads, "--device", "cpu", "--overwrite", "--output_path", out, *what], log, self.environment)
        lines = measure.read_lines(out / "log.jsonl")
        return figures(done, [line["step_seconds"] for line in lines], float(re.search(r"([\d.]+) million trained", log.read_text()).group(1)))

    def run(self):
        """{case: {"peer": [figures], "burnish": [figures]}}; who goes first alternates."""
        results = {case: {"peer": [], "burnish": []} for case in self.args.chosen}
        for alternation, case in itertools.product(range(self.args.alternations), self.args.chosen):
            for who in ("peer", "burnish") if alternation % 2 == 0 else ("burnish", "peer"):
                got = getattr(self, who)(case)
                results[case][who].append(got)
                if "failed" not in got:
                    print(f"{case:<10} {who:<8} {got['median_step_ms']:8.1f} ms a step, peak {got['peak_mib']:7.1f} MiB, "
                          f"others used {got['other_cpu']:.0%} of the CPU", flush=True)
        return results


def table(results):
    rows = []
    for case, both in results.items():
        ours, peer = both["burnish"], [run for run in both["peer"] if "failed" not in run]
        middle = lambda runs, key: measure.median(run[key] for run in runs)  # noqa: E731
        row = [case]
        for key, digits in (("median_step_ms", 1), ("fastest_step_ms", 1), ("peak_mib", 0)):
            pick = min if key == "fastest_step_ms" else measure.median
            mine = pick([run[key] for run in ours])
            theirs = pick([run[key] for run in peer]) if peer else None
            row += [f"{theirs:.{digits}f}" if peer else "fails", f"{mine:.{digits}f}", f"{mine / theirs:.3f}" if peer else ""]
        lora = results.get(case.replace("dora", "lora"), {}).get("burnish") if "dora" in case else None
        row.append(f"{middle(ours, 'median_step_ms') / middle(lora, 'median_step_ms'):.3f}, {middle(ours, 'peak_mib') / middle(lora, 'peak_mib'):.3f}" if lora else "")
        rows.append(row)
    return measure.markdown(["case", "peer, ms a step", "burnish", "ratio", "peer, fastest step", "burnish", "ratio", "peer, peak MiB", "burnish", "ratio",
                             "DoRA over LoRA: time, memory"], rows)


def main():
    args = arguments()
    bench = Bench(args)
    results = bench.run()
    cpu = measure.cpu()
    others = max(run["other_cpu"] for both in results.values() for run in both["burnish"])
    failures = {case: both["peer"][0]["failed"] for case, both in results.items() if "failed" in both["peer"][0]}
    text = (f"# SDXL's UNet beside diffusers + peft, {datetime.date.today().isoformat()}\n\n"
            f"{cpu['name']}, {cpu['cores']} cores, {args.threads} threads, bf16 instructions: {', '.join(cpu['bf16_instructions']) or 'none'}; burnish {measure.commit()}, "
            f"diffusers {bench.versions.get('diffusers')}, torch {bench.versions.get('torch')}.\n"
            f"Small UNet on {PIXELS}x{PIXELS} pictures, batch 1, rank {RANK}; {args.alternations} runs with {args.steps} steps of each in turn, medians, the first "
            f"{DROPPED} steps dropped. Other processes used at most {others:.0%} of the CPU{': above 5 %, so do not rely on the times' if others > 0.05 else ''}.\n\n"
            f"{table(results)}\n" + "".join(f"The peer on {case}: `{error}`\n" for case, error in failures.items())
            + f"Reproduce: `./dev bench unet --alternations {args.alternations} --steps {args.steps} --threads {args.threads}{f' --cases {args.cases!r}' if args.cases else ''}`\n")
    measure.tell("unet", text, {"cpu": cpu, "threads": args.threads, "commit": measure.commit(), "versions": bench.versions, "results": results})


if __name__ == "__main__":
    main()
