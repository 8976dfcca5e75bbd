#!/usr/bin/env python3
"""Clips through Wan 2.1's autoencoder at its full size with random weights, encoded and decoded on this CPU: peak memory at several lengths, and of
encoding beside what `burnish plan` says.

  python3 benchmarks/clip_autoencoder.py [--frames 9,81] [--height 480] [--width 832]

The transformer and the text encoder are the small ones of the golden files, which take next to nothing. Needs torch, diffusers and Pillow.
"""
import argparse
import json
import shutil
import subprocess
import sys

import measure

GOLDEN = measure.ROOT / "tests/golden/wan_pipeline/model"
LIMIT = 0.03  # of plan over measured, less 1


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--frames", default="9,81", help="lengths of clips, shortest first")
    p.add_argument("--height", type=int, default=480)
    p.add_argument("--width", type=int, default=832)
    p.add_argument("--threads", type=int, default=measure.cpu()["cores"])
    return p.parse_args()


MAKE = """
import sys, torch
from diffusers import AutoencoderKLWan
from PIL import Image, ImageChops
folder, frames, height, width = sys.argv[1], *map(int, sys.argv[2:5])
torch.manual_seed(0)
AutoencoderKLWan().save_pretrained(folder + "/model/vae")
picture = Image.effect_noise((width // 8, height // 8), 80).resize((width, height), Image.NEAREST).convert("RGB")
moved = [ImageChops.offset(picture, k, 0) for k in range(frames)]
moved[0].save(folder + "/clip.webp", save_all=True, append_images=moved[1:], duration=62, lossless=True, method=0)
"""


class Bench:
    def __init__(self, args):
        self.args, self.environment = args, measure.environment(args.threads)
        if not measure.has_modules(["torch", "diffusers", "PIL"], self.environment):
            sys.exit("python3 cannot import torch, diffusers and PIL; ./dev bench peers installs them into .deps/golden")
        self.folder = measure.SCRATCH / "clip-autoencoder"
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(GOLDEN, self.folder / "model")
        shutil.rmtree(self.folder / "model/vae")
        self.lengths = [int(length) for length in args.frames.split(",")]
        measure.run([sys.executable, "-c", MAKE, self.folder, max(self.lengths), args.height, args.width], self.folder / "make.txt", self.environment)
        (self.folder / "metadata.csv").write_text("video,prompt\nclip.webp,a cat\n")

    def size(self, frames):
        return ["--height", self.args.height, "--width", self.args.width, "--num_frames", frames]

    def encoding(self, frames):
        """What a run of one step, whose encoding takes most, is planned to take and takes, in MiB."""
        model = ["--model", self.folder / "model", "--dtype", "fp32", "--device", "cpu", "--num_threads", self.args.threads]
        command = ["--lora_rank", 4, "--max_steps", 1, "--dataset_metadata_path", self.folder / "metadata.csv", *self.size(frames)]
        words = [str(word) for word in [measure.burnish(), "plan", *model, *command, "--json"]]
        said = subprocess.run(words, capture_output=True, text=True, env=self.environment).stdout
        plan = json.loads(said[said.index("{"):said.rindex("}") + 1])
        done = measure.run([measure.burnish(), "train", *model, *command, "--overwrite", "--output_path", self.folder / "run"],
                           self.folder / "encode.txt", self.environment)
        return plan["host"]["bytes"] / 2**20, done.peak_mib

    def decoding(self, frames):
        """What drawing a clip in one step takes, in MiB."""
        done = measure.run([measure.burnish(), "sample", "--model", self.folder / "model", "--prompt", "a cat", "--dtype", "fp32", "--device", "cpu", "--num_threads",
                            self.args.threads, "--num_inference_steps", 1, *self.size(frames), "--output_path", self.folder / "drawn"],
                           self.folder / "decode.txt", self.environment)
        return done.peak_mib

    def run(self):
        rows = []
        for frames in self.lengths:
            planned, encoded = self.encoding(frames)
            off = planned / encoded - 1
            rows.append([str(frames), f"{planned:.0f}", f"{encoded:.0f}", f"{off:+.1%} ({'meets' if abs(off) <= LIMIT else 'MISSES'} {LIMIT:.0%})", f"{self.decoding(frames):.0f}"])
            print(f"{frames} frames done", flush=True)
        return measure.markdown(["frames", "encoding, planned MiB", "measured", "plan", "decoding, MiB"], rows)


if __name__ == "__main__":
    chosen = arguments()
    print(Bench(chosen).run())
