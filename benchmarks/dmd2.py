#!/usr/bin/env python3
"""DMD2 beside DiffSynth-Studio's: memory and time of steps of a FLUX.2 klein of width 1024 with random weights.

On 256 image and 64 text tokens, bf16, batch 1, the student's step every other one. The peer's teacher and fake score are copies of the student, and its fake score trains
whole. burnish has student and fake score as adapters on one copy, or both whole. Every case runs in turn in a process of its own, several times over. Peaks are of the
resident process, interpreter and libraries included; times are the means of the fastest step of either kind.
"""
import argparse
import datetime
import json
import sys

import measure
from flux_folder import make_pictures
from peer_dmd2 import FAMILY, WIDTH

SIDE, TEXT_TOKENS, PIXELS, RANK, UPDATE_FREQ = 16, 64, 256, 16, 2
WARM_UP = 2  # first steps, one of either kind, which are not counted
ADAPTER = ["--lora_rank", RANK, "--lora_target_modules", FAMILY.targets]
OURS = {"adapters": ADAPTER, "adapter, fake score whole": [*ADAPTER, "--dmd2_fake_score", "whole"], "whole": ["--trainable_models", "dit"]}
PEERS = {"adapter, fake score whole": "lora", "whole": "full"}
# Each of ours over a peer's, with the most that is asked of its peak.
RATIOS = [("adapters", "adapter, fake score whole", 0.4), ("adapters", "whole", 0.4), ("adapter, fake score whole", "adapter, fake score whole", None), ("whole", "whole", None)]
CASES = [f"peer: {case}" for case in PEERS] + [f"burnish: {case}" for case in OURS]


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    measure.add_case_options(p, CASES, WARM_UP, alternations=2, steps=8, threads=measure.cpu()["cores"])
    return measure.with_chosen_cases(p, p.parse_args(), CASES, WARM_UP + 1)


class Bench:
    def __init__(self, args):
        self.args, self.environment = args, measure.environment(args.threads) | {"OMP_WAIT_POLICY": "passive"}
        if not measure.has_modules(["torch", "diffusers", "peft", "diffsynth"], self.environment):
            sys.exit("python3 cannot import torch, diffusers, peft and diffsynth: run ./dev bench dmd2, which installs them into .deps/golden and .deps/diffsynth")
        self.model, self.metadata = measure.SCRATCH / "dmd2", make_pictures(measure.SCRATCH / "pictures-long", 8, PIXELS, caption_repeats=20)
        if not (self.model / "done").exists():
            self.peer_process("make")

    def peer_process(self, what, *options):
        return measure.run([sys.executable, measure.ROOT / "benchmarks/peer_dmd2.py", what, "--folder", self.model, *options], measure.SCRATCH / "peer.txt", self.environment)

    def peer(self, case):
        out = measure.SCRATCH / "peer.json"
        done = self.peer_process(PEERS[case], "--side", SIDE, "--text_tokens", TEXT_TOKENS, "--rank", RANK, "--update_freq", UPDATE_FREQ, "--steps", self.args.steps, "--threads",
                                 self.args.threads, "--out", out)
        return done, json.loads(out.read_text())

    def burnish(self, case):
        out = measure.SCRATCH / "run"
        done = measure.run([measure.burnish(), "train", "--task", "dmd2", "--model", self.model, "--dataset_metadata_path", self.metadata, "--height", PIXELS, "--width", PIXELS,
                            "--max_sequence_length", TEXT_TOKENS, "--dtype", "bf16", "--num_threads", self.args.threads, "--device", "cpu", "--dmd2_student_update_freq", UPDATE_FREQ,
                            "--learning_rate", 1e-5, "--save_dtype", "bf16", "--max_steps", self.args.steps, "--overwrite", "--output_path", out, *OURS[case]],
                           measure.SCRATCH / "burnish.txt", self.environment)
        return done, {"step_seconds": [line["step_seconds"] for line in measure.read_lines(out / "log.jsonl")]}

    def run(self):
        """{case: [figures]}; the order turns around with every alternation."""
        results = {case: [] for case in self.args.chosen}
        for alternation in range(self.args.alternations):
            for case in self.args.chosen if alternation % 2 == 0 else reversed(self.args.chosen):
                who, what = case.split(": ")
                done, got = getattr(self, who)(what)
                results[case].append(got | {"peak_mib": done.peak_mib, "other_cpu": done.other_cpu})
                print(f"{case:<40} {fastest(results[case]):7.3f} s a step, peak {done.peak_mib:6.0f} MiB, others used {done.other_cpu:.0%} of the CPU", flush=True)
        return results


def fastest(runs):
    """The mean of the fastest step of either kind, in seconds."""
    kinds = [min(s for run in runs for s in run["step_seconds"][WARM_UP + kind::UPDATE_FREQ]) for kind in range(UPDATE_FREQ)]
    return sum(kinds) / len(kinds)


def tables(results):
    got = {case: (measure.median(run["peak_mib"] for run in runs), fastest(runs)) for case, runs in results.items()}
    text = measure.markdown(["case", "peak MiB", "a step, s"], [[case, f"{peak:.0f}", f"{time:.2f}"] for case, (peak, time) in got.items()])
    rows = []
    for ours, peer, most in RATIOS:
        over, under = got.get(f"burnish: {ours}"), got.get(f"peer: {peer}")
        if over and under:
            ratio = over[0] / under[0]
            rows.append([ours, peer, f"{ratio:.3f}" + ("" if most is None else f" ({'meets' if ratio <= most else 'MISSES'} {most})"), f"{over[1] / under[1]:.3f}"])
    return text + "\n" + measure.markdown(["burnish", "over the peer's", "peak", "step"], rows)


def main():
    args = arguments()
    results = Bench(args).run()
    cpu, others = measure.cpu(), max(run["other_cpu"] for runs in results.values() for run in runs)
    peer = next((runs[0] for case, runs in results.items() if case.startswith("peer")), None)
    of_peer = f", diffsynth {peer['versions']['diffsynth']}, torch {peer['versions']['torch']}. A FLUX.2 klein of {peer['million_parameters']:.0f} million parameters" if peer else ""
    text = (f"# DMD2 beside DiffSynth-Studio, {datetime.date.today().isoformat()}\n\n{cpu['name']}, {cpu['cores']} cores, {args.threads} threads; burnish {measure.commit()}{of_peer} (width {WIDTH}, "
            f"256 + {TEXT_TOKENS} tokens), bf16; {args.alternations} runs of {args.steps} steps of each case in turn. Other processes used at most {others:.0%} of the machine's CPU"
            f"{': above 5 %, so do not rely on the times' if others > 0.05 else ''}.\n\n{tables(results)}\n"
            f"Reproduce: `./dev bench dmd2 --alternations {args.alternations} --steps {args.steps} --threads {args.threads}{f' --cases {args.cases!r}' if args.cases else ''}`\n")
    measure.tell("dmd2", text, {"cpu": cpu, "threads": args.threads, "commit": measure.commit(), "results": results})


if __name__ == "__main__":
    main()
