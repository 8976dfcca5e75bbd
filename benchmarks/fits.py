#!/usr/bin/env python3
"""What makes a LoRA of rank 16 at 1024 x 1024, batch 1, fit on GPUs of several sizes, by `burnish plan --fit`: the table of docs/memory.md, in Markdown.

  python3 benchmarks/fits.py [--burnish build/burnish] [--models flux-dev,sdxl] [--sizes 12,24]

Plans need neither weights nor a GPU.
"""
import argparse
import re
import subprocess

MODELS = ["flux-dev", "sdxl", "z-image", "qwen-image", "flux2-klein-4b", "flux2-klein-9b", "chroma"]
SIZES = [12, 16, 24, 32, 48, 80]


def options_that_fit(program, model, size):
    """The options that make the run fit, "" for none; None where nothing does."""
    command = [program, "plan", "--num_threads", "1", "--model", model, "--device", "cuda", "--height", "1024", "--width", "1024", "--max_steps", "10", "--lora_rank", "16",
               "--device_memory", f"{size}GiB", "--host_memory", "64GiB", "--fit"]
    done = subprocess.run(command, capture_output=True, text=True)
    said = done.stdout + done.stderr
    if found := re.search(r"it fits in [0-9.]+ [A-Za-z]+ with (.*)", said):
        return found[1]
    if found := re.search(r"as long as layers of (\S+) train; .* the run fits in [0-9.]+ [A-Za-z]+ with --lora_target_modules \S+ ?(.*)", said):
        return f"{found[2]} --{found[1]} not trained"
    if re.search(r"the run fits$", said, re.M):
        return ""
    if "does not fit" in said:
        return None
    raise SystemExit(f"{' '.join(command)} ended with {done.returncode}: {said.strip().splitlines()[-1]}")


def in_words(options):
    if not options:
        return "nothing"
    words = []
    if "--use_gradient_checkpointing_offload" in options:
        words.append("offloaded checkpoints")
    elif "--gradient_checkpointing_interval" in options:
        words.append("every second block")
    elif "--use_gradient_checkpointing" in options:
        words.append("checkpoints")
    if budget := re.search(r"--activation_budget (\d+)MiB", options):
        words.append(f"{int(budget[1]) / 1024:.1f} GiB kept for backward")
    if held := re.search(r"--fp8_models (\S+)", options):
        words.append(("NF4" if "nf4" in options else "FP8") + (" and FP8 text" if "text" in held[1] else ""))
    if swapped := re.search(r"--blocks_to_swap (\d+)", options):
        words.append(f"{swapped[1]} blocks swapped")
    known = r"--(activation_budget \d+MiB|use_gradient_checkpointing(_offload)?|gradient_checkpointing_interval \d+|fp8_models \S+|weight_format \S+|blocks_to_swap \d+)"
    words += [word for word in re.sub(known, "", options).split(" --") if word.strip()]
    return ", ".join(word.strip().removeprefix("--") for word in words)


def cell(program, model, size):
    options = options_that_fit(program, model, size)
    return "–" if options is None else in_words(options)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--burnish", default="build/burnish")
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)))
    args = parser.parse_args()
    sizes = [int(size) for size in args.sizes.split(",")]
    print("| model | " + " | ".join(f"{size} GiB" for size in sizes) + " |")
    print("|---" * (len(sizes) + 1) + "|")
    for model in args.models.split(","):
        print(f"| `{model}` | " + " | ".join(cell(args.burnish, model, size) for size in sizes) + " |", flush=True)


if __name__ == "__main__":
    main()
