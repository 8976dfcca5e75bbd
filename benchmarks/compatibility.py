#!/usr/bin/env python3
"""What burnish and other programs make of each other's files: `./dev bench compatibility` writes the table of docs/compatibility.md, which says
what its columns are.

All are ‖difference of latents‖ / ‖the other program's latents‖, of models in miniature, in fp32, from the same noise. Of DiffSynth-Studio, whose
transformer of FLUX.1 does not draw at that size, weights after merging are compared.
"""
import json
import pathlib
import re
import sys
import tempfile
from importlib.metadata import version
from typing import NamedTuple
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
import measure  # noqa: E402
import spelled  # noqa: E402
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


def read_lycoris(kind, folder, strength=1):
    algo, names, options = LYCORIS[kind]
    pipe = stable_diffusion.open_pipe(NAME)
    network = kinds.lycoris_network(pipe.unet.requires_grad_(False), folder / f"{kind}.safetensors", algo, names, **options)
    network.eval()
    network.set_multiplier(strength)
    return sdxl_errors(pipe, f"{folder / kind}.safetensors:{strength}", folder)


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


class Family(NamedTuple):
    """A small model, how both programs draw with it, how burnish trains it, and the programs between which LoRAs of it travel."""
    title: str
    model: pathlib.Path
    pipeline: object
    sampled: object  # latents of a pipeline
    draw: object  # latents of burnish: (folder, *options)
    train: object  # the file that burnish writes: (folder, *options)
    targets: dict  # of the adapter, by component
    programs: tuple  # (program, spelling, whether diffusers reads it, format and options with which burnish writes it or None)


def small(title, golden, pipeline, *programs, **targets):
    """A family whose golden script has one model."""
    noise = load_file(golden.OUT / "expected.safetensors")["noise"]
    return Family(title, golden.OUT / "model", pipeline, lambda pipe: golden.sampled(pipe, noise),
                  lambda folder, *options: (flux.noise_of(golden, folder), flux.small_draw(golden, golden.OUT / "model", folder, *options))[1],
                  lambda folder, *options: flux.small_train(golden, folder, *options), {"transformer": golden.TARGETS} | targets, programs)


EVERY_LAYER = r"(?!distilled).*(to_[qkv]|to_out\.0|add_[qkv]_proj|to_add_out|net\.0\.proj|net\.2|proj_mlp|proj_out|linear(_\d)?|x_embedder|context_embedder)"
CLIP, T5 = ["q_proj", "k_proj", "v_proj", "out_proj", "fc1", "fc2"], ["q", "k", "v", "o", "wi_0", "wi_1", "wo"]
OF_DOUBLE_BLOCKS = "add_q_proj,add_k_proj,add_v_proj,to_add_out,to_out.0,ff.net.0.proj,ff.net.2,ff_context.net.0.proj,ff_context.net.2"
ATTENTION = "to_q,to_k,to_v,to_out.0,add_q_proj,add_k_proj,add_v_proj,to_add_out"
TRANSFORMER, COMFYUI, KOHYA = {"transformer": "transformer."}, {"transformer": "diffusion_model."}, {"transformer": "lora_unet_"}
ONETRAINER = {"transformer": "lora_transformer_"}
COMFYUI_CLIP, HALVES = {"text_encoder": "text_encoders.clip_l.transformer."}, {"halves": ("lora_down", "lora_up")}


def families():
    """Of FLUX.1 and Chroma diffusers does not read single blocks in kohya's names unless they are as wide as the published ones, MLPs in OneTrainer's
    names, and `lora_A` in ComfyUI's; of SDXL some layers in OneTrainer's."""
    clip = "," + ",".join(CLIP)
    diffusers = ("diffusers", spelled.dotted(TRANSFORMER), True, ("diffusers",))
    yield Family("FLUX.1", OUT / "model", flux.pipeline, flux_latents, lambda folder, *o: flux.draw(OUT / "model", folder / "latents.safetensors", *o),
                 flux.train, {"transformer": EVERY_LAYER, "text_encoder": CLIP, "text_encoder_2": T5},
                 (("kohya sd-scripts", spelled.flat(KOHYA | {"text_encoder": "lora_te1_", "text_encoder_2": "lora_te3_"}, spelled.flux), False,
                   ("kohya", "--lora_base_model", "dit,text_encoder", "--lora_target_modules", OF_DOUBLE_BLOCKS + clip)),
                  ("OneTrainer", spelled.flat(ONETRAINER | {"text_encoder": "lora_te1_", "text_encoder_2": "lora_te2_"}), False,
                   ("onetrainer", "--lora_base_model", "dit,text_encoder", "--lora_target_modules", ATTENTION + clip)),
                  ("ComfyUI", spelled.dotted(COMFYUI | COMFYUI_CLIP | {"text_encoder_2": "text_encoders.t5xxl.transformer."}, spelled.flux, **HALVES), False, None),
                  ("ai-toolkit", *diffusers[1:])))
    encoders = {"text_encoder": "lora_te1_", "text_encoder_2": "lora_te2_"}
    all_three = ("--lora_base_model", "unet,text_encoder,text_encoder_2", "--dtype", "fp32")
    yield Family("SDXL", kinds.OUT.parent / NAME / "model", lambda: stable_diffusion.open_pipe(NAME), latents,
                 lambda folder, *o: flux.sd_draw(kinds.OUT.parent / NAME / "model", NAME, folder, *o), lambda folder, *o: flux.sd_train(NAME, folder, *o),
                 {"unet": r".*(to_[qkv]|to_out\.0|net\.0\.proj|net\.2|proj_in|proj_out|conv[12]|conv_shortcut|time_emb_proj|samplers\.0\.conv|linear_[12])|conv_in|conv_out",
                  "text_encoder": CLIP, "text_encoder_2": CLIP},
                 (("kohya sd-scripts, ai-toolkit", spelled.flat({"unet": "lora_unet_"} | encoders, spelled.sdxl), True, ("kohya", *all_three)),
                  ("OneTrainer", spelled.flat({"unet": "lora_unet_"} | encoders), False, ("onetrainer", *all_three)),
                  ("ComfyUI", spelled.dotted({"unet": "diffusion_model.", "text_encoder_2": "text_encoders.clip_g.transformer."} | COMFYUI_CLIP, spelled.sdxl,
                                             **HALVES), False, None)))
    of_diffsynth = spelled.dotted({"transformer": ""}, ending=".default")
    for title, golden, pipeline in (("Z-Image", flux.zimage, flux.zimage_pipeline), ("Qwen-Image", flux.qwen_image, flux.qwen_image_pipeline)):
        yield small(title, golden, pipeline, diffusers, ("ai-toolkit, ComfyUI", spelled.dotted(COMFYUI), True, ("comfyui",)),
                    ("musubi-tuner, OneTrainer", spelled.flat(KOHYA), True, ("kohya",)),
                    ("DiffSynth-Studio", of_diffsynth, True, ("diffsynth",)))
    yield small("FLUX.2 klein", flux.flux2, flux.flux2_pipeline, diffusers, ("ai-toolkit, ComfyUI", spelled.dotted(COMFYUI, spelled.flux2), True, ("comfyui",)),
                ("musubi-tuner, sd-scripts", spelled.flat(KOHYA, spelled.flux2), True, ("kohya",)),
                ("peft", spelled.dotted({"transformer": "base_model.model."}, spelled.flux2), True, None),
                ("DiffSynth-Studio", of_diffsynth, False, None))
    yield small("Chroma", flux.chroma, flux.chroma_pipeline, diffusers, ("ai-toolkit, ComfyUI", spelled.dotted(COMFYUI, spelled.flux), False, None),
                ("kohya sd-scripts", spelled.flat(KOHYA, spelled.flux), False, ("kohya", "--lora_target_modules", OF_DOUBLE_BLOCKS)),
                ("OneTrainer", spelled.flat(ONETRAINER | {"text_encoder": "lora_te_"}), False, ("onetrainer", "--lora_target_modules", ATTENTION)),
                transformer=EVERY_LAYER, text_encoder=T5)


def adapted(family, spelling):
    """A pipeline under an adapter of random numbers, and peft's tensors of it by component; of the components that files so spelled hold."""
    torch.manual_seed(3)
    pipe, state = family.pipeline(), {}
    for component in (name for name in family.targets if name in spelling.before):
        model = getattr(pipe, component)
        model.add_adapter(LoraConfig(r=2, lora_alpha=3, target_modules=family.targets[component]))
        with torch.no_grad():
            for name, p in model.named_parameters():
                if "lora_" in name:
                    p.add_(torch.randn_like(p) * 0.1)
        state[component] = get_peft_model_state_dict(model)
    spelled.share(state, spelling)
    return pipe, state


def write(family, folder, lora_format, *options):
    """A LoRA that burnish trained and wrote, or converted where training does not write the format."""
    is_trained = lora_format != "comfyui"
    file = family.train(folder, "--lora_rank", 4, "--lora_alpha", 8, "--lora_format", lora_format if is_trained else "diffusers", *options)
    if is_trained:
        return file
    converted.convert(file, folder / "converted.safetensors", "--lora_format", lora_format, "--model", family.model)
    return folder / "converted.safetensors"


def lora_rows(family, folder):
    """An adapter of random numbers in the names of each program that writes such files, and files that burnish trained."""
    base = family.sampled(family.pipeline())

    def loaded(file):
        pipe = family.pipeline()
        pipe.load_lora_weights(str(file))
        return family.sampled(pipe)

    for number, (program, spelling, is_loaded, written_as) in enumerate(family.programs):
        pipe, state = adapted(family, spelling)
        file = spelled.save(state, spelling, 3, folder / f"{number}.safetensors")
        expected = loaded(file) if is_loaded else family.sampled(pipe)
        found, change = error(family.draw(folder, "--lora", file), expected), error(base, expected)
        written = "–"
        if written_as:
            file = write(family, folder / str(number), *written_as)
            expected = loaded(file)
            assert (expected - base).norm() > 1e-3 * base.norm(), "diffusers found no layer"
            written = error(family.draw(folder, "--lora", file), expected)
        yield program, f"lora of {family.title}{', text encoders' if len(state) > 1 else ''}", change, found, written


def folder_row(family, folder):
    """A model as diffusers saved it, and its transformer after a way through a file in the authors' names. (Of the small text encoders such a file
    does not say how many heads they have.)"""
    pipe = family.pipeline()
    expected = family.sampled(pipe)
    converted.convert(family.model / "transformer", folder / "single.safetensors")
    converted.convert(folder / "single.safetensors", folder / "back", "--config_from", family.model)
    back = family.sampled(family.pipeline(transformer=type(pipe.transformer).from_pretrained(folder / "back/transformer", torch_dtype=torch.float32)))
    return "diffusers", f"{family.title}, folder", "–", error(family.draw(folder), expected), error(back, expected)


def model_rows(folder):
    for name, title in (("sdxl_pipeline", "SDXL"), ("sd15_pipeline", "SD 1.5")):
        noise = load_file(kinds.OUT.parent / name / "noise.safetensors")
        kept, from_file, from_folder = (latents(pipe, noise) for pipe in converted.pipelines(name, folder))
        yield "diffusers", f"{title}, folder", "–", error(flux.sd_draw(kinds.OUT.parent / name / "model", name, folder), kept), error(from_folder, kept)
        yield "diffusers", f"{title}, single file", "–", error(flux.sd_draw(folder / f"{name}.safetensors", name, folder), kept), error(from_file, kept)


def fp8_rows(folder):
    """FLUX.1 in codes: what burnish writes, and a transformer as ComfyUI's scaled files hold it; diffusers has the same numbers."""
    base, latents_file = flux_latents(flux.pipeline()), folder / "latents.safetensors"
    for number_format in ("fp8_tensor", "fp8", "fp8_plain", "fp8_e5m2"):
        model, pipe = folder / number_format, flux.pipeline()
        converted.convert(OUT / "model", model, "--weight_format", number_format, "--dtype", "fp32")
        for component in ("transformer", "text_encoder", "text_encoder_2"):
            (file,) = (model / component).glob("*.safetensors")
            assert not getattr(pipe, component).load_state_dict(spelled.dequantized(load_file(file)), strict=False).unexpected_keys
        expected = flux_latents(pipe)
        yield "diffusers", f"FLUX.1 in {number_format}", error(base, expected), "–", error(flux.draw(model, latents_file), expected)
    encoders = [word for component in ("text_encoder", "text_encoder_2") for word in ("--model", OUT / "model" / component)]
    for scale, mark in (("scale_weight", "scale_input"), ("weight_scale", "input_scale")):
        pipe, file = flux.pipeline(), folder / f"{scale}.safetensors"
        pipe.transformer.load_state_dict(spelled.save_scaled(pipe.transformer.state_dict(), scale, mark, file))
        expected = flux_latents(pipe)
        yield "ComfyUI", f"FLUX.1, FP8 with {scale}", error(base, expected), error(flux.draw(OUT / "model/vae", latents_file, *encoders, "--model", file), expected), "–"


def rows(folder):
    written = {"diffusers": (written_diffusers, ("lora", "dora")), "LyCORIS": (written_lycoris, ("lora", "dora", "loha", "lokr", "oft", "full"))}
    for program, reader, names in (("diffusers", read_diffusers, ("lora", "dora")), ("peft", read_peft, PEFT), ("LyCORIS", read_lycoris, LYCORIS)):
        for kind in names:
            writer, kinds_written = written.get(program, (None, ()))
            torch.manual_seed(3)
            found, change = reader(kind, folder)
            yield program, kind, change, found, writer(kind, folder)[0] if kind in kinds_written else "–"
    found, change = read_lycoris("dora", folder, 0.6)
    yield "LyCORIS", "dora at strength 0.6", change, found, "–"
    for kind, file, lora_format in (("lora, its names", "trained", "diffsynth"), ("lora, kohya's names", "kohya", "kohya")):
        yield diffsynth_row(kind, diffsynth.OUT / f"{file}.safetensors", lora_format, folder)
    for family in families():
        place = folder / family.title
        place.mkdir()
        flux.save_file({"noise": FLUX_NOISE}, place / "noise.safetensors")
        yield from lora_rows(family, place)
        if "transformer" in family.targets:
            yield folder_row(family, place)
    yield from model_rows(folder)
    yield from fp8_rows(folder)


def main():
    commit = measure.commit()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        flux.save_file({"noise": FLUX_NOISE}, folder / "noise.safetensors")
        found = []
        for row in rows(folder):
            found.append(row)
            print(f"| {' | '.join(row)} |", flush=True)
    headings = ("program", "kind", "changes", "read", "written")
    table = measure.markdown(headings, found)
    PAGE.write_text(re.sub(r"\| program \| kind.*?\n(?=\n|\Z)", table, PAGE.read_text(), flags=re.S))
    cpu, versions = measure.cpu()["name"], {peer: version(peer) for peer in ("diffusers", "peft", "transformers", "lycoris_lora", "torch")}
    peers = ", ".join(f"{peer} {number}" for peer, number in versions.items())
    print(measure.record("compatibility", cpu, f"# Compatibility of files\n\n{cpu}; burnish {commit}; {peers}; `./dev bench compatibility`.\n"
                         f"What the columns mean: docs/compatibility.md.\n\n{table}",
                         {"cpu": cpu, "burnish": commit, "versions": versions, "rows": [dict(zip(headings, row)) for row in found]}))


if __name__ == "__main__":
    main()
