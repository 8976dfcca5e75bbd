"""Whole runs of a program that was made for another processor or another torch: losses and latents of diffusers and peft
(tests/golden/pipeline), a run that is stopped and goes on to the same bytes, INT8, FP8 and NF4 weights, a picture and a plan.

usage: check_runs.py BURNISH"""
import json, math, pathlib, struct, subprocess, sys, tempfile, time

HOME = pathlib.Path(__file__).resolve().parents[2]
GOLDEN, ASSETS = HOME / "tests/golden/pipeline", HOME / "assets/tiny-flux"
MODEL = ["--model", GOLDEN / "model", "--tokenizer_path", ASSETS / "tokenizer", "--tokenizer_2_path", ASSETS / "tokenizer_2", "--dtype", "fp32"]
DATA = ["--dataset_metadata_path", GOLDEN / "pictures/metadata.csv", "--height", 48, "--width", 64]
LORA = ["--lora_base_model", "dit", "--lora_rank", 4]


def tensors_of(path, dtypes={"F32": "f", "F64": "d"}):
    """The floating point tensors of a safetensors file, as lists of numbers."""
    whole = path.read_bytes()
    size = struct.unpack("<Q", whole[:8])[0]
    head, tensors = json.loads(whole[8:8 + size]), {}
    for name, entry in head.items():
        if name != "__metadata__" and entry["dtype"] in dtypes:
            first, last = entry["data_offsets"]
            letter = dtypes[entry["dtype"]]
            tensors[name] = struct.unpack(f"<{(last - first) // struct.calcsize(letter)}{letter}", whole[8 + size + first:8 + size + last])
    return tensors


def differs_by(values, expected):
    return math.sqrt(sum((a - b) ** 2 for a, b in zip(values, expected, strict=True)) / sum(b * b for b in expected))


class Runs:
    """Runs of one program, in a folder that goes away."""

    def __init__(self, program, folder):
        self.program, self.folder = program, pathlib.Path(folder)

    def run(self, *words):
        ended = subprocess.run([self.program, *map(str, words)], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if ended.returncode:
            raise SystemExit(f"{' '.join(map(str, words))}\n{ended.stdout}\nended with {ended.returncode}")
        return ended.stdout

    def train(self, name, *words):
        self.run("train", *MODEL, *DATA, "--output_path", self.folder / name, *words)
        lines = map(json.loads, (self.folder / name / "log.jsonl").read_text().splitlines())
        return [line for line in lines if line["step"] > 0]

    def replays_the_steps_of_peft(self):
        expected = tensors_of(GOLDEN / "expected.safetensors")
        log = self.train("replay", "--max_steps", 10, "--learning_rate", 1e-3, "--replay", GOLDEN / "replay.safetensors", "--lora_checkpoint",
                         GOLDEN / "lora.safetensors", "--loss_weighting", "uniform")
        for field, bound in (("loss", 1e-5), ("grad_norm", 1e-4)):
            worst = max(abs(line[field] / value - 1) for line, value in zip(log, expected[f"lora.{field}"], strict=True))
            assert worst < bound, (field, worst)
            yield f"{field} of ten steps: {worst:.1e} (at most {bound:.0e})"

    def draws_the_latents_of_diffusers(self):
        latents = self.folder / "latents.safetensors"
        self.run("sample", *MODEL, "--height", 48, "--width", 64, "--num_inference_steps", 4, "--noise", GOLDEN / "expected.safetensors", "--save_latents",
                 latents, "--output_path", self.folder / "drawn", "--prompt", "red apple", "--prompt", "tree of the north", "--embedded_guidance", 3.5)
        worst = differs_by(tensors_of(latents)["latents"], tensors_of(GOLDEN / "expected.safetensors")["latents.plain"])
        assert worst < 1e-4, worst
        assert (self.folder / "drawn/0001.png").read_bytes().startswith(b"\x89PNG")
        yield f"latents: {worst:.1e} (at most 1e-04)"

    def goes_on_to_the_same_bytes(self):
        often = [*LORA, "--save_steps", 2]
        self.train("whole", *often, "--max_steps", 4)
        self.train("half", *often, "--max_steps", 2)
        self.train("half", *often, "--max_steps", 4, "--resume")
        files = [sorted((self.folder / name).glob("*step-4*.safetensors")) for name in ("whole", "half")]
        assert files[0] and [file.read_bytes() for file in files[0]] == [file.read_bytes() for file in files[1]], files
        yield f"{files[0][0].name}: the same {files[0][0].stat().st_size} bytes after a stop"

    def trains_over_every_format(self):
        plain = self.train("plain", *LORA, "--max_steps", 2)
        for format in ("int8", "fp8", "nf4"):
            log = self.train(format, *LORA, "--max_steps", 2, "--fp8_models", "dit", "--weight_format", format)
            apart = abs(log[0]["loss"] / plain[0]["loss"] - 1)
            assert apart < 0.1, (format, apart)
            yield f"{format}: the first loss is {apart:.1e} from that of fp32"

    def plans(self):
        said = self.run("plan", *MODEL, *DATA, *LORA, "--alone")
        assert "peak" in said.lower(), said
        yield said.strip().splitlines()[-1]


def main():
    with tempfile.TemporaryDirectory() as folder:
        runs = Runs(pathlib.Path(sys.argv[1]).absolute(), folder)
        print(runs.run("--version").strip())
        for name, check in vars(Runs).items():
            if name not in ("__init__", "run", "train") and not name.startswith("_"):
                began = time.monotonic()
                for line in check(runs):
                    print(f"{name.replace('_', ' ')}: {line}", flush=True)
                print(f"[{time.monotonic() - began:.0f} s]", flush=True)


main()
