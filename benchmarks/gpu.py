#!/usr/bin/env python3
"""What a GPU makes of burnish, in one call of at most --minutes: tests on it, single operators beside ATen's and the memory's bandwidth, and
steps of FLUX.1 at its full 12 billion parameters (batch 1), of SDXL (batch 4), both at 1024x1024, of Wan 2.1 1.3B (81 frames of 672x672,
21 x 42 x 42 tokens), of MiniMax-H3 in ComfyUI's pruned INT8 (stills of 512x512, and 22 frames of 480x832), and of LTX-2.3 in INT8 (17 frames of 512x512), a LoRA of
rank 16, beside diffusers + peft where python3 imports them and has the format.

Weights are random (24, 5, 3, 21 and 19 GB, written once into build/bench/, of a model whose cases are asked for); speed and memory do not depend on their values. Model FLOPs leave
recomputation out: 2 forward costs of products with weights, 3 of attention. What fails is named in the report, and the rest goes on.
BURNISH_TEST_DEVICE=cpu rehearses all of it with small models.
"""
import argparse
import datetime
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import flux_folder
import h3_folder
import ltx_folder
import measure
import unet_folder
import wan_folder

PARTS = ("tests", "operators", "steps")
DEVICE = os.environ.get("BURNISH_TEST_DEVICE", "cuda")
ON_GPU = DEVICE != "cpu"
PIXELS, RANK, DROPPED, GIB = 1024 if ON_GPU else 128, 16, 3, 1 << 30
PEAK_TFLOPS, PEAK_GB = 989, 4800  # dense bf16 and memory of an H200 (SXM)
# Those that take the device: operators, weight formats, optimizers, parity with the reference programs, adapters, replayed and resumed steps,
# and of whole runs of every family those that compare with the reference programs, with plain weights, and with the model before training.
TESTS = {"test_kernels": "*", "test_optim": "OnDevice.*", "test_quant": "*", "test_nn": "FrozenLayers.*", "test_adapters": "*",
         "test_models_families": "*Parity*", "test_models_parts": "*Parity*", "test_models_text": "*Parity*",
         "test_models_vae": "*Parity*", "test_train_step": "StepTest.*", "test_checkpoint": "State*",
         "test_integration": "*Parity*:*InFp8.*:*OverFp8.*:*TermsOf.*:Dmd2.*:Concepts.*:Embedding.*:Caption.*:MakeMasks.*"}
TEST_PARTS = {"test_integration": 12}  # processes, of which each runs its share; one otherwise


@dataclass(frozen=True)
class Subject:
    """A model with random weights, and how the two programs are asked to train it."""
    name: str
    component: str
    batch: int
    make: Callable  # writes it into a folder
    num_parameters: int
    targets: str
    burnish: tuple  # options
    peer: tuple  # script and options; () where diffusers does not read the weights
    flops: tuple  # of one forward of a picture: products with weights, attention
    make_data: Callable  # writes what to learn from, returns the metadata's path

    def step_flops(self, checkpointed):
        """(executed, model) FLOPs of a step; the frozen weights get no gradient. Flash attention multiplies 2 matrices in forward and 5 in
        backward; the LoRA itself, about 1 %, is left out."""
        (linear, attention), extra = (self.batch * f for f in self.flops), 1 if checkpointed else 0
        return linear * (2 + extra) + attention * (3.5 + extra), 2 * linear + 3 * attention


def make_pictures():
    return flux_folder.make_pictures(measure.SCRATCH / f"pictures-{PIXELS}", 4, PIXELS)


def flux():
    config, text_tokens = (flux_folder.FLUX_DEV, 512) if ON_GPU else (flux_folder.SMALL, 64)
    side = PIXELS // (16 if ON_GPU else 8)  # in tokens; the small model's autoencoder scales by 4
    tokens, blocks = side**2 + text_tokens, config.num_layers + config.num_single_layers
    return Subject("FLUX.1", "transformer", 1, lambda folder: flux_folder.make_model(folder, config), config.num_parameters(),
                   flux_folder.LORA_TARGETS, ("--max_sequence_length", text_tokens),
                   ("peer_flux.py", "--image_side", side, "--text_tokens", text_tokens, "--no_cudnn_attention"),  # which fails in backward
                   (2 * 12 * config.width**2 * tokens * blocks, blocks * 4 * tokens**2 * config.width), make_pictures)


def sdxl():
    config = unet_folder.SDXL if ON_GPU else unet_folder.SMALL
    side = PIXELS // 8
    return Subject("SDXL", "unet", 4, lambda folder: unet_folder.make_model(folder, config), config.num_parameters(), unet_folder.LORA_TARGETS,
                   ("--batch_size", 4), ("peer_unet.py", "--latent_side", side, "--text_tokens", unet_folder.TEXT_TOKENS, "--batch_size", 4),
                   config.walk(side)[1], make_pictures)


def wan():
    config, frames, side = (wan_folder.WAN_1_3B, 81, 672) if ON_GPU else (wan_folder.SMALL, 17, 128)
    latent = (1 + (frames - 1) // 4, side // 8)
    return Subject("Wan 2.1", "transformer", 1, lambda folder: wan_folder.make_model(folder, config), config.num_parameters(),
                   wan_folder.LORA_TARGETS, ("--num_frames", frames, "--height", side, "--width", side),
                   ("peer_family.py", "--family", "wan", "--latent_frames", latent[0], "--latent_side", latent[1], "--text_tokens",
                    wan_folder.TEXT_TOKENS),
                   config.flops(latent[0] * (latent[1] // 2) ** 2),
                   lambda: wan_folder.make_clips(measure.SCRATCH / f"clips-{side}", 2, frames, side))


def h3(name, frames, height, width):
    """MiniMax-H3: stills, or clips without sound. A token has 32 by 32 pixels; a clip's sound is 40 latents a second on either side."""
    config = h3_folder.MINIMAX_H3 if ON_GPU else h3_folder.SMALL
    latents, sound = (1, h3_folder.SOUND_TOKENS) if frames == 1 else ((frames - 5) // 17 * 5 + 2, 2 * round(frames / 24 * 40))
    tokens = latents * (height // 32) * (width // 32) + sound + h3_folder.TEXT_TOKENS
    parts = folder_of_name("MiniMax-H3")
    data = make_pictures if frames == 1 else lambda: wan_folder.make_clips(measure.SCRATCH / f"clips-{max(height, width)}-{frames}", 2, frames, max(height, width))
    return Subject(name, "transformer", 1, lambda _: h3_folder.make_model(parts, config), config.num_parameters(), h3_folder.LORA_TARGETS,
                   (*(word for part in h3_folder.PARTS for word in ("--model", parts / part)), "--tokenizer_path", parts / "tokenizer",
                    "--num_frames", frames, "--height", height, "--width", width),
                   (), config.flops(tokens), data)


def ltx(frames, height, width):
    """LTX-2.3: clips without sound, whose latents of sound are noise."""
    config = ltx_folder.LTX_23 if ON_GPU else ltx_folder.SMALL
    return Subject(f"LTX-2.3, {frames} frames", "transformer", 1, lambda folder: ltx_folder.make_model(folder, config), config.num_parameters(), ltx_folder.LORA_TARGETS,
                   ("--num_frames", frames, "--height", height, "--width", width), (),
                   config.flops(*ltx_folder.tokens_of(frames, height, width)),
                   lambda: wan_folder.make_clips(measure.SCRATCH / f"clips-{max(height, width)}-{frames}", 2, frames, max(height, width)))


def folder_of_name(name):
    return measure.SCRATCH / f"{name}-{'gpu' if ON_GPU else 'rehearsal'}"


FLUX, SDXL, WAN = flux(), sdxl(), wan()
H3_STILL, H3_CLIP = (h3("MiniMax-H3, a still", 1, 512, 512), h3("MiniMax-H3, 22 frames", 22, 480, 832)) if ON_GPU else (
    h3("MiniMax-H3, a still", 1, 64, 64), h3("MiniMax-H3, 22 frames", 22, 64, 64))
LTX = ltx(17, 512, 512) if ON_GPU else ltx(9, 64, 64)
SUBJECTS = (FLUX, SDXL, WAN, H3_STILL, LTX)
# The most important first: what no time is left for is left out.
CASES = [(FLUX, "bf16", []), (FLUX, "fp8 weights", ["fp8"]), (FLUX, "fp8 products", ["fp8", "products"]), (SDXL, "bf16", []), (SDXL, "bf16, CUDA graphs", ["graphs"]),
         (H3_STILL, "int8 codes", ["as it lies"]), (H3_CLIP, "int8 codes, checkpointed", ["as it lies", "checkpointed"]), (H3_STILL, "int8 products", ["as it lies", "int8 products"]),
         (LTX, "int8 codes", ["as it lies"]), (LTX, "int8 products", ["as it lies", "int8 products"]),
         (FLUX, "int8 weights", ["int8"]), (FLUX, "int8 products", ["int8", "int8 products"]), (FLUX, "int8 convrot products", ["int8_convrot", "int8 products"]),
         (FLUX, "nf4 weights", ["nf4"]), (WAN, "bf16, checkpointed", ["checkpointed"]), (FLUX, "bf16, checkpointed", ["checkpointed"]), (FLUX, "fp8 weights, checkpointed", ["fp8", "checkpointed"])]


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--programs", type=Path, default=measure.ROOT / "build", help="a build folder, or what ./dev gpu --pack made")
    p.add_argument("--minutes", type=float, default=9)
    p.add_argument("--steps", type=int, default=15, help=f"of each process; the first {DROPPED} are dropped")
    p.add_argument("--peak_tflops", type=float, default=PEAK_TFLOPS, help="dense bf16 rate that the utilisation is a share of")
    p.add_argument("--peak_gb", type=float, default=PEAK_GB, help="GB/s of the device's memory")
    p.add_argument("--test_seconds", type=int, default=120, help="after which a test program is ended")
    p.add_argument("--parts", default=",".join(PARTS), help="what to do of these, a list with commas")
    p.add_argument("--cases", default="", help="a regular expression for the steps to measure: 'SDXL', 'FLUX.1, fp8'")
    p.add_argument("--no_peer", action="store_true", help="leave diffusers + peft out")
    p.add_argument("--out", type=Path, default=measure.SCRATCH / "gpu", help="folder for report.md and report.json")
    args = p.parse_args()
    if args.steps <= DROPPED:
        p.error(f"--steps must be above {DROPPED}")
    if not set(args.parts.split(",")) <= set(PARTS):
        p.error(f"--parts takes some of {', '.join(PARTS)}")
    return args


def query(what):
    if not ON_GPU:
        return ""
    got = subprocess.run(["nvidia-smi", f"--query-gpu={what}", "--format=csv,noheader,nounits", "-i", "0"], capture_output=True, text=True)
    return got.stdout.strip() if got.returncode == 0 else ""


def require_machine(args):
    """What the GPU has to be, before minutes are spent."""
    if not ON_GPU:
        return
    if shutil.which("nvidia-smi") is None or not query("name"):
        sys.exit("gpu needs an NVIDIA GPU with its driver, and this machine has none: run it on one that has, or rehearse with "
                 "BURNISH_TEST_DEVICE=cpu")
    free = shutil.disk_usage(measure.ROOT).free
    asked = {subject.name for subject, case, _ in CASES if re.search(args.cases, f"{subject.name}, {case}")}
    needed = sum((1.1 if not subject.peer else 2.2) * subject.num_parameters for subject in SUBJECTS
                 if subject.name in asked and not (folder_of(subject) / "made_from.json").exists())
    if free < needed:
        sys.exit(f"gpu writes {needed / 1e9:.0f} GB of weights into {measure.SCRATCH}, where {free / 1e9:.0f} GB are free")


def folder_of(subject):
    return folder_of_name(subject.name.split(",")[0])


def environment(args):
    """For our programs: torch's libraries are found where python3 has its torch, and the others in the pack."""
    environ = measure.environment(measure.cpu()["cores"])
    folders = [args.programs.resolve() / "lib"] if (args.programs / "lib").exists() else []
    spec = importlib.util.find_spec("torch")
    if spec is not None and ON_GPU:
        torch = Path(spec.submodule_search_locations[0])
        folders += [torch / "lib", *sorted(torch.parent.glob("nvidia/*/lib"))]
    path = [str(folder) for folder in folders] + [environ[key] for key in ("LD_LIBRARY_PATH",) if key in environ]
    return environ | ({"LD_LIBRARY_PATH": ":".join(path)} if path else {}) | {"BURNISH_TEST_DEVICE": DEVICE}


class DeviceMemory:
    """The highest device memory in use while in the `with` block, every 0.2 s as nvidia-smi sees it, above what was in use before."""

    def __enter__(self):
        self.before, self.peak_mib, self.ended = float(query("memory.used") or 0), 0.0, threading.Event()
        self.thread = threading.Thread(target=self.watch)
        if ON_GPU:
            self.thread.start()
        return self

    def watch(self):
        while not self.ended.wait(0.2):
            self.peak_mib = max(self.peak_mib, float(query("memory.used") or 0) - self.before)

    def __exit__(self, *_):
        self.ended.set()
        if ON_GPU:
            self.thread.join()


class Report:
    def __init__(self, args):
        self.args, self.environment, self.begin = args, environment(args), time.time()
        self.failures, self.data, self.sections = [], {}, []

    def program(self, name):
        packed = self.args.programs / "bin" / name
        return packed if packed.exists() else self.args.programs / name

    def seconds_left(self):
        return 60 * self.args.minutes - (time.time() - self.begin)

    def attempt(self, what, task):
        """The task's result, or None where it fails, which the report then says, or where no time is left."""
        if self.seconds_left() < 20:
            self.failures.append(f"{what}: no time was left")
            return None
        print(f"{what} ({self.seconds_left():.0f} s left)", flush=True)
        try:
            return task()
        except (Exception, SystemExit) as failure:  # the next ones may well work
            self.failures.append(f"{what}: {failure}")
            print(f"  failed: {failure}", flush=True)
            return None

    def tests(self):
        rows = []
        # Together, since each of them leaves the GPU idle most of its time.
        parts = [(name, part, TEST_PARTS.get(name, 1)) for name in TESTS for part in range(TEST_PARTS.get(name, 1))]
        with ThreadPoolExecutor(len(parts)) as pool:
            got = list(pool.map(lambda of: self.attempt(f"{of[0]}, part {of[1] + 1} of {of[2]}", lambda: self.run_tests(*of)), parts))
        for name in TESTS:
            results = [result for (of, *_), some in zip(parts, got) if of == name for result in some or []]
            of = lambda word: [test for result, test in results if result == word]  # noqa: B023, E731
            self.data.setdefault("tests", {})[name] = {"passed": len(of("OK")), "skipped": len(of("SKIPPED")), "failed": of("FAILED")}
            rows.append([name, len(of("OK")), len(of("SKIPPED")), ", ".join(of("FAILED")) or "none"])
        self.sections.append("## Tests\n\n" + measure.markdown(["program", "passed", "skipped", "failed"], rows))

    def run_tests(self, name, part, parts):
        """[(OK, FAILED or SKIPPED, test)] of one process, also of one that time ended."""
        log = self.args.out / f"{name}.{part}.txt"
        environ = self.environment | {"GTEST_TOTAL_SHARDS": str(parts), "GTEST_SHARD_INDEX": str(part)}
        with log.open("w") as output:
            code = subprocess.run(["timeout", str(max(20, min(self.args.test_seconds, int(self.seconds_left())))), self.program(name), f"--gtest_filter={TESTS[name]}"],
                                  env=environ, stdout=output, stderr=subprocess.STDOUT, cwd=measure.ROOT).returncode
        text = log.read_text(errors="replace")
        results = re.findall(r"^\[ +(OK|FAILED|SKIPPED) +\] (\S+) \(", text, re.M)
        if code != 0 and "FAILED" not in dict(results):
            self.failures.append(f"{name}, part {part + 1} of {parts}: ended with {code} after {len(results)} tests: {text.strip().splitlines()[-1:]}")
        return results

    def operators(self):
        """Each operator, ATen's expression of it, and how near it comes to the memory's bandwidth."""
        out = self.args.out / "operators.json"
        command = [self.program("bench_micro"), "--benchmark_filter=bf16", f"--benchmark_out={out}", "--benchmark_out_format=json",
                   "--benchmark_min_time=0.05"]
        subprocess.run([str(c) for c in command], env=self.environment, check=True, capture_output=True, text=True,
                       timeout=max(20, min(150, self.seconds_left())))
        times = {run["name"].removesuffix("/real_time"): run for run in json.loads(out.read_text())["benchmarks"]}
        self.data["operators"] = {name: {"us": run["real_time"], "bytes_per_second": run.get("bytes_per_second")} for name, run in times.items()}
        rows = []
        for name, run in times.items():
            aten = times.get(name.replace("/", "_of_aten/", 1))
            if aten is not None:
                share = run["bytes_per_second"] / 1e9 / self.args.peak_gb
                rows.append([name, f"{run['real_time']:.1f}", f"{aten['real_time']:.1f}", f"{aten['real_time'] / run['real_time']:.2f}", f"{share:.0%}"])
        self.sections.append("## Operators\n\n" + measure.markdown(
            ["operator", "us", "of ATen, us", "times as fast", f"share of {self.args.peak_gb:g} GB/s"], rows))

    def steps(self):
        has_peer = not self.args.no_peer and measure.has_modules(["torch", "diffusers", "peft"], dict(os.environ))
        rows, results = [], self.data.setdefault("steps", {})
        for subject, case, words in CASES:
            if not re.search(self.args.cases, f"{subject.name}, {case}"):
                continue
            if self.attempt(f"the folder of {subject.name}", lambda subject=subject: subject.make(folder_of(subject))) is None:
                continue
            for who in ["burnish"] + (["diffusers + peft"] if has_peer and subject.peer and set(words) <= {"fp8", "checkpointed"} else []):
                run = self.burnish if who == "burnish" else self.peer
                figures = self.attempt(f"{who}, {subject.name}, {case}", lambda: run(subject, words))
                if figures is not None:
                    results[f"{who}, {subject.name}, {case}"] = figures
                    rows.append([f"{subject.name}, batch {subject.batch}", case, who, f"{figures['median_step_ms']:.0f}",
                                 f"{figures['device_peak_gib']:.1f}", f"{figures['allocated_peak_gib']:.1f}",
                                 f"{figures['executed_tflops']:.1f}", f"{figures['utilisation']:.1%}", f"{figures['startup_s']:.0f}"])
        sizes = " and ".join(f"{subject.name} ({subject.num_parameters / 1e9:.2f} billion parameters)" for subject in SUBJECTS)
        note = "" if has_peer else "diffusers + peft were left out" + (".\n\n" if self.args.no_peer else ": python3 cannot import them.\n\n")
        self.sections.append(f"## Steps of a LoRA of rank {RANK}: {sizes}\n\n{note}" + measure.markdown(
            ["model", "case", "program", "ms a step", "peak GiB of the device", "of the allocator", "TFLOP/s executed",
             f"model FLOPs, share of {self.args.peak_tflops:g} TFLOP/s", "s to first step"], rows))

    def peer(self, subject, words):
        out = measure.SCRATCH / "peer.json"
        script, *options = subject.peer
        command = [sys.executable, measure.ROOT / "benchmarks" / script, f"--{subject.component}", folder_of(subject) / subject.component,
                   "--train", "lora", "--dtype", "bf16", "--targets", subject.targets, "--rank", RANK, "--steps", self.args.steps,
                   "--device", DEVICE, "--threads", measure.cpu()["cores"], "--out", out, *options]
        command += ["--checkpointing"] * ("checkpointed" in words) + ["--fp8"] * ("fp8" in words)
        finished, peak_mib = self.run(command, "peer.txt", measure.environment(measure.cpu()["cores"]))
        got = measure.read_lines(out)[0]
        return self.figures(finished, peak_mib, got["step_seconds"], got["first_step_end"], got["peak_device_bytes"], subject, words)

    def burnish(self, subject, words):
        out = measure.SCRATCH / "run"
        command = [self.program("burnish"), "train", *([] if "--model" in subject.burnish else ["--model", folder_of(subject)]), "--dataset_metadata_path", subject.make_data(), "--height", PIXELS,
                   "--width", PIXELS, "--dtype", "bf16", "--device", DEVICE, "--lora_rank", RANK, "--lora_target_modules", subject.targets,
                   "--max_steps", self.args.steps, "--overwrite", "--output_path", out, *subject.burnish]
        command += ["--use_gradient_checkpointing"] * ("checkpointed" in words) + ["--fp8_compute"] * ("products" in words)
        command += ["--cuda_graphs", "auto"] * ("graphs" in words) + ["--int8_compute"] * ("int8 products" in words)
        for form in set(words) & {"fp8", "int8", "int8_convrot", "nf4"}:
            command += ["--fp8_models", f"{folder_of(subject)}:{subject.component}", "--weight_format", form]
        finished, peak_mib = self.run(command, "burnish.txt", self.environment)
        lines = measure.read_lines(out / "log.jsonl")
        return self.figures(finished, peak_mib, [line["step_seconds"] for line in lines], lines[0]["time"],
                            max(line.get("peak_device_memory_bytes", 0) for line in lines), subject, words)

    def run(self, command, log, environ):
        with DeviceMemory() as memory:
            finished = measure.run(["timeout", f"{self.seconds_left():.0f}", *command], self.args.out / log, environ)
        return finished, memory.peak_mib

    def figures(self, finished, peak_mib, step_seconds, first_step_end, allocated_bytes, subject, words):
        step = measure.median(step_seconds[DROPPED:])
        executed, model = subject.step_flops("checkpointed" in words)
        return {"step_ms": [round(1e3 * s, 2) for s in step_seconds], "median_step_ms": 1e3 * step, "startup_s": first_step_end - finished.start,
                "device_peak_gib": peak_mib / 1024, "allocated_peak_gib": allocated_bytes / GIB, "host_peak_gib": finished.peak_mib / 1024,
                "executed_tflops": executed / step / 1e12, "utilisation": model / step / 1e12 / self.args.peak_tflops}

    def write(self):
        device = query("name") or measure.cpu()["name"]
        title = f"# burnish {measure.commit()} on {device}, {datetime.date.today().isoformat()}" + ("" if ON_GPU else " (a rehearsal)")
        machine = f"Driver {query('driver_version') or 'none'}, compute capability {query('compute_cap') or 'none'}, {measure.cpu()['cores']} CPU cores."
        failed = "".join(f"- {failure}\n" for failure in self.failures) or "None.\n"
        text = "\n\n".join([title, machine, *(s.rstrip() for s in self.sections), "## What failed or was left out\n\n" + failed])
        (self.args.out / "report.md").write_text(text)
        facts = {"device": device, "driver": query("driver_version"), "cpu": measure.cpu(), "commit": measure.commit(), "failures": self.failures}
        (self.args.out / "report.json").write_text(json.dumps(facts | self.data, indent=1) + "\n")
        print(f"\n{text}\nin {self.args.out}, after {time.time() - self.begin:.0f} s")


def main():
    args = arguments()
    require_machine(args)
    args.out.mkdir(parents=True, exist_ok=True)
    report = Report(args)
    todo = {"tests": report.tests, "operators": lambda: report.attempt("operators", report.operators), "steps": report.steps}
    for part in args.parts.split(","):
        todo[part]()
        report.write()  # what there is, should this call be ended from outside


if __name__ == "__main__":
    main()
