#!/usr/bin/env python3
"""Validation loss after the same run on the demo's base, its weights held in every way, several seeds each.

`frozen`: a LoRA on every linear layer, so that it hangs on stored weights and on those that stay in bf16. `trained`: the whole denoiser, with
every --trained_weights, at two learning rates. `closeness`: on the demo's models of pictures and of clips, in formats of other programs' files too
(which need comfy-kitchen and gguf), how far a LoRA's gradient (its B's, by kind of layer) and a drawing's latents are from those of fp32, and one
run's loss. Settings otherwise are those of quality.toml, pictures the demo's.
A base is a model of assets/ after some steps of all weights on pictures in colour, since numbers that come out of an FP8 file lose nothing in FP8.
Seeds run in the outer loop, so a table can be made of whole ones. Runs that are there already are kept: a broken one goes on.
"""
import argparse
import datetime
import json
import re
import shutil
import statistics
import subprocess
import sys

import coded_folder
import measure

STORED = ["--fp8_models", "dit"]
FROZEN = {
    "bf16": [],
    "fp8_plain": [*STORED, "--weight_format", "fp8_plain"],
    "fp8": [*STORED, "--weight_format", "fp8"],
    "fp8_block": [*STORED, "--weight_format", "fp8_block"],
    "fp8_tensor": [*STORED, "--weight_format", "fp8_tensor"],
    "fp8_e5m2": [*STORED, "--weight_format", "fp8_e5m2"],
    "int8": [*STORED, "--weight_format", "int8"],
    "int8_convrot": [*STORED, "--weight_format", "int8_convrot"],
    "nf4": [*STORED, "--weight_format", "nf4"],
    "fp8-compute": [*STORED, "--weight_format", "fp8", "--fp8_compute"],
    "int8-compute": [*STORED, "--weight_format", "int8", "--int8_compute"],
    "int8_convrot-compute": [*STORED, "--weight_format", "int8_convrot", "--int8_compute"],
}
TRAINED = {"fp32": ["--dtype", "fp32"]} | {way: ["--trained_weights", way] for way in ("remainder", "stochastic", "fp8", "nearest")}
LORA = ["--lora_target_modules", "all-linear", "--learning_rate", "1e-3"]
# what runs, and the options of all its cases; the first is what the others are held against
RUNS = {"frozen": {"": (LORA, FROZEN)},
        "trained": {rate: (["--trainable_models", "dit", "--learning_rate", rate], TRAINED) for rate in ("1e-4", "1e-5")}}
# of closeness: models, what their pictures are told by, and kinds of layers by their paths
FAMILIES = {"FLUX": ("tiny-flux", []), "Wan": ("tiny-wan", ["--num_frames", 1])}
CLOSE = FROZEN | {name: [] for name in coded_folder.FORMATS}
KINDS = {"attention": r"attn", "feed-forward": r"\.ffn?(_context)?\.|\.proj_mlp|single_transformer_blocks\.\d+\.proj_out", "the rest": r""}
STEPS_OF_BASE = 100
PICTURES = measure.ROOT / "build/demo/pictures"
SETTINGS = ["--config", measure.ROOT / "benchmarks/quality.toml", "--dtype", "bf16", "--overwrite"]


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--weights", choices=[*RUNS, "closeness"], default="frozen", help="which are held in every way, or what is compared: %(choices)s")
    p.add_argument("--steps", type=int, default=120)
    p.add_argument("--seeds", type=int, default=3)
    p.add_argument("--threads", type=int, default=measure.cpu()["cores"])
    p.add_argument("--high_precision_layers", default="default", help="as for burnish train; '' stores every linear layer")
    p.add_argument("--again", action="store_true", help="run anew what is there already")
    return p.parse_args()


def make_pictures(folder, style, split):
    if not (folder / "metadata.csv").exists():
        subprocess.run([sys.executable, "recipes/tiny_flux/make_pictures.py", "--style", style, "--split", split, "--size", "192", "--out", folder],
                       cwd=measure.ROOT, check=True)
    return folder / "metadata.csv"


def make_base(family, args):
    """A folder of the family's model of assets/ after STEPS_OF_BASE steps, in bf16."""
    name, more = FAMILIES[family]
    base, plain, out = (measure.SCRATCH / f"quality-{what}-{name}" for what in ("base", "plain", "steps"))
    if (base / "model_index.json").exists():
        return base
    pictures = make_pictures(measure.SCRATCH / "quality-colour", "colour", "lora")
    measure.run([measure.burnish(), "convert", measure.ROOT / "assets" / name, plain, "--weight_format", "none", "--overwrite"],
                measure.SCRATCH / "quality-base.txt", measure.environment(args.threads))
    measure.run([measure.burnish(), "train", *SETTINGS, "--model", plain, "--dataset_metadata_path", pictures, "--trainable_models", "dit", *more,
                 "--learning_rate", "5e-4", "--max_steps", STEPS_OF_BASE, "--num_threads", args.threads, "--output_path", out],
                measure.SCRATCH / "quality-base.txt", measure.environment(args.threads))
    shutil.copytree(plain, base, dirs_exist_ok=True, ignore=shutil.ignore_patterns("model_index.json"))
    shutil.copy(out / f"step-{STEPS_OF_BASE}.safetensors", base / "transformer/diffusion_pytorch_model.safetensors")
    shutil.copy(plain / "model_index.json", base)
    return base


def run(name, model, options, seed, args):
    out = measure.SCRATCH / "quality" / "-".join([args.weights, *name.split(), str(seed), str(args.steps)])
    result = out / "validation.json"
    if args.again or not result.exists():
        kept = ["--high_precision_layers", args.high_precision_layers] if "--fp8_models" in options else []
        measure.run([measure.burnish(), "train", *SETTINGS, *model, "--dataset_metadata_path", PICTURES / "lora/metadata.csv", "--validation_metadata_path",
                     PICTURES / "held_out/metadata.csv", "--max_steps", args.steps, "--seed", seed, "--num_threads", args.threads,
                     "--output_path", out, *kept, *options],
                    measure.SCRATCH / "quality.txt", measure.environment(args.threads) | {"OMP_WAIT_POLICY": "passive"})
    got = json.loads(result.read_text())
    print(f"{name:<22} seed {seed}: {got['before']:.4f} -> {got['after']:.4f}", flush=True)
    return got


def first_gradients(model, pictures, options, out, args):
    """The gradients of a LoRA's B in a first step, by their layers; AdamW's first average is a tenth of them."""
    from safetensors.torch import load_file

    measure.run([measure.burnish(), "train", *model, "--dataset_metadata_path", pictures, "--height", 192, "--width", 192, "--batch_size", 4,
                 "--max_steps", 1, "--lr_warmup_steps", 0, "--max_grad_norm", 0, "--lora_target_modules", "all-linear", "--overwrite",
                 "--num_threads", args.threads, "--output_path", out, *options], measure.SCRATCH / "quality.txt", measure.environment(args.threads))
    found, ending = {}, ".lora_B.weight.exp_avg"
    for file in (out / "state").glob("*.safetensors"):
        found |= {name.removesuffix(ending): value.float() for name, value in load_file(file).items() if name.endswith(ending)}
    return found


def drawn(model, options, out, args):
    from safetensors.torch import load_file

    measure.run([measure.burnish(), "sample", *model, "--prompt", "a letter", "--height", 192, "--width", 192, "--seed", 1, "--save_latents", out,
                 "--output_path", out.with_suffix(""), "--num_threads", args.threads, *options], measure.SCRATCH / "quality.txt",
                measure.environment(args.threads))
    return load_file(out)["latents"].float()


def errors_by_kind(found, exact):
    """Relative errors of all gradients of a kind of layers together."""
    kinds = {}
    for layer in exact:
        kind = next(kind for kind, path in KINDS.items() if re.search(path, layer))
        off, size = kinds.get(kind, (0, 0))
        kinds[kind] = off + float((found[layer] - exact[layer]).square().sum()), size + float(exact[layer].square().sum())
    return {kind: (off / size) ** 0.5 for kind, (off, size) in kinds.items()}


def closeness(args):
    """Rows of errors, and of the loss of a run, by family and format."""
    pictures, rows = PICTURES / "held_out/metadata.csv", []
    out, latents = measure.SCRATCH / "closeness", measure.SCRATCH / "closeness.safetensors"
    for family, (_, more) in FAMILIES.items():
        base = make_base(family, args)
        exact = first_gradients(["--model", base], pictures, [*more, "--dtype", "fp32"], out, args)
        picture = drawn(["--model", base], [*more, "--dtype", "fp32"], latents, args)
        for name, options in CLOSE.items():
            if name in coded_folder.FORMATS and not coded_folder.fits(base, name):
                continue
            model = coded_folder.write(base, name, measure.SCRATCH / "coded") if name in coded_folder.FORMATS else ["--model", base]
            errors = errors_by_kind(first_gradients(model, pictures, [*more, "--dtype", "bf16", *options], out, args), exact)
            off = drawn(model, [*more, "--dtype", "bf16", *options], latents, args) - picture
            losses = [run(f"{family} {name}", model, [*LORA, *more, *options], seed, args)["after"] for seed in range(args.seeds)]
            rows.append([family, name, *(f"{100 * errors[kind]:.2f} %" for kind in KINDS), f"{100 * float(off.norm() / picture.norm()):.2f} %",
                         " ".join(f"{loss:.4f}" for loss in losses)])
            print(*rows[-1], flush=True)
    return rows


def report_closeness(args, rows):
    cpu = measure.cpu()
    text = (f"# How far gradients, drawings and runs over weights in every format are from fp32, {datetime.date.today().isoformat()}\n\n"
            f"{cpu['name']}; burnish {measure.commit()}. assets/tiny-flux and tiny-wan after {STEPS_OF_BASE} steps, 4 pictures of 192², bf16 but for the weights; "
            f"a LoRA's B in its first step, by kind of layer; the latents of a drawing; loss on held-out pictures after {args.steps} steps of 8, by seed.\n\n"
            + measure.markdown(["family", "weights", *(f"gradient, {kind}" for kind in KINDS), "drawing", "loss"], rows)
            + f"\nReproduce: `./dev bench quality --weights closeness --steps {args.steps} --seeds {args.seeds} --threads {args.threads}`\n")
    measure.tell("quality-closeness", text, {"steps": args.steps, "rows": rows})


def table(results):
    """Held against the first of the results."""
    first = next(iter(results))
    base = [r["after"] for r in results[first]]
    noise = statistics.stdev(base) if len(base) > 1 else float("nan")
    rows = []
    for name, runs in results.items():
        after = [r["after"] for r in runs]
        shift = statistics.mean(after) - statistics.mean(base)
        rows.append([name, f"{statistics.mean(r['before'] for r in runs):.4f}", " ".join(f"{a:.4f}" for a in after),
                     f"{statistics.mean(after):.4f}", f"{shift:+.4f}", "" if name == first or len(base) < 2 else "yes" if abs(shift) <= noise else "no"])
    return noise, measure.markdown(["weights", "before", "after, by seed", "mean", f"against {first}", "within seed noise"], rows)


def report(args, results):
    cpu = measure.cpu()
    what = "a LoRA of rank 8 on every linear layer" if args.weights == "frozen" else "the whole denoiser"
    text = (f"# Validation loss by how {args.weights} weights are held, {datetime.date.today().isoformat()}\n\n"
            f"{cpu['name']}; burnish {measure.commit()}. assets/tiny-flux after {STEPS_OF_BASE} steps, {what}, {args.steps} steps of 8 pictures, {args.seeds} seeds.\n")
    for rate, found in results.items():
        noise, rows = table(found)
        text += f"\n{f'Learning rate {rate}. ' if rate else ''}The standard deviation over the seeds of {next(iter(found))} is {noise:.4f}.\n\n{rows}"
    text += f"\nReproduce: `./dev bench quality --weights {args.weights} --steps {args.steps} --seeds {args.seeds} --threads {args.threads}`\n"
    print("\n" + text)
    name = "quality" if args.weights == "frozen" else "quality-trained"
    print("recorded in", measure.record(name, cpu["name"], text, {"steps": args.steps, "results": results}))


if __name__ == "__main__":
    chosen = arguments()
    for split in ("lora", "held_out"):
        make_pictures(PICTURES / split, "pixel", split)
    if chosen.weights == "closeness":
        report_closeness(chosen, closeness(chosen))
        sys.exit()
    base = ["--model", make_base("FLUX", chosen)]
    runs = RUNS[chosen.weights]
    found = {rate: {name: [] for name in cases} for rate, (_, cases) in runs.items()}
    for seed in range(chosen.seeds):
        for rate, (common, cases) in runs.items():
            for name, options in cases.items():
                found[rate][name].append(run(f"{name} {rate}".strip(), base, [*common, *options], seed, chosen))
    report(chosen, found)
