#!/usr/bin/env python3
"""Two processes with Gloo on this CPU: beside accelerate, and over a link of known rate beside the model of `burnish plan --link`.

A small FLUX of random weights, as in peers.py, in fp32, batch 1 a process, a core each. First LoRA and all weights beside diffusers + peft
under accelerate: DDP, and FSDP2 where burnish divides too. Then all weights in two network namespaces joined by a virtual cable that
carries so much a second (tc's token bucket; needs root): a step's time beside what `plan` computes, and what of the exchange is waited for over
what all of it takes. The step without waiting is that over a free cable, since to send and to sum takes the processor here; the same run has
both in turn, a few steps each, since runs differ by more than is waited for. Every case runs in turn, several times over. Times beside accelerate
are of the fastest steps, over links medians.
"""
import argparse
import datetime
import json
import shlex
import subprocess
import sys

import measure
from flux_folder import LORA_TARGETS, SMALL, make_model, make_pictures

IMAGE_SIDE, TEXT_TOKENS, PIXELS, RANK = 16, 64, 128, 16
WARM_UP = 4  # first steps, which are not counted
PHASE, SETTLING = 6, 2  # steps over one kind of cable, then over the other; the first of each are not counted
LORA = ["--lora_rank", RANK, "--lora_target_modules", LORA_TARGETS]
FULL = ["--trainable_models", "dit"]
OURS = {"lora-stage0": LORA, "lora-stage3": [*LORA, "--zero_stage", 3], "full-stage0": FULL, "full-stage1": [*FULL, "--zero_stage", 1], "full-stage2": [*FULL, "--zero_stage", 2]}
PEERS = {"lora-ddp": ["--train", "lora", "--targets", LORA_TARGETS, "--rank", RANK, "--processes", "ddp"],
         "full-ddp": ["--train", "full", "--processes", "ddp"], "full-fsdp2": ["--train", "full", "--processes", "fsdp2"]}
RATIOS = [("lora-stage0", "lora-ddp"), ("lora-stage3", "lora-ddp"), ("full-stage0", "full-ddp"), ("full-stage1", "full-ddp"), ("full-stage2", "full-fsdp2")]
RATES = ["8Gb", "4Gb", "2Gb", "1Gb", "500Mb"]
CASES = [f"peer-{case}" for case in PEERS] + [f"burnish-{case}" for case in OURS] + [f"link-{rate}" for rate in RATES]


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--cases", default="", help="regular expression; the cases are " + ", ".join(CASES))
    p.add_argument("--alternations", type=int, default=2, help="runs of each case")
    p.add_argument("--steps", type=int, default=28, help=f"of each run; the first {WARM_UP} are not counted")
    return measure.with_chosen_cases(p, p.parse_args(), CASES, WARM_UP)


def cable_script(rate, command, log):
    """Runs a command as two machines of a process each. By the lines of its log the cable between them becomes another every PHASE steps after WARM_UP."""
    shaped = f"tbf rate {rate.replace('b', 'bit')} burst 256k latency 400ms"
    return f"""set -e
mount -t tmpfs none /run; ip netns add b; ip link add v0 type veth peer name v1 netns b
ip addr add 10.9.8.1/24 dev v0; ip link set v0 up; ip link set lo up
ip netns exec b sh -c 'ip addr add 10.9.8.2/24 dev v1; ip link set v1 up; ip link set lo up'
cable() {{ tc qdisc replace dev v0 root $1; ip netns exec b tc qdisc replace dev v1 root $1; }}
come_to() {{ while [ "$(cat '{log}' 2>/dev/null | wc -l)" -lt $1 ]; do sleep 0.1; done; }}
rm -f '{log}'; cable pfifo
export WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 MASTER_ADDR=10.9.8.1 MASTER_PORT=29500
RANK=0 {command} & one=$!
RANK=1 ip netns exec b {command} & two=$!
(steps={WARM_UP}; while :; do
  steps=$((steps + {PHASE})); come_to $steps; cable '{shaped}'
  steps=$((steps + {PHASE})); come_to $steps; cable pfifo
done) & switch=$!
wait $one; wait $two; kill $switch
"""


def by_cable(steps):
    """Of the steps of such a run, those over the free cable and those over the shaped one."""
    phases = [steps[at:at + PHASE] for at in range(WARM_UP, len(steps), PHASE)]
    return [[seconds for phase in phases[kind::2] for seconds in phase[SETTLING:]] for kind in (0, 1)]


class Bench:
    def __init__(self, args):
        self.args, self.environment = args, measure.environment(1) | {"OMP_WAIT_POLICY": "passive"}
        if not measure.has_modules(["torch", "diffusers", "peft", "accelerate"], self.environment):
            sys.exit("python3 cannot import torch, diffusers, peft and accelerate: run ./dev bench processes, which installs them into .deps/golden")
        self.model = make_model(measure.SCRATCH / "flux-small", SMALL)
        self.metadata = make_pictures(measure.SCRATCH / "pictures", 8, PIXELS)

    def train(self, out, what):
        return ["train", "--model", self.model, "--dataset_metadata_path", self.metadata, "--height", PIXELS, "--width", PIXELS, "--max_sequence_length",
                TEXT_TOKENS, "--dtype", "fp32", "--num_threads", 1, "--device", "cpu", "--overwrite", "--output_path", out, "--max_steps", self.args.steps, *what]

    def peer(self, case):
        out = measure.SCRATCH / "peer.json"
        done = measure.run([sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", 2, measure.ROOT / "benchmarks/peer_flux.py", "--transformer",
                            self.model / "transformer", "--dtype", "fp32", "--image_side", IMAGE_SIDE, "--text_tokens", TEXT_TOKENS, "--threads", 1,
                            "--steps", self.args.steps, "--out", out, *PEERS[case]], measure.SCRATCH / "peer.txt", self.environment)
        return done, measure.read_lines(out)[0]["step_seconds"]

    def burnish(self, case):
        out = measure.SCRATCH / "run"
        done = measure.run([measure.burnish(), "launch", "-n", 2, "--", *self.train(out, OURS[case])], measure.SCRATCH / "burnish.txt", self.environment)
        return done, self.step_seconds(out)

    def step_seconds(self, out):
        return [line["step_seconds"] for line in measure.read_lines(out / "log.jsonl")]

    def link(self, rate):
        out = measure.SCRATCH / "run"
        command = shlex.join(map(str, [measure.burnish(), *self.train(out, FULL)]))
        done = measure.run(["unshare", "-m", "-n", "sh", "-c", cable_script(rate, command, out / "log.jsonl")], measure.SCRATCH / "link.txt", self.environment)
        return done, self.step_seconds(out)

    def planned(self, rate, seconds_alone):
        """Seconds of a step of two machines by `plan`, and those of them that are waited, where computing takes so long."""
        def steps(tflops):
            command = [measure.burnish(), "plan", *self.train("none", FULL)[1:], "--json", "--processes", 1, "--link", rate, "--local_link", rate, "--tflops", tflops]
            got = subprocess.run([str(word) for word in command], capture_output=True, text=True, env=self.environment, check=True)
            return json.loads(got.stdout)["scaling"]
        two = steps(steps(1)[0]["step_seconds"] / seconds_alone)[1]
        return two["step_seconds"], two["exposed_seconds"]

    def run(self):
        results = {case: [] for case in self.args.chosen}
        for alternation in range(self.args.alternations):
            for case in list(results) if alternation % 2 == 0 else reversed(list(results)):
                who, what = case.split("-", 1)
                done, seconds = getattr(self, who)(what)
                milliseconds = [round(1e3 * s, 2) for s in seconds]
                free, steps = by_cable(milliseconds) if who == "link" else ([], milliseconds[WARM_UP:])
                results[case].append({"step_ms": steps, "free_ms": free, "peak_mib": done.peak_mib, "other_cpu": done.other_cpu})
                print(f"{case:<24} fastest step {min(steps):7.1f} ms, median {measure.median(steps):7.1f} ms, {f'over a free cable {measure.median(free):.1f} ms, ' if free else ''}"
                      f"peak of a process {done.peak_mib:6.0f} MiB", flush=True)
        return results


def tables(bench, results):
    got = {case: {"time": min(s for run in runs for s in run["step_ms"]), "middle": measure.median(s for run in runs for s in run["step_ms"]),
                  "peak": max(run["peak_mib"] for run in runs)} for case, runs in results.items()}
    text, planned = "", {}
    pairs = [(ours, peer) for ours, peer in RATIOS if f"burnish-{ours}" in got and f"peer-{peer}" in got]
    if pairs:
        rows = []
        for ours, peer in pairs:
            over, under = got[f"burnish-{ours}"], got[f"peer-{peer}"]
            rows.append([ours, peer, f"{2e3 / over['time']:.2f}", f"{2e3 / under['time']:.2f}", f"{over['time'] / under['time']:.3f}", f"{over['middle'] / under['middle']:.3f}",
                         f"{over['peak']:.0f}", f"{under['peak']:.0f}", f"{over['peak'] / under['peak']:.3f}"])
        text += measure.markdown(["burnish", "accelerate", "burnish, samples a second", "accelerate", "step over step", "of medians", "burnish, MiB of the fullest process", "accelerate", "ratio"], rows) + "\n"
    rates = [rate for rate in RATES if f"link-{rate}" in got]
    if rates:
        num_bytes, rows = 4 * SMALL.num_parameters(), []
        for rate in rates:
            time, alone = (measure.median(s for run in results[f"link-{rate}"] for s in run[key]) for key in ("step_ms", "free_ms"))
            seconds, exposed = planned[rate] = bench.planned(rate, alone / 1e3)
            # Each of two processes sends half of the gradients to be summed and half of the sums.
            traffic = 8e3 * num_bytes / (float(rate[:-2]) * {"G": 1e9, "M": 1e6}[rate[-2]])
            rows.append([rate, f"{traffic:.0f}", f"{alone:.0f}", f"{time:.0f}", f"{1e3 * seconds:.0f}", f"{time / (1e3 * seconds):.2f}", f"{(time - alone) / traffic:.2f}", f"{1e3 * exposed / traffic:.2f}"])
        text += measure.markdown(["link", "gradients over it, ms", "step over a free cable, ms", "over this one", "by the model", "measured over model", "waited for, of all that travels", "by the model"], rows)
    return text, planned


def report(bench, results):
    args, cpu = bench.args, measure.cpu()
    table, planned = tables(bench, results)
    text = (f"# Two processes, {datetime.date.today().isoformat()}\n\n{cpu['name']}, {cpu['cores']} cores, one a process; burnish {measure.commit()}. Small FLUX "
            f"({SMALL.num_parameters() / 1e6:.1f} million parameters, 256 + 64 tokens), fp32, batch 1 a process; {args.alternations} runs of {args.steps} steps of each case in turn.\n\n{table}\n"
            f"Reproduce: `./dev bench processes --alternations {args.alternations} --steps {args.steps}{f' --cases {args.cases!r}' if args.cases else ''}`\n")
    measure.tell("processes", text, {"cpu": cpu, "commit": measure.commit(), "results": results, "planned": planned})


if __name__ == "__main__":
    bench = Bench(arguments())
    report(bench, bench.run())
