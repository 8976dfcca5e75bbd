#!/usr/bin/env python3
"""A LoRA step over INT8 products beside burnish's own in fp32, in bf16 and over weights of fewer bits, and beside diffusers + peft.

A FLUX of random weights of width 1024 (one double and two single blocks) or of FLUX.1's own 3072 (one single block, so that all cases take two
minutes on two cores: --alternations 1 --steps 6 --threads 2) on 1024 image and 64 text tokens, LoRAs of rank 16 on attention and feed-forward layers. Every case runs in turn in a process of its own, several times over; burnish computes in bf16 where a case
does not say fp32. Requirements are held against the fastest steps, which a busy machine moves least, and the peer's is the better of its two.
"""
import argparse
import datetime
from dataclasses import replace

import adapters
import measure
from adapters import MODEL, RANK, TEXT_TOKENS, WARM_UP, summary

IMAGE_SIDE = 32
MODELS = {1024: MODEL, 3072: replace(MODEL, num_layers=0, num_single_layers=1, num_attention_heads=24)}
INT8 = ["--fp8_models", "dit", "--weight_format", "int8"]
ROTATED = ["--fp8_models", "dit", "--weight_format", "int8_convrot"]
HELD = {"fp8": ["--fp8_models", "dit"], "int8": INT8, "products": [*INT8, "--int8_compute"], "rotated": [*ROTATED, "--int8_compute"]}
CASES = [f"burnish-lora-{weights}" for weights in ("fp32", "bf16", *HELD)] + ["peft-lora-fp32", "peft-lora-bf16"]
# Case over others (the fastest of them), and at most how much of time and memory.
RATIOS = [("products", ["burnish-lora-fp32"], {"time": 0.5}), ("products", ["burnish-lora-bf16"], {"time": 0.75}),
          ("products", ["peft-lora-fp32", "peft-lora-bf16"], {"time": 0.4}), ("products", ["burnish-lora-int8"], {"time": 1.0, "memory": 1.02}),
          ("rotated", ["burnish-lora-products"], {}), ("fp8", ["burnish-lora-bf16"], {"time": 1.0}), ("int8", ["burnish-lora-bf16"], {})]


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--width", type=int, choices=MODELS, default=1024)
    measure.add_case_options(p, CASES, WARM_UP, alternations=3, steps=10, threads=1)
    return measure.with_chosen_cases(p, p.parse_args(), CASES, WARM_UP)


class Bench(adapters.Bench):
    HELD = HELD


def verdict(figures, limits):
    return ", ".join(f"{what} at most {limit}: {'meets' if figures[what] <= limit else 'MISSES'}" for what, limit in limits.items())


def tables(results):
    done = {case: summary(runs) for case, runs in results.items()}
    rows = [[case, f"{s['fastest']:.1f}", f"{s['median']:.1f}", f"{s['memory']:.0f}"] for case, s in done.items()]
    ratios = []
    for weights, others, limits in RATIOS:
        over, under = f"burnish-lora-{weights}", min((case for case in others if case in done), key=lambda case: done[case]["fastest"], default=None)
        if over not in done or under is None:
            continue
        figures = {"time": done[over]["fastest"] / done[under]["fastest"], "memory": done[over]["memory"] / done[under]["memory"]}
        ratios.append([f"{over} / {under}", f"{figures['time']:.3f}", f"{figures['memory']:.3f}", verdict(figures, limits)])
    return (measure.markdown(["case", "fastest step, ms", "median step, ms", "peak MiB"], rows) + "\n"
            + measure.markdown(["ratio", "of the fastest steps", "of peak memory", "required"], ratios))


def report(args, model, results):
    cpu = measure.cpu()
    others = max(run["other_cpu"] for runs in results.values() for run in runs)
    text = (f"# INT8 products at width {args.width}, {datetime.date.today().isoformat()}\n\n"
            f"{cpu['name']}, {cpu['cores']} cores, {args.threads} threads; burnish {measure.commit()}. FLUX of width {model.width} "
            f"({model.num_layers} double and {model.num_single_layers} single blocks, {model.num_parameters() / 1e6:.0f} million parameters, {IMAGE_SIDE ** 2} + {TEXT_TOKENS} tokens), rank {RANK}; {args.alternations} runs of "
            f"{args.steps} steps of each case in turn. Other processes used at most {others:.0%} of the machine's CPU.\n\n{tables(results)}\n"
            f"Reproduce: `./dev bench int8 --width {args.width} --alternations {args.alternations} --steps {args.steps} --threads {args.threads}"
            f"{f' --cases {args.cases!r}' if args.cases else ''}`\n")
    measure.tell(f"int8, width {args.width}", text, {"cpu": cpu, "width": args.width, "threads": args.threads,
                 "commit": measure.commit(), "results": results})


if __name__ == "__main__":
    chosen = arguments()
    flux = MODELS[chosen.width]
    report(chosen, flux, Bench(chosen, flux, IMAGE_SIDE).run())
