#!/usr/bin/env python3
"""What burnish and other programs make of each other's adapter files: `./dev bench compatibility` writes the table of docs/compatibility.md.

read     the other program puts an adapter of random numbers on a model and writes it; both draw with the file
written  burnish trains two steps and writes the file; both draw with it
changes  how far the adapter of `read` moves the other program's latents
All are ‖difference‖ / ‖the other program's latents‖. FLUX.1 and SDXL in miniature, fp32, the same noise. A dash: not
written by burnish for that program.
"""
import pathlib
import re
import sys
import tempfile
import torch
from diffusers.training_utils import _collate_lora_metadata as collate
from lycoris.wrapper import create_lycoris_from_weights
from peft import LoHaConfig, LoKrConfig, LoraConfig, get_peft_model_state_dict
from safetensors.torch import load_file

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/golden"))
import check_written_files as flux  # noqa: E402
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


def sdxl_latents(pipe):
    scheduler = flux.EulerDiscreteScheduler.from_config(dict(pipe.scheduler.config) | {"timestep_spacing": "leading"})
    return stable_diffusion.sampled(pipe, SDXL_NOISE, scheduler)


def flux_errors(pipe, file, folder):
    """Of burnish with the file, and of the other program without it."""
    expected = flux_latents(pipe)
    found = flux.draw(OUT / "model", folder / "latents.safetensors", "--lora", file)
    return error(found, expected), error(flux_latents(flux.pipeline()), expected)


def sdxl_errors(pipe, file, folder):
    expected = sdxl_latents(pipe)
    found = flux.sd_draw(kinds.OUT.parent / NAME / "model", NAME, folder, "--lora", file)
    return error(found, expected), error(sdxl_latents(stable_diffusion.open_pipe(NAME)), expected)


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


def rows(folder):
    written = {"diffusers": (written_diffusers, ("lora", "dora")), "LyCORIS": (written_lycoris, ("lora", "dora", "loha", "lokr", "oft", "full"))}
    for program, reader, names in (("diffusers", read_diffusers, ("lora", "dora")), ("peft", read_peft, PEFT), ("LyCORIS", read_lycoris, LYCORIS)):
        for kind in names:
            writer, kinds_written = written.get(program, (None, ()))
            torch.manual_seed(3)
            found, change = reader(kind, folder)
            yield program, kind, change, found, writer(kind, folder)[0] if kind in kinds_written else "–"


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
