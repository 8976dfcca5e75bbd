#!/usr/bin/env python3
"""How far whole fine-tuning in fp32 ends from fp64, burnish beside diffusers: the gradient of the first step and the weights of the last.

A small random UNet of SDXL's shape, the same draws for both (`--replay`), AdamW. The fp64 run has everything in fp64, encoders and schedule too.
diffusers runs twice, the second time with the vectors and kernels of AVX2: how far one program is from itself. Figures are
‖difference‖ / ‖in fp64‖: over all gradients, and of the weight that is furthest. Each of several runs has noise of its own.
"""
import argparse
import math
import os
import pathlib
import shutil
import sys
import tempfile
import torch
from diffusers import DDPMScheduler, UNet2DConditionModel
from safetensors.torch import load_file, save_file

import measure

sys.path.insert(0, str(measure.ROOT / "tests/golden"))
import make_stable_diffusion as models  # noqa: E402
import make_stable_diffusion_runs as runs  # noqa: E402

NAME = "sdxl_pipeline"
# Several channels a group: a bias before a norm over one channel has a gradient of zero, of which rounding alone decides the sign.
CONFIG = models.XL | dict(block_out_channels=(32, 64, 64), layers_per_block=2, norm_num_groups=8, attention_head_dim=(2, 4, 4),
                          cross_attention_dim=40, addition_time_embed_dim=256, projection_class_embeddings_input_dim=24 + 6 * 256)
AVX2 = {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2"}


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--runs", type=int, default=8)
    p.add_argument("--steps", type=int, default=8)
    p.add_argument("--eps", type=float, default=1e-8, help="AdamW's")
    p.add_argument("--learning_rate", type=float, default=1e-3)
    p.add_argument("--only_diffusers", metavar="FOLDER", help=argparse.SUPPRESS)  # a run of another process, with other kernels
    return p.parse_args()


def make_model(folder):
    shutil.copytree(runs.HERE / NAME / "model", folder, ignore=shutil.ignore_patterns("unet"))
    torch.manual_seed(11)
    models.randomise(UNet2DConditionModel(**CONFIG), 0.8).save_pretrained(folder / "unet")


def write_replay(folder, run, steps):
    torch.manual_seed(run)
    replay = {}
    for i in range(steps):
        replay |= {f"step.{i}.noise": torch.randn(4, *(n // 8 for n in runs.SIZES[NAME])), f"step.{i}.timestep": torch.randint(0, 1000, ()),
                   f"step.{i}.sample": torch.tensor(i * 3 % 4)}
    save_file(replay, folder / f"replay-{run}.safetensors")


class Diffusers:
    def __init__(self, folder, dtype, args):
        self.folder, self.dtype, self.args = folder, dtype, args
        self.pipe = runs.open_pipe(NAME, dtype)
        self.samples = runs.encode(self.pipe)
        self.scheduler = DDPMScheduler.from_config(dict(self.pipe.scheduler.config) | dict(clip_sample=False))
        if dtype == torch.float64:
            c = self.scheduler.config
            betas = torch.linspace(c.beta_start ** 0.5, c.beta_end ** 0.5, c.num_train_timesteps, dtype=dtype) ** 2
            self.scheduler.alphas_cumprod = torch.cumprod(1 - betas, 0)

    def train(self, run):
        """(gradients of the first step, weights after the last)"""
        replay = {k: v.to(self.dtype) if k.endswith("noise") else v for k, v in load_file(self.folder / f"replay-{run}.safetensors").items()}
        self.pipe.unet = UNet2DConditionModel.from_pretrained(self.folder / "model/unet", torch_dtype=self.dtype)
        weights = list(self.pipe.unet.named_parameters())
        runs.STEPS = self.args.steps
        _, _, first = runs.train(self.pipe, self.samples, replay, weights, self.scheduler, lr=self.args.learning_rate, eps=self.args.eps)
        return first, {n: w.detach() for n, w in weights}


def burnish(folder, run, args):
    def steps(count, adam):
        out = folder / f"burnish-{run}-{count}"
        height, width = runs.SIZES[NAME]
        measure.run([measure.burnish(), "train", "--model", folder / "model", "--tokenizer_path", runs.TOKENS, "--dtype", "fp32",
                     "--dataset_metadata_path", runs.HERE / "pipeline/pictures/metadata.csv", "--height", height, "--width", width,
                     "--trainable_models", "unet", "--learning_rate", args.learning_rate, "--optimizer_args", adam, "--max_steps", count,
                     "--replay", folder / f"replay-{run}.safetensors", "--output_path", out], folder / f"burnish-{run}.txt", measure.environment(1))
        return out

    weights = load_file(steps(args.steps, f"eps={args.eps}") / f"step-{args.steps}.safetensors")
    # Without momentum the first moment after one step is the gradient.
    state = load_file(steps(1, "betas=0,0.999") / "state/state.safetensors")
    return {n: state[f"optimizer.unet.{n}.exp_avg"].reshape(w.shape) for n, w in weights.items()}, weights


def distance(found, expected):
    """Over all tensors."""
    squares = [((found[n].double() - e).pow(2).sum(), e.pow(2).sum()) for n, e in expected.items()]
    return math.sqrt(sum(d for d, _ in squares) / sum(e for _, e in squares))


def furthest(found, expected):
    return max((distance({n: found[n]}, {n: e}), n) for n, e in expected.items())


def half(found, expected):
    """The places of the fewest numbers that make half of the squared distance."""
    squares = torch.cat([(found[n].double() - e).square().flatten() for n, e in expected.items()]).sort(descending=True)
    return squares.indices[:int((squares.values.cumsum(0) < squares.values.sum() / 2).sum()) + 1]


def mean(values):
    return f"{math.exp(sum(map(math.log, values)) / len(values)):.1e}"


def only_diffusers(args):
    folder = pathlib.Path(args.only_diffusers)
    program = Diffusers(folder, torch.float32, args)
    for run in range(args.runs):
        first, weights = program.train(run)
        tensors = {f"first.{n}": g for n, g in first.items()} | {f"weights.{n}": w.contiguous() for n, w in weights.items()}
        save_file(tensors, folder / f"avx2-{run}.safetensors")


def compare(folder, args):
    make_model(folder / "model")
    for run in range(args.runs):
        write_replay(folder, run, args.steps)
    measure.run([sys.executable, __file__, "--only_diffusers", folder, "--runs", args.runs, "--steps", args.steps, "--eps", args.eps,
                 "--learning_rate", args.learning_rate], folder / "avx2.txt", os.environ | AVX2)
    fp32, fp64 = (Diffusers(folder, dtype, args) for dtype in (torch.float32, torch.float64))
    rows, figures = [], []
    for run in range(args.runs):
        gradients, weights = fp64.train(run)
        other = load_file(folder / f"avx2-{run}.safetensors")
        avx2 = tuple({n: other[f"{part}.{n}"] for n in weights} for part in ("first", "weights"))
        programs = [fp32.train(run), avx2, burnish(folder, run, args)]
        near = [distance(first, gradients) for first, _ in programs]
        far = [furthest(last, weights) for _, last in programs]
        figures.append(near + [f for f, _ in far])
        rows.append([run, *(f"{n:.1e}" for n in near), *(f"{f:.1e}" for f, _ in far), far[2][1]])
        sizes, places = torch.cat([gradients[n].abs().flatten() for n in weights]), half(programs[2][1], weights)
        rows[-1] += [len(places), f"{sizes[places].median():.0e} of {sizes.median():.0e}"]
        print(*rows[-1], flush=True)
    rows.append(["mean", *(mean(column) for column in zip(*figures)), "", "", ""])
    programs = ["diffusers", "diffusers, AVX2", "burnish"]
    headings = ["run", *(f"gradient: {p}" for p in programs), *(f"furthest weight: {p}" for p in programs), "which, of burnish",
                "numbers with half of its squared distance", "median of their gradients, of all"]
    print("\n" + measure.markdown(headings, rows))


def main():
    args = arguments()
    if args.steps < 2 or args.runs < 1:
        sys.exit("--steps must be at least 2 and --runs at least 1")
    torch.set_num_threads(1)
    if args.only_diffusers:
        only_diffusers(args)
        return
    with tempfile.TemporaryDirectory() as folder:
        compare(pathlib.Path(folder), args)


if __name__ == "__main__":
    main()
