#!/usr/bin/env python3
"""burnish beside diffusers + peft on this CPU: step time, time to the first step, peak memory.

A small FLUX of random weights (2 double and 4 single blocks, width 512) on 256 image and 64 text tokens, in fp32 and bf16, a LoRA of
rank 16 on attention and feed-forward layers and all weights, batch 1 and 4. --models takes other families, as wide and about as deep. Every
case runs in turn in a process of the peer and one of burnish, several times over. burnish reads pictures, encodes them, logs and saves; the
peer is given its tensors and keeps nothing.
"""
import argparse
import datetime
import itertools
import re
import sys

import measure
from family_folder import CLIP_SIDE, FAMILIES
from flux_folder import LORA_TARGETS, SMALL, make_model, make_pictures

IMAGE_SIDE, TEXT_TOKENS, RANK = 16, 64, 16
DROPPED = 5  # first steps, which warm caches and allocators
REQUIRED = {"flux": {"step_fp32": 0.95, "step_bf16": 0.6, "startup": 0.2, "memory": 0.7}}
REQUIRED |= dict.fromkeys(FAMILIES, {"step_fp32": 0.85, "step_bf16": 0.6, "startup": 0.2, "memory": 0.7})
REQUIRED["wan"] = {"step_fp32": 0.85, "step_bf16": 0.85, "startup": 0.2, "memory": 0.6}
MODELS = list(REQUIRED)
CASES = [f"{dtype}-{train}-b{batch}" for dtype, train, batch in itertools.product(("fp32", "bf16"), ("lora", "full"), (1, 4))]


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--quick", action="store_true", help="one case, once, 10 steps unless said otherwise; nothing is recorded")
    p.add_argument("--models", default="flux", help="some of " + ",".join(MODELS) + "; flux unless said otherwise")
    p.add_argument("--cases", default="", help="regular expression; the cases of each model are " + ", ".join(CASES))
    p.add_argument("--peer", choices=["diffusers", "diffsynth"], default="diffusers", help="the program beside burnish; diffsynth for wan alone")
    p.add_argument("--alternations", type=int, default=0, help="runs of each program in each case (3)")
    p.add_argument("--steps", type=int, default=0, help=f"of each process (20); the first {DROPPED} are dropped")
    p.add_argument("--threads", type=int, default=measure.cpu()["cores"])
    args = p.parse_args()
    if args.quick:
        args.cases = args.cases or "fp32-lora-b1"
    args.alternations, args.steps = args.alternations or (1 if args.quick else 3), args.steps or (10 if args.quick else 20)
    args.models = args.models.split(",")
    if unknown := set(args.models) - set(MODELS):
        p.error(f"--models names {', '.join(unknown)}; there are {', '.join(MODELS)}")
    if args.peer == "diffsynth" and args.models != ["wan"]:
        p.error("--peer diffsynth is for --models wan")
    return measure.with_chosen_cases(p, args, [f"{model}-{case}" for model in args.models for case in CASES], DROPPED)


def parts_of(case):
    """Model, dtype, what trains, batch size."""
    model, dtype, train, batch = case.rsplit("-", 3)
    return model, dtype, train, batch[1:]


class Flux:
    """The small FLUX: a picture of 128 pixels is 256 tokens, since its autoencoder scales by 4."""
    pixels, frames, targets = 128, 1, LORA_TARGETS

    def __init__(self, _environment):
        self.folder = make_model(measure.SCRATCH / "flux-small", SMALL)
        self.metadata = make_pictures(measure.SCRATCH / "pictures", 8, self.pixels)
        self.peer = [measure.ROOT / "benchmarks/peer_flux.py", "--image_side", IMAGE_SIDE]


class OfFamily:
    """A family of family_folder.py: a picture of 256 pixels is 256 tokens, a clip of 17 frames of 128 pixels 320, one of 128 pixels with its layers 256. Its captions are longer than the limit, so that all have as many tokens."""
    pixels = 256

    def __init__(self, name, environment, peer):
        self.targets, self.folder = FAMILIES[name].targets, measure.SCRATCH / name
        if not (self.folder / "done").exists():
            measure.run([sys.executable, measure.ROOT / "benchmarks/family_folder.py", name, self.folder], measure.SCRATCH / "folder.txt", environment)
        self.frames = FAMILIES[name].frames
        if self.frames > 1:
            self.pixels, self.metadata = CLIP_SIDE, self.folder / "clips/metadata.csv"
            self.peer = [measure.ROOT / "benchmarks/peer_family.py", "--family", name, "--latent_side", self.pixels // 8, "--latent_frames", (self.frames + 3) // 4,
                         "--program", peer]
            return
        if FAMILIES[name].layers > 0:
            self.pixels, self.metadata = CLIP_SIDE, self.folder / "layers/metadata.json"
            self.peer = [measure.ROOT / "benchmarks/peer_family.py", "--family", name, "--latent_side", self.pixels // 8, "--latent_frames", FAMILIES[name].layers]
            return
        self.metadata = make_pictures(measure.SCRATCH / "pictures-long", 8, self.pixels, caption_repeats=20)
        side = IMAGE_SIDE if name in ("flux2", "flux2-dev", "flux3", "ernie-image", "ideogram4", "qwen-image-2.1") else 2 * IMAGE_SIDE  # of latents; theirs are tokens already
        self.peer = [measure.ROOT / "benchmarks/peer_family.py", "--family", name, "--latent_side", side]


def figures(finished, step_seconds, first_step_end, **more):
    return {"step_ms": [round(1e3 * s, 2) for s in step_seconds], "median_step_ms": 1e3 * measure.median(step_seconds[DROPPED:]),
            "fastest_step_ms": 1e3 * min(step_seconds[DROPPED:]),
            "startup_s": first_step_end - step_seconds[0] - finished.start, "first_step_done_s": first_step_end - finished.start, "peak_mib": finished.peak_mib, "cpu_s": finished.cpu_seconds, "other_cpu": finished.other_cpu} | more


class Bench:
    def __init__(self, args):
        self.args, self.environment = args, measure.environment(args.threads)
        if not measure.has_modules(["torch", "diffusers", "peft"] + ["diffsynth"] * (args.peer == "diffsynth"), self.environment):
            sys.exit("python3 cannot import torch, diffusers and peft: run ./dev bench peers, which installs them into .deps/golden")
        self.models = {name: Flux(self.environment) if name == "flux" else OfFamily(name, self.environment, args.peer) for name in args.models}

    def peer(self, case, steps):
        name, dtype, train, batch = parts_of(case)
        out, model = measure.SCRATCH / "peer.json", self.models[name]
        done = measure.run([sys.executable, *model.peer, "--transformer", model.folder / "transformer", "--train", train, "--dtype", dtype,
                            "--targets", model.targets, "--rank", RANK, "--batch_size", batch, "--text_tokens", TEXT_TOKENS, "--steps", steps,
                            "--threads", self.args.threads, "--out", out],
                           measure.SCRATCH / "peer.txt", self.environment)
        got = measure.read_lines(out)[0]
        return figures(done, got["step_seconds"], got["first_step_end"], versions=got["versions"], losses=got["losses"],
                       trained_millions=round(got["trained_parameters"] / 1e6, 2))

    def burnish(self, case, steps):
        name, dtype, train, batch = parts_of(case)
        out, log, model = measure.SCRATCH / "run", measure.SCRATCH / "burnish.txt", self.models[name]
        clips = ["--num_frames", model.frames] if model.frames > 1 else []
        what = clips + ["--trainable_models", "dit"] if train == "full" else clips + ["--lora_rank", RANK, "--lora_target_modules", model.targets]
        done = measure.run([measure.burnish(), "train", "--model", model.folder, "--dataset_metadata_path", model.metadata, "--height", model.pixels,
                            "--width", model.pixels, "--max_sequence_length", TEXT_TOKENS, "--dtype", dtype, "--batch_size", batch,
                            "--max_steps", steps, "--num_threads", self.args.threads, "--device", "cpu", "--overwrite", "--output_path", out, *what],
                           log, self.environment)
        lines = measure.read_lines(out / "log.jsonl")
        trained = float(re.search(r"([\d.]+) million trained", log.read_text()).group(1))
        return figures(done, [line["step_seconds"] for line in lines], lines[0]["time"], losses=[line["loss"] for line in lines],
                       trained_millions=trained)

    def run(self):
        """{case: {"peer": [figures], "burnish": [figures]}}; who goes first alternates."""
        results = {case: {"peer": [], "burnish": []} for case in self.args.chosen}
        self.peer(self.args.chosen[0], DROPPED + 1)  # fills the page cache and writes bytecode; not counted
        for alternation, case in itertools.product(range(self.args.alternations), self.args.chosen):
            for who in ("peer", "burnish") if alternation % 2 == 0 else ("burnish", "peer"):
                got = getattr(self, who)(case, self.args.steps)
                results[case][who].append(got)
                print(f"{case:<24} {who:<8} {got['median_step_ms']:8.1f} ms a step, first step begins after {got['startup_s']:6.2f} s and ends after {got['first_step_done_s']:6.2f} s, "
                      f"peak {got['peak_mib']:7.1f} MiB, others used {got['other_cpu']:.0%} of the CPU", flush=True)
            pair = results[case]["peer"][-1]["trained_millions"], results[case]["burnish"][-1]["trained_millions"]
            if pair[0] != pair[1]:
                sys.exit(f"{case}: the peer trains {pair[0]} million parameters and burnish {pair[1]}; they should be the same layers")
        return results


def required_step(model, dtype, has_bf16):
    """The required ratio, or None where none is set: bf16 on a CPU that multiplies it in hardware."""
    return None if dtype == "bf16" and has_bf16 else REQUIRED[model][f"step_{dtype}"]


def judged(ratio, limit):
    if limit is None:
        return f"{ratio:.3f} (none set)"
    return f"{ratio:.3f} ({'meets' if ratio <= limit else 'MISSES'} {limit})"


def table(results, has_bf16):
    def middle(runs, key):
        return measure.median(run[key] for run in runs)

    rows = []
    for case, both in results.items():
        peer, ours = both["peer"], both["burnish"]
        row, (model, dtype, _, _) = [case], parts_of(case)
        limits = {"median_step_ms": required_step(model, dtype, has_bf16), "startup_s": REQUIRED[model]["startup"],
                  "peak_mib": REQUIRED[model]["memory"]}
        for key, digits in (("median_step_ms", 1), ("startup_s", 2), ("peak_mib", 0)):
            theirs, mine = middle(peer, key), middle(ours, key)
            row += [f"{theirs:.{digits}f}", f"{mine:.{digits}f}", judged(mine / theirs, limits[key])]
            if key == "startup_s":
                row.append(f"{middle(ours, 'first_step_done_s') / middle(peer, 'first_step_done_s'):.3f}")
        # What other processes take lengthens a step and never shortens it, so this ratio bears a busy machine better.
        row.insert(4, f"{min(run['fastest_step_ms'] for run in ours) / min(run['fastest_step_ms'] for run in peer):.3f}")
        row.append(f"{middle(ours, 'cpu_s') / middle(peer, 'cpu_s'):.3f}")
        rows.append(row)
    headings = ["case", "peer, ms a step", "burnish", "ratio", "of the fastest steps", "peer, s from process start to first step", "burnish", "ratio", "to its end",
                "peer, peak MiB", "burnish", "ratio", "of CPU seconds, whole process"]
    return measure.markdown(headings, rows)


def report(args, results):
    cpu = measure.cpu()
    bf16 = cpu["bf16_instructions"]
    others = max(run["other_cpu"] for both in results.values() for runs in both.values() for run in runs)
    versions = next(iter(results.values()))["peer"][0]["versions"]
    text = (f"# burnish beside {'DiffSynth-Studio' if args.peer == 'diffsynth' else 'diffusers'} + peft, {datetime.date.today().isoformat()}\n\n"
            f"{cpu['name']}, {cpu['cores']} cores, {args.threads} threads, "
            f"{'bf16 instructions: ' + ', '.join(bf16) if bf16 else 'no bf16 instructions (neither avx512_bf16 nor amx_bf16)'}"
            f"{' (held back for both programs by ONEDNN_MAX_CPU_ISA=' + cpu['held_back'] + ')' if cpu['held_back'] else ''}; "
            f"burnish {measure.commit()}, diffusers {versions['diffusers']}, torch {versions['torch']}.\n"
            f"Small {', '.join(args.models)} (width 512, 256 + 64 tokens); {args.alternations} runs with {args.steps} "
            f"steps of each in turn, medians, the first {DROPPED} steps dropped. Other processes used at most {others:.0%} of the CPU"
            f"{': above 5 %, so do not rely on the times' if others > 0.05 else ''}.\n\n{table(results, bool(bf16))}\n"
            f"Reproduce: `{'ONEDNN_MAX_CPU_ISA=' + cpu['held_back'] + ' ' if cpu['held_back'] else ''}./dev bench peers --alternations {args.alternations} --steps {args.steps} --threads {args.threads}"
            f"{'' if args.models == ['flux'] else ' --models ' + ','.join(args.models)}{' --peer diffsynth' if args.peer == 'diffsynth' else ''}{f' --cases {args.cases!r}' if args.cases else ''}`\n")
    print("\n" + text)
    if not args.quick:
        what = ["peers"] + ["families"] * (args.models != ["flux"]) + ["diffsynth"] * (args.peer == "diffsynth") + ["held-back"] * bool(cpu["held_back"])
        data = {"cpu": cpu, "threads": args.threads, "commit": measure.commit(), "versions": versions, "required": REQUIRED, "results": results}
        print("recorded in", measure.record("-".join(what), cpu["name"], text, data))


if __name__ == "__main__":
    chosen = arguments()
    report(chosen, Bench(chosen).run())
