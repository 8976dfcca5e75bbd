#!/usr/bin/env python3
"""What burnish and other programs make of each other's adapter files: `./dev bench compatibility` writes the table of docs/compatibility.md.

read     the other program puts an adapter of random numbers on a model and writes it; both draw with the file
written  burnish trains two steps and writes the file; both draw with it
changes  how far the adapter of `read` moves the other program's latents
All are ‖difference‖ / ‖the other program's latents‖. FLUX.1 and SDXL in miniature, fp32, the same noise. A dash: not
written by burnish for that program, or by it at all. Of DiffSynth-Studio, whose transformer of that size does not draw,
weights after merging are compared; models are read as diffusers saved them and written by `burnish convert`.
"""
import json
import pathlib
import re
import sys
import tempfile
import torch
from diffusers.training_utils import _collate_lora_metadata as collate
from lycoris.wrapper import create_lycoris_from_weights
from diffsynth.utils.lora.flux import FluxLoRALoader
from diffsynth.utils.lora.general import GeneralLoRALoader
from peft import LoHaConfig, LoKrConfig, LoraConfig, get_peft_model_state_dict
from safetensors.torch import load_file

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/golden"))
import check_converted_files as converted  # noqa: E402
import check_written_files as flux  # noqa: E402
import make_diffsynth as diffsynth  # noqa: E402
import make_kinds as kinds  # noqa: E402
import make_stable_diffusion_runs as stable_diffusion  # noqa: E402
from make_pipeline import OUT, sampled  # noqa: E402

PAGE, NAME = ROOT / "docs/compatibility.md", "sdxl_pipeline"
FLUX_NOISE, SDXL_NOISE = load_file(OUT / "expected.safetensors")["noise"], load_file(kinds.OUT.parent / NAME / "noise.safetensors")
PEFT = kinds.PEFT | {"lora": lambda: LoraConfig(r=2, lora_alpha=3, **kinds.TARGETS),
                     "dora": lambda: LoraConfig(r=2, lora_alpha=3, use_dora=True, **kinds.TARGETS),
                     "loha": lambda: LoHaConfig(r=2, alpha=3, **kinds.TARGETS), "lokr": lambda: LoKrConfig(r=2, alpha=3, **kinds.TARGETS)}
LYCORIS = kinds.LYCORIS | {"lora": ("lora", kinds.BOTH, {}), "dora": ("lora", kinds.BOTH, {"weight_decompose": True}),
                           "loha": ("loha", kinds.BOTH, {}), "lokr": ("lokr", kinds.BOTH, {})}
del LYCORIS["dylora"]  # it draws its rank anew at each call


def error(found, expected):
    return f"{((found - expected).norm() / expected.norm()).item():.1e}"


def flux_latents(pipe):
    return sampled(pipe, FLUX_NOISE, flux.PROMPTS)


def latents(pipe, noise=SDXL_NOISE):
    config = {k: v for k, v in dict(pipe.scheduler.config).items() if k != "skip_prk_steps"} | {"timestep_spacing": "leading"}
    return stable_diffusion.sampled(pipe, noise, flux.EulerDiscreteScheduler.from_config(config))


def flux_errors(pipe, file, folder):
    """Of burnish with the file, and of the other program without it."""
    expected = flux_latents(pipe)
    found = flux.draw(OUT / "model", folder / "latents.safetensors", "--lora", file)
    return error(found, expected), error(flux_latents(flux.pipeline()), expected)


def sdxl_errors(pipe, file, folder):
    expected = latents(pipe)
    found = flux.sd_draw(kinds.OUT.parent / NAME / "model", NAME, folder, "--lora", file)
    return error(found, expected), error(latents(stable_diffusion.open_pipe(NAME)), expected)


def read_peft(kind, folder):
    pipe = flux.pipeline()
    kinds.peft_model(pipe.transformer.requires_grad_(False), folder / kind, PEFT[kind]())
    return flux_errors(pipe, folder / kind, folder)


def read_diffusers(kind, folder):
    pipe = flux.pipeline()
    config = PEFT[kind]()
    pipe.transformer.add_adapter(config)
    config.base_model_name_or_path = None
    with torch.no_grad():
        for name, p in pipe.transformer.named_parameters():
            if "lora_" in name:
                p.add_(torch.randn_like(p) * 0.1)
    flux.FluxPipeline.save_lora_weights(folder, weight_name=f"{kind}.safetensors", transformer_lora_layers=get_peft_model_state_dict(pipe.transformer),
                                        **collate({"transformer": pipe.transformer}))
    return flux_errors(pipe, folder / f"{kind}.safetensors", folder)


def read_lycoris(kind, folder):
    algo, names, options = LYCORIS[kind]
    pipe = stable_diffusion.open_pipe(NAME)
    network = kinds.lycoris_network(pipe.unet.requires_grad_(False), folder / f"{kind}.safetensors", algo, names, **options)
    network.eval()
    return sdxl_errors(pipe, folder / f"{kind}.safetensors", folder)


def written_diffusers(kind, folder):
    file = flux.train(folder / f"written_{kind}", "--lora_type", kind, "--lora_rank", 4, "--lora_alpha", 8)
    pipe = flux.pipeline()
    pipe.load_lora_weights(str(file))
    return flux_errors(pipe, file, folder)


def written_lycoris(kind, folder):
    file = flux.sd_train(NAME, folder / f"written_{kind}", "--lora_type", kind, "--lora_rank", 4, "--lora_format", "lycoris", "--dtype", "fp32",
                         "--lora_target_modules", "to_q,conv1")
    pipe = stable_diffusion.open_pipe(NAME)
    network, _ = create_lycoris_from_weights(1.0, str(file), pipe.unet.requires_grad_(False))
    network.apply_to()
    network.eval()
    return sdxl_errors(pipe, file, folder)


def merged_by_diffsynth(file):
    """The weights of its transformer with the file merged into them, or without."""
    dit = diffsynth.small_dit()
    if file:
        lora = load_file(file)
        in_its_names = any(".lora_A.default." in name for name in lora)
        (GeneralLoRALoader if in_its_names else FluxLoRALoader)().fuse_lora_to_base_model(dit, lora)
    return torch.cat([weight.flatten() for _, weight in sorted(dit.state_dict().items())])


def merged_here(file, folder):
    converted.convert(OUT / "model", folder / "merged", "--lora", file, "--dtype", "fp32", "--overwrite")
    config = json.loads((OUT / "model/transformer/config.json").read_text())
    state = diffsynth.weights(config, folder / "merged/transformer/diffusion_pytorch_model.safetensors")
    return torch.cat([weight.flatten() for _, weight in sorted(state.items())])


def diffsynth_row(kind, file, lora_format, folder):
    read, base = merged_by_diffsynth(file), merged_by_diffsynth(None)
    written = flux.train(folder / f"written_{lora_format}", "--lora_rank", 4, "--lora_format", lora_format)
    return ("DiffSynth-Studio", kind, error(base, read), error(merged_here(file, folder), read),
            error(merged_here(written, folder), merged_by_diffsynth(written)))


def small_rows(title, golden, pipeline, folder):
    """LoRAs of a family whose golden script has one model: an adapter of random numbers in the names of each program that writes such
    files, and files that burnish trained, both through diffusers, which reads them all."""
    noise = flux.noise_of(golden, folder)
    base = golden.sampled(pipeline(), noise)
    torch.manual_seed(3)
    pipe = pipeline()
    pipe.transformer.add_adapter(LoraConfig(r=2, lora_alpha=3, target_modules=golden.TARGETS))
    with torch.no_grad():
        for name, p in pipe.transformer.named_parameters():
            if "lora_" in name:
                p.add_(torch.randn_like(p) * 0.1)
    state = get_peft_model_state_dict(pipe.transformer)
    for program, file, lora_format in (("diffusers", spelled(state, folder / "a.safetensors", "transformer."), "diffusers"),
                                       ("ai-toolkit, ComfyUI", spelled(state, folder / "b.safetensors", "diffusion_model."), None),
                                       ("musubi-tuner, OneTrainer", spelled(state, folder / "c.safetensors", "lora_unet_", flat=True), "kohya"),
                                       ("DiffSynth-Studio", spelled(state, folder / "d.safetensors", "", part=".default"), "diffsynth")):
        def errors(file):
            pipe = pipeline()
            pipe.load_lora_weights(str(file))
            expected = golden.sampled(pipe, noise)
            return error(flux.small_draw(golden, golden.OUT / "model", folder, "--lora", file), expected), error(base, expected)

        found, change = errors(file)
        written = "–" if lora_format is None else errors(
            flux.small_train(golden, folder / lora_format, "--lora_rank", 4, "--lora_alpha", 8, "--lora_format", lora_format))[0]
        yield program, f"lora of {title}", change, found, written
    # A single file does not say how many heads so small a text encoder has, so there is none to write.
    yield "diffusers", f"{title}, folder", "–", error(flux.small_draw(golden, golden.OUT / "model", folder), base), "–"


def spelled(state, file, prefix, flat=False, part=""):
    """peft's tensors of an adapter in the names of another program; scales are multiplied in where it writes no alpha."""
    tensors = {}
    for name, value in state.items():
        path, half = name.removesuffix(".weight").rsplit(".lora_", 1)
        path = prefix + (path.replace(".", "_") if flat else path)
        if flat:
            tensors[f"{path}.lora_{'down' if half == 'A' else 'up'}.weight"] = value.contiguous()
            tensors[f"{path}.alpha"] = torch.tensor(3.0)
        else:
            tensors[f"{path}.lora_{half}{part}.weight"] = (value * (1.5 if half == "B" else 1)).contiguous()
    flux.save_file(tensors, file)
    return file


def model_rows(folder):
    expected = flux_latents(flux.pipeline())
    converted.convert(OUT / "model", folder / "flux.safetensors")
    converted.convert(folder / "flux.safetensors", folder / "flux", "--config_from", OUT / "model")
    pipe = flux.pipeline(transformer=converted.FluxTransformer2DModel.from_pretrained(folder / "flux/transformer"))
    yield ("diffusers", "FLUX.1, folder", "–", error(flux.draw(OUT / "model", folder / "latents.safetensors"), expected), error(flux_latents(pipe), expected))
    for name, title in (("sdxl_pipeline", "SDXL"), ("sd15_pipeline", "SD 1.5")):
        noise = load_file(kinds.OUT.parent / name / "noise.safetensors")
        kept, from_file, from_folder = (latents(pipe, noise) for pipe in converted.pipelines(name, folder))
        yield "diffusers", f"{title}, folder", "–", error(flux.sd_draw(kinds.OUT.parent / name / "model", name, folder), kept), error(from_folder, kept)
        yield "diffusers", f"{title}, single file", "–", error(flux.sd_draw(folder / f"{name}.safetensors", name, folder), kept), error(from_file, kept)


def rows(folder):
    written = {"diffusers": (written_diffusers, ("lora", "dora")), "LyCORIS": (written_lycoris, ("lora", "dora", "loha", "lokr", "oft", "full"))}
    for program, reader, names in (("diffusers", read_diffusers, ("lora", "dora")), ("peft", read_peft, PEFT), ("LyCORIS", read_lycoris, LYCORIS)):
        for kind in names:
            writer, kinds_written = written.get(program, (None, ()))
            torch.manual_seed(3)
            found, change = reader(kind, folder)
            yield program, kind, change, found, writer(kind, folder)[0] if kind in kinds_written else "–"
    for kind, file, lora_format in (("lora, its names", "trained", "diffsynth"), ("lora, kohya's names", "kohya", "kohya")):
        yield diffsynth_row(kind, diffsynth.OUT / f"{file}.safetensors", lora_format, folder)
    for title, golden, pipeline in (("Z-Image", flux.zimage, flux.zimage_pipeline), ("Qwen-Image", flux.qwen_image, flux.qwen_image_pipeline)):
        (folder / golden.OUT.name).mkdir()
        yield from small_rows(title, golden, pipeline, folder / golden.OUT.name)
    yield from model_rows(folder)


def main():
    lines = ["| program | kind | changes | read | written |", "|---|---|---|---|---|"]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        flux.save_file({"noise": FLUX_NOISE}, folder / "noise.safetensors")
        for row in rows(folder):
            lines.append(f"| {' | '.join(row)} |")
            print(lines[-1], flush=True)
    page = PAGE.read_text()
    PAGE.write_text(re.sub(r"\| program \| kind.*?(?=\n\n|\Z)", "\n".join(lines), page, flags=re.S))


if __name__ == "__main__":
    main()
