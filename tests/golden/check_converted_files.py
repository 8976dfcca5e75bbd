#!/usr/bin/env python3
"""What `burnish convert` writes, read by the programs it is for: part of `./dev golden check`.

The LoRA of pipeline/ in the formats diffusers, kohya and peft, read by diffusers and peft; the pipelines of make_stable_diffusion.py as single
files through from_single_file; all pipelines from single files back in folders through from_pretrained, and LTX-2 with LTX-2.0's vocoder. Latents from the same noise are compared
with those of the files before. Exits 1 when they differ. (diffusers' converter of FLUX' single files and of kohya's single blocks has the sizes of
the published model written into it, and leaves the alpha of the last layer unread; those are read back by burnish alone.)
"""
import os, pathlib, subprocess, sys, tempfile
import torch
from diffusers import FluxTransformer2DModel, StableDiffusionPipeline, StableDiffusionXLPipeline
from peft import PeftModel
from safetensors.torch import load_file, save_file

import make_stable_diffusion_runs as stable_diffusion
from check_written_files import PROMPTS, pipeline, report
from make_pipeline import OUT, sampled

HERE = pathlib.Path(__file__).parent
BURNISH = os.environ.get("BURNISH", "build/burnish")


def convert(*arguments):
    subprocess.run([BURNISH, "convert", *map(str, arguments)], check=True, stdout=subprocess.DEVNULL)


def check_loras(folder):
    noise = load_file(OUT / "expected.safetensors")["noise"]
    names = [n for n in load_file(OUT / "lora.safetensors") if n.startswith("transformer.transformer_blocks.")]
    lora = folder / "lora.safetensors"
    save_file({n: t for n, t in load_file(OUT / "lora.safetensors").items() if n in names}, lora)
    plain = sampled(pipeline(), noise, PROMPTS)

    def drawn(path):
        pipe = pipeline()
        pipe.load_lora_weights(str(path))
        return sampled(pipe, noise, PROMPTS)

    expected, good = drawn(lora), True
    good &= (expected - plain).abs().max().item() > 1e-3
    for name in ("kohya", "diffusers"):
        path = folder / f"{name}.safetensors"
        convert(lora, path, "--lora_format", name, "--model", OUT / "model")
        good &= report(f"LoRA in the format {name} through load_lora_weights", drawn(path), expected)
    convert(lora, folder / "peft", "--lora_format", "peft", "--lora_base_model", "dit", "--model", OUT / "model")
    pipe = pipeline()
    pipe.transformer = PeftModel.from_pretrained(pipe.transformer, folder / "peft")
    return good & report("LoRA in the format peft through PeftModel.from_pretrained", sampled(pipe, noise, PROMPTS), expected)


def check_flux(folder):
    noise = load_file(OUT / "expected.safetensors")["noise"]
    convert(OUT / "model", folder / "flux.safetensors")
    convert(folder / "flux.safetensors", folder / "flux", "--config_from", OUT / "model")
    pipe = pipeline(transformer=FluxTransformer2DModel.from_pretrained(folder / "flux/transformer", torch_dtype=torch.float32))
    return report("FLUX from a folder to a file to a folder", sampled(pipe, noise, PROMPTS), sampled(pipeline(), noise, PROMPTS))


def pipelines(name, folder):
    """diffusers' of the model as it was, from a single file, and from the folder that becomes of this."""
    model, single, back = HERE / name / "model", folder / f"{name}.safetensors", folder / name
    convert(model, single)
    convert(single, back, "--config_from", model)
    kept = stable_diffusion.open_pipe(name)
    kind = StableDiffusionXLPipeline if name == "sdxl_pipeline" else StableDiffusionPipeline
    parts = dict(tokenizer=kept.tokenizer, scheduler=kept.scheduler)
    if name == "sdxl_pipeline":
        parts["tokenizer_2"] = kept.tokenizer_2
    else:
        parts["safety_checker"] = None
    from_file = kind.from_single_file(str(single), config=str(model), local_files_only=True, torch_dtype=torch.float32, **parts)
    from_folder = kind.from_pretrained(back, torch_dtype=torch.float32, **parts)
    for pipe in (from_file, from_folder):
        pipe.set_progress_bar_config(disable=True)
    return kept, from_file, from_folder


def check_stable_diffusion(name, folder):
    noise = load_file(HERE / name / "noise.safetensors")
    expected, from_file, from_folder = (stable_diffusion.sampled(pipe, noise) for pipe in pipelines(name, folder))
    good = report(f"{name} as a single file through from_single_file", from_file, expected)
    return good & report(f"{name} from a single file in a folder through from_pretrained", from_folder, expected)


def check_ltx2(folder):
    """A folder of LTX-2 with the vocoder of 2.0, which is one network, as a single file and back in a folder."""
    from diffusers import LTX2Pipeline
    from diffusers.pipelines.ltx2.vocoder import LTX2Vocoder
    import make_ltx2, make_ltx2_autoencoders

    pipe = make_ltx2.FAMILY.parts()
    pipe.vocoder = LTX2Vocoder(**make_ltx2_autoencoders.VOCODER_20)
    pipe.save_pretrained(folder / "ltx2")
    convert(folder / "ltx2", folder / "ltx2.safetensors")
    convert(folder / "ltx2.safetensors", folder / "ltx2_back", "--config_from", folder / "ltx2")
    convert(folder / "ltx2", folder / "ltx2_again")
    good = True
    for name in ("ltx2_back", "ltx2_again"):
        back = LTX2Pipeline.from_pretrained(folder / name, torch_dtype=torch.float32)
        for part in ("transformer", "connectors", "vae", "audio_vae", "vocoder"):
            found, expected = (getattr(p, part).float().state_dict() for p in (back, pipe))
            same = found.keys() == expected.keys() and all(torch.equal(found[k], expected[k]) for k in found)
            print(f"{part} of LTX-2 in {name} through from_pretrained: {'the same' if same else 'DIFFERENT'}")
            good &= same
    return good


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        results = [check_loras(folder), check_flux(folder), check_ltx2(folder), *(check_stable_diffusion(p, folder) for p in ("sdxl_pipeline", "sd15_pipeline"))]
    sys.exit(0 if all(results) else 1)
