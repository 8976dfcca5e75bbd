#!/usr/bin/env python3
"""Split training beside DiffSynth-Studio's on this CPU: samples a second, peak memory, bytes of cache.

A small FLUX of random weights (2 double and 4 single blocks, width 512), with a CLIP-L and an autoencoder of FLUX.1's real shape and a T5 of
T5-XXL's width and fewer layers, in bf16; 512 text tokens, pictures of 256 x 256, a LoRA of rank 16 on query, key and value, batch 1.
Ways: everything at every visit (unsplit), one command that stages itself (staged), a cache and then training from it alone (cached).
Both programs run every way in turn, several times over. burnish logs and saves; the peer keeps nothing but its cache.
"""
import argparse
import datetime
import itertools
import json
import os
import shutil
import sys
from dataclasses import replace

import measure
from flux_folder import SMALL, Noise, copy_from_tiny, make_pictures, write_transformer

SIDE, TEXT_TOKENS, RANK, NUM_PICTURES, DROPPED = 256, 512, 16, 8, 2
PEER = measure.ROOT / "benchmarks/peer_diffsynth.py"
PEER_TARGETS = "a_to_qkv,b_to_qkv"  # its double blocks; the same layers by burnish's names:
TARGETS = "attn.to_q,attn.to_k,attn.to_v,attn.add_q_proj,attn.add_k_proj,attn.add_v_proj"
# What training reads of a sample: latents in fp32, the embeddings of T5 and CLIP in bf16.
NEEDED = 16 * (SIDE // 8) ** 2 * 4 + TEXT_TOKENS * 4096 * 2 + 768 * 2


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--alternations", type=int, default=2, help="runs of each program in each way")
    p.add_argument("--repeat", type=int, default=2, help=f"visits of each of the {NUM_PICTURES} pictures")
    p.add_argument("--t5_layers", type=int, default=2, help="of T5-XXL's 24")
    p.add_argument("--threads", type=int, default=measure.cpu()["cores"])
    return p.parse_args()


def forget(folder):
    """Asks the system to drop what it holds of the files, so that they are read from disk."""
    for path in folder.rglob("*"):
        if path.is_file():
            with open(path, "rb") as file:
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def num_bytes(folder, pattern):
    return sum(path.stat().st_size for path in folder.rglob(pattern))


def bytes_per_sample(cache):
    """Of burnish's cache; the empty caption, which it holds once beside the samples' captions, is left out."""
    captions = num_bytes(cache, "encode_prompt*/*.safetensors")
    return (num_bytes(cache, "*.safetensors") - captions / (NUM_PICTURES + 1)) / NUM_PICTURES


class Bench:
    def __init__(self, args):
        self.args, self.environment = args, measure.environment(args.threads)
        if not measure.has_modules(["torch", "diffusers", "transformers", "diffsynth", "accelerate", "peft"], self.environment):
            sys.exit("python3 cannot import diffsynth and what it needs: run ./dev bench split, which installs it into .deps/diffsynth")
        self.model = measure.SCRATCH / f"flux-split-{args.t5_layers}"
        self.pictures = make_pictures(measure.SCRATCH / f"pictures{SIDE}", NUM_PICTURES, SIDE)
        if not (self.model / "peer/vae_encoder.pt").exists():
            shutil.rmtree(self.model, ignore_errors=True)
            write_transformer(self.model / "transformer", replace(SMALL, joint_attention_dim=4096, pooled_projection_dim=768), Noise(0))
            copy_from_tiny(self.model, ["model_index.json", "scheduler", "tokenizer", "tokenizer_2"])
            self.peer("make", "make.txt")

    def peer(self, what, log):
        out, cache = measure.SCRATCH / "peer.json", measure.SCRATCH / "peer-cache"
        done = measure.run([sys.executable, PEER, what, "--folder", self.model, "--t5_layers", self.args.t5_layers, "--pictures", self.pictures,
                            "--side", SIDE, "--repeat", 1 if what == "sft:data_process" else self.args.repeat, "--targets", PEER_TARGETS,
                            "--rank", RANK, "--cache", cache, "--threads", self.args.threads, "--out", out],
                           measure.SCRATCH / log, self.environment)
        return done, json.loads(out.read_text()) if what != "make" else {}

    def peer_trained(self, what):
        done, got = self.peer(what, "peer.txt")
        ends = got["step_ends"]
        seconds = [b - a for a, b in zip(ends[:-1], ends[1:])]
        return {"seconds": done.seconds, "step_s": measure.median(seconds[DROPPED - 1:]), "peak_mib": done.peak_mib,
                "to_first_step_s": ends[0] - done.start - measure.median(seconds), "versions": got["versions"],
                "trained": got["trained_parameters"]}

    def peer_unsplit(self):
        return self.peer_trained("sft")

    def peer_cached(self):
        cache = measure.SCRATCH / "peer-cache"
        shutil.rmtree(cache, ignore_errors=True)
        cache.mkdir(parents=True)
        made, _ = self.peer("sft:data_process", "peer.txt")
        forget(cache)
        return self.peer_trained("sft:train") | {"cache_s": made.seconds, "cache_mib": made.peak_mib,
                                                 "cache_bytes": num_bytes(cache, "*.pth") / NUM_PICTURES}

    def burnish(self, *options):
        out = measure.SCRATCH / "run"
        shutil.rmtree(out, ignore_errors=True)
        done = measure.run([measure.burnish(), "train", "--dtype", "bf16", "--num_threads", self.args.threads, "--device", "cpu",
                            "--lora_rank", RANK, "--lora_target_modules", TARGETS, "--dataset_repeat", self.args.repeat, "--model", self.model,
                            "--output_path", out, *options], measure.SCRATCH / "burnish.txt", self.environment)
        path = out / "log.jsonl"
        if not path.exists():
            return {"cache_s": done.seconds, "cache_mib": done.peak_mib}
        lines = measure.read_lines(path)
        seconds = [line["step_seconds"] for line in lines]
        return {"seconds": done.seconds, "step_s": measure.median(seconds[DROPPED:]), "peak_mib": done.peak_mib,
                "to_first_step_s": lines[0]["time"] - seconds[0] - done.start,
                "data_s": measure.median(line["data_seconds"] for line in lines[DROPPED:])}

    def burnish_encoding(self, *options):
        return self.burnish("--dataset_metadata_path", self.pictures, "--height", SIDE, "--width", SIDE, "--max_sequence_length", TEXT_TOKENS,
                            *options)

    def burnish_unsplit(self):
        return self.burnish_encoding("--precompute", "none")

    def burnish_staged(self):
        return self.burnish_encoding()

    def burnish_cached(self):
        cache = measure.SCRATCH / "cache"
        shutil.rmtree(cache, ignore_errors=True)
        made = self.burnish_encoding("--task", "sft:data_process", "--cache_path", cache)
        forget(cache)
        trained = self.burnish("--task", "sft:train", "--dataset_base_path", cache)
        return trained | made | {"cache_bytes": bytes_per_sample(cache)}

    def run(self):
        ways = ["peer_unsplit", "burnish_unsplit", "burnish_staged", "peer_cached", "burnish_cached"]
        results = {way: [] for way in ways}
        for alternation, way in itertools.product(range(self.args.alternations), ways):
            got = getattr(self, way)()
            results[way].append(got)
            print(f"{way:<16}", "  ".join(f"{k} {v:.3f}" for k, v in got.items() if isinstance(v, float)), flush=True)
        return results


def table(results):
    def cell(runs, key, digits=2, scale=1.0):
        return f"{measure.median(run[key] for run in runs) * scale:.{digits}f}" if key in runs[0] else ""

    names = {"peer": "DiffSynth-Studio", "burnish": "burnish"}
    rows = []
    for way, runs in results.items():
        who, how = way.split("_")
        rate = 1 / measure.median(run["step_s"] for run in runs)
        cached = measure.median(run["cache_bytes"] for run in runs) if "cache_bytes" in runs[0] else None
        rows.append([f"{names[who]}, {how}", f"{rate:.2f}", cell(runs, "seconds", 1), cell(runs, "peak_mib", 0), cell(runs, "to_first_step_s"),
                     cell(runs, "cache_s", 1), cell(runs, "cache_mib", 0),
                     "" if cached is None else f"{cached / 2**20:.2f} MiB ({cached / NEEDED:.3f} × what training reads)"])
    return measure.markdown(["way", "samples/s while training", "s, training process", "its peak MiB", "s to its first step",
                             "s, making the cache", "its peak MiB", "cache, a sample"], rows)


def main():
    args = arguments()
    results = Bench(args).run()
    cpu, versions = measure.cpu(), results["peer_unsplit"][0]["versions"]
    data = measure.median(run["data_s"] / run["step_s"] for run in results["burnish_cached"])
    text = (f"# Split training beside DiffSynth-Studio, {datetime.date.today().isoformat()}\n\n"
            f"{cpu['name']}, {cpu['cores']} cores, {args.threads} threads; burnish {measure.commit()}, diffsynth {versions['diffsynth']}, "
            f"torch {versions['torch']}. bf16, batch 1.\nSmall FLUX (2 + 4 blocks, width 512), CLIP-L, T5-XXL with {args.t5_layers} of its 24 "
            f"layers, FLUX.1's autoencoder (burnish computes it in fp32, the peer in bf16), all random; {TEXT_TOKENS} text tokens, {SIDE} x {SIDE} pixels; {NUM_PICTURES} pictures, "
            f"{args.repeat} visits of each; {args.alternations} runs of each way in turn, medians.\n\n{table(results)}\n"
            f"burnish's cache holds one caption more, the empty one; a sample's bytes are without it. Fetching a batch from the cache and drawing its noise took {data:.2%} of a step. Stored files were dropped from the page "
            f"cache before training.\n\nReproduce: `./dev bench split --alternations {args.alternations} --repeat {args.repeat} "
            f"--t5_layers {args.t5_layers} --threads {args.threads}`\n")
    print("\n" + text)
    print(measure.record("split", cpu["name"], text, {"arguments": vars(args), "cpu": cpu, "results": results}))


main()
