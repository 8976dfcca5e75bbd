#!/usr/bin/env python3
"""What burnish writes, read by the programs it is for: `./dev golden check`.

Trains two steps with $BURNISH on the pipeline of make_pipeline.py, loads the LoRAs (of the transformer, and with CLIP) with diffusers'
load_lora_weights, the whole transformer, the whole CLIP and a whole ControlNet with from_pretrained, and compares the latents that both programs draw from the
same noise. Then the same with the pipelines of make_stable_diffusion.py: LoRA and DoRA that were trained over FP8 weights in bf16 and fp16,
kohya's names, adapters of the UNet with all text encoders, the whole UNet; with those of the other families' scripts: LoRA in the names
of diffusers, kohya and DiffSynth-Studio, the whole transformer; with reference pictures as FLUX.1 Kontext takes them, LoRA and the whole transformer, and as Qwen-Image-Edit does, LoRA; and a
blockwise ControlNet in DiffSynth-Studio's class. Exits 1 when they differ.
"""
import os, pathlib, shutil, subprocess, sys, tempfile
import torch
from diffsynth.models.qwen_image_controlnet import QwenImageBlockWiseControlNet
from diffusers import (BriaFibo2Pipeline, BriaFibo2Transformer2DModel, ChromaTransformer2DModel, CosmosTransformer3DModel, ErnieImagePipeline, ErnieImageTransformer2DModel, EulerDiscreteScheduler, Flux2KleinPipeline, Flux2Pipeline, Flux2Transformer2DModel, Flux3Transformer2DModel, FluxControlNetModel, FluxKontextPipeline, FluxPipeline, FluxTransformer2DModel, Ideogram4Pipeline, Ideogram4Transformer2DModel, Kandinsky5T2IPipeline, Kandinsky5Transformer3DModel, Krea2Pipeline, Krea2Transformer2DModel, LongCatImagePipeline, LongCatImageTransformer2DModel, QwenImage21Pipeline, QwenImage21Transformer2DModel, QwenImageLayeredPipeline, QwenImagePipeline, QwenImageTransformer2DModel, SD3Transformer2DModel, StableDiffusion3Pipeline,
                       UNet2DConditionModel, WanPipeline, WanTransformer3DModel, ZImagePipeline, ZImageTransformer2DModel)
from diffusers.modular_pipelines.flux3.modular_blocks_flux3 import Flux3CoreDenoiseStep
from safetensors.torch import load_file, save_file
from transformers import CLIPTextModel, CLIPTokenizer, T5TokenizerFast

import make_flux_extras as flux_extras
import make_pipeline
import make_qwen_blockwise as blockwise
import make_qwen_edit as qwen_edit
import make_references as references
import make_stable_diffusion_runs as stable_diffusion
from make_anima import FAMILY as anima
from make_chroma import FAMILY as chroma, Cut
from make_ernie_image import FAMILY as ernie_image
from make_fibo2 import FAMILY as fibo2
from make_flux2 import FAMILY as flux2
from make_flux2_dev import FAMILY as flux2_dev
from make_flux3 import FAMILY as flux3
from make_ideogram4 import FAMILY as ideogram4
from make_krea2 import FAMILY as krea2
from make_kandinsky5 import FAMILY as kandinsky5
from make_longcat_image import FAMILY as longcat_image
from make_pipeline import ASSETS, OUT, sampled
from make_qwen_image import FAMILY as qwen_image
from make_qwen_image_21 import FAMILY as qwen_image_21
from make_qwen_layered import FAMILY as qwen_layered
from make_sd3 import FAMILY as sd3
from make_wan import FAMILY as wan, Spaced
from make_zimage import FAMILY as zimage

HERE = pathlib.Path(__file__).parent
BURNISH = os.environ.get("BURNISH", "build/burnish")
MODEL = ["--tokenizer_path", ASSETS / "tokenizer", "--tokenizer_2_path", ASSETS / "tokenizer_2", "--dtype", "fp32"]
PROMPTS = ["red apple", "tree of the north"]


def burnish(*arguments):
    subprocess.run([BURNISH, *map(str, arguments)], check=True, stdout=subprocess.DEVNULL)


def train(folder, *options):
    burnish("train", "--model", OUT / "model", *MODEL, "--dataset_metadata_path", OUT / "pictures/metadata.csv", "--height", 48, "--width", 64,
            "--max_steps", 2, "--learning_rate", 0.01, "--overwrite", "--output_path", folder, *options)
    return folder / "step-2.safetensors"


def draw(model, latents, *options):
    burnish("sample", "--model", model, *MODEL, *(word for prompt in PROMPTS for word in ("--prompt", prompt)), "--height", 48, "--width", 64,
            "--num_inference_steps", 4, "--embedded_guidance", 3.5, "--noise", latents.parent / "noise.safetensors", "--save_latents", latents,
            "--output_path", latents.parent / "pictures", *options)
    return load_file(latents)["latents"]


def pipeline(**parts):
    pipe = FluxPipeline.from_pretrained(OUT / "model", tokenizer=CLIPTokenizer.from_pretrained(ASSETS / "tokenizer"),
                                        tokenizer_2=T5TokenizerFast.from_pretrained(ASSETS / "tokenizer_2"), torch_dtype=torch.float32, **parts)
    pipe.set_progress_bar_config(disable=True)
    return pipe


def report(what, found, expected):
    error = ((found - expected).abs().max() / expected.abs().max()).item()
    print(f"{what}: largest difference {error:.1e} of the largest latent")
    return error <= 1e-4


def adapted(encoder):
    return sum(".lora_A." in name for name, _ in encoder.named_parameters())


def sd_options(model):
    return ["--model", model, "--tokenizer_path", ASSETS / "tokenizer"]


def sd_train(name, folder, *options):
    burnish("train", *sd_options(HERE / name / "model"), "--dataset_metadata_path", OUT / "pictures/metadata.csv", "--height",
            stable_diffusion.SIZES[name][0], "--width", stable_diffusion.SIZES[name][1], "--max_steps", 5, "--learning_rate", 0.01, "--save_dtype", "fp32", "--overwrite", "--output_path", folder, *options)
    return folder / "step-5.safetensors"


def sd_draw(model, name, folder, *options):
    burnish("sample", *sd_options(model), "--dtype", "fp32", *(word for prompt in PROMPTS for word in ("--prompt", prompt)), "--height", stable_diffusion.SIZES[name][0],
            "--width", stable_diffusion.SIZES[name][1], "--num_inference_steps", 5, "--sampler", "euler", "--timestep_spacing", "leading", "--noise",
            HERE / name / "noise.safetensors", "--save_latents", folder / "latents.safetensors", "--output_path", folder / "pictures", *options)
    return load_file(folder / "latents.safetensors")["latents"]


def check_stable_diffusion(name, folder):
    noise = load_file(HERE / name / "noise.safetensors")

    def expected(pipe):
        config = dict(pipe.scheduler.config) | {"timestep_spacing": "leading"}
        return stable_diffusion.sampled(pipe, noise, EulerDiscreteScheduler.from_config({k: v for k, v in config.items() if k != "skip_prk_steps"}))

    plain_pipe = stable_diffusion.open_pipe(name)
    plain, good = expected(plain_pipe), True
    over_fp8 = ["--fp8_models", "unet", "--lora_rank", 4]
    encoders = [part for part in ("text_encoder", "text_encoder_2") if getattr(plain_pipe, part, None) is not None]
    with_encoders = ["--dtype", "fp32", "--lora_rank", 4, "--lora_alpha", 8, "--lora_base_model", ",".join(["unet", *encoders])]
    for what, options in (("LoRA", ["--dtype", "bf16", "--lora_rank", 4]), ("LoRA in kohya's names", ["--dtype", "bf16", "--lora_rank", 4, "--lora_format", "kohya"]),
                          ("DoRA over FP8 in bf16", ["--dtype", "bf16", "--lora_type", "dora", *over_fp8]),
                          ("DoRA over FP8 in fp16, checkpointed", ["--dtype", "fp16", "--lora_type", "dora", "--use_gradient_checkpointing", *over_fp8]),
                          ("LoRA with the text encoders", with_encoders), ("LoRA with the text encoders in kohya's names", [*with_encoders, "--lora_format", "kohya"]),
                          ("DoRA with the text encoders", [*with_encoders, "--lora_type", "dora"])):
        lora = sd_train(name, folder / what.replace(" ", "_").replace("'", ""), *options)
        pipe = stable_diffusion.open_pipe(name)
        pipe.load_lora_weights(str(lora))
        found = expected(pipe)
        good &= report(f"{name}: {what} through load_lora_weights", sd_draw(HERE / name / "model", name, folder, "--lora", lora), found)
        good &= (found - plain).abs().max().item() > 1e-3
        if options[:len(with_encoders)] == with_encoders:
            layers = [adapted(getattr(pipe, part)) for part in encoders]
            print(f"adapters on {layers} layers of {', '.join(encoders)}")
            good &= all(count == 6 * getattr(pipe, part).config.num_hidden_layers for count, part in zip(layers, encoders))
    whole = folder / "model"
    shutil.copytree(HERE / name / "model", whole)
    shutil.copy(sd_train(name, folder / "full", "--dtype", "fp32", "--trainable_models", "unet"), whole / "unet/diffusion_pytorch_model.safetensors")
    pipe = stable_diffusion.open_pipe(name)
    pipe.unet = UNet2DConditionModel.from_pretrained(whole / "unet")
    return good & report(f"{name}: whole UNet through from_pretrained", sd_draw(whole, name, folder), expected(pipe))


def zimage_pipeline(**parts):
    pipe = ZImagePipeline.from_pretrained(zimage.OUT / "model", **parts)
    pipe.transformer.float()
    pipe.set_progress_bar_config(disable=True)
    return pipe


def flux2_pipeline(**parts):
    pipe = Flux2KleinPipeline.from_pretrained(flux2.OUT / "model", **parts)
    for part in (pipe.transformer, pipe.text_encoder, pipe.vae):
        part.float()
    pipe.set_progress_bar_config(disable=True)
    return pipe


def flux2_dev_pipeline(**parts):
    pipe = Flux2Pipeline.from_pretrained(flux2_dev.OUT / "model", torch_dtype=torch.float32, **parts)
    pipe.set_progress_bar_config(disable=True)
    return pipe


def flux3_pipeline(**parts):
    pipe = flux3.parts()  # whose numbers are those of the files
    for name, part in parts.items():
        setattr(pipe, name, part.float().eval())

    def load_lora_weights(file):
        blocks = Flux3CoreDenoiseStep().init_pipeline()
        blocks.update_components(transformer=pipe.transformer)
        blocks.load_lora_weights(file)

    pipe.load_lora_weights = load_lora_weights
    return pipe


def chroma_pipeline(**parts):
    pipe = Cut.from_pretrained(chroma.OUT / "model", torch_dtype=torch.float32, **parts)
    pipe.set_progress_bar_config(disable=True)
    return pipe


def longcat_image_pipeline(**parts):
    pipe = LongCatImagePipeline.from_pretrained(longcat_image.OUT / "model", torch_dtype=torch.float32, text_processor=None, **parts)
    pipe.set_progress_bar_config(disable=True)
    # Of this pipeline the transformer alone loads adapters.
    pipe.load_lora_weights = lambda file: pipe.transformer.load_lora_adapter(load_file(file), prefix="transformer")
    return pipe


def kandinsky5_pipeline(**parts):
    pipe = Kandinsky5T2IPipeline.from_pretrained(kandinsky5.OUT / "model", torch_dtype=torch.float32, **parts)
    kandinsky5.fit(pipe)
    return pipe


def sd3_pipeline(**parts):
    pipe = StableDiffusion3Pipeline.from_pretrained(sd3.OUT / "model", torch_dtype=torch.float32, **parts)
    pipe.set_progress_bar_config(disable=True)
    return pipe


def qwen_image_pipeline(**parts):
    pipe = QwenImagePipeline.from_pretrained(qwen_image.OUT / "model", torch_dtype=torch.float32, **parts)
    # The template has other tokens in the small vocabulary than the 34 of the real one.
    pipe.prompt_template_encode_start_idx = len(pipe.tokenizer(pipe.prompt_template_encode.split("{}")[0]).input_ids)
    pipe.set_progress_bar_config(disable=True)
    return pipe


def qwen_layered_pipeline(**parts):
    pipe = QwenImageLayeredPipeline.from_pretrained(qwen_layered.OUT / "model", torch_dtype=torch.float32, processor=None, **parts)
    pipe.prompt_template_encode_start_idx = len(pipe.tokenizer(pipe.prompt_template_encode.split("{}")[0]).input_ids)
    pipe.set_progress_bar_config(disable=True)
    return pipe


def ernie_image_pipeline(**parts):
    pipe = ErnieImagePipeline.from_pretrained(ernie_image.OUT / "model", torch_dtype=torch.float32, **parts)
    pipe.set_progress_bar_config(disable=True)
    return pipe


def ideogram4_pipeline(**parts):
    pipe = Ideogram4Pipeline.from_pretrained(ideogram4.OUT / "model", torch_dtype=torch.float32, **parts)
    pipe.set_progress_bar_config(disable=True)
    return pipe


def qwen_image_21_pipeline(**parts):
    pipe = QwenImage21Pipeline.from_pretrained(qwen_image_21.OUT / "model", torch_dtype=torch.float32, **parts)
    pipe.set_progress_bar_config(disable=True)
    return pipe


def fibo2_pipeline(**parts):
    pipe = BriaFibo2Pipeline.from_pretrained(fibo2.OUT / "model", torch_dtype=torch.float32, **parts)
    pipe.set_progress_bar_config(disable=True)
    return pipe


def krea2_pipeline(**parts):
    pipe = Krea2Pipeline.from_pretrained(krea2.OUT / "model", torch_dtype=torch.float32, **parts)
    # The template has other tokens in the small vocabulary.
    pipe.prompt_template_encode_start_idx = len(pipe.tokenizer(pipe.prompt_template_encode_prefix).input_ids)
    pipe.prompt_template_encode_num_suffix_tokens = len(pipe.tokenizer(pipe.prompt_template_encode_suffix).input_ids)
    pipe.set_progress_bar_config(disable=True)
    return pipe


def anima_pipeline(**parts):
    pipe = anima.parts()
    pipe.update_components(**parts)
    pipe.set_progress_bar_config(disable=True)
    return pipe


def wan_pipeline(**parts):
    pipe = WanPipeline.from_pretrained(wan.OUT / "model", torch_dtype=torch.float32, scheduler=Spaced(shift=3.0), **parts)
    pipe.set_progress_bar_config(disable=True)
    return pipe


def check_wan_lora(folder):
    """LoRAs of other programs, of which `convert` makes files in the names of each; the golden one of ComfyUI adds to biases and norms."""
    noise, good = noise_of(wan, folder), True
    for name in ("comfyui", "musubi"):
        source = wan.OUT.parent / "wan_lora" / f"{name}.safetensors"
        for names in ("diffusers", "kohya", "comfyui"):
            if name == "comfyui" and names == "kohya":  # whose readers know no layers outside of the blocks
                continue
            file = folder / f"{name}_as_{names}.safetensors"
            burnish("convert", source, file, "--lora_format", names, "--model", wan.OUT / "model")
            if names == "comfyui":  # diffusers leaves norms out
                save_file({k: v for k, v in load_file(file).items() if "norm" not in k}, file)
            pipe = wan_pipeline()
            pipe.load_lora_weights(str(file))
            good &= report(f"{wan.OUT.name}: LoRA of {name} in the names of {names} through load_lora_weights", small_draw(wan, wan.OUT / "model", folder, "--lora", file),
                           wan.sampled(pipe, noise))
    return good


def check_anima_lora(folder):
    """A LoRA of the transformer and the conditioner, in diffusers' names and in ComfyUI's, which it reads as well."""
    noise, good = noise_of(anima, folder), True
    lora = small_train(anima, folder / "both", "--lora_rank", 4, "--lora_alpha", 8, "--lora_base_model", "dit,text_conditioner")
    expected = small_draw(anima, anima.OUT / "model", folder, "--lora", lora)
    for names in ("diffusers", "comfyui"):
        file = folder / f"as_{names}.safetensors"
        burnish("convert", lora, file, "--lora_format", names, "--model", anima.OUT / "model")
        pipe = anima_pipeline()
        pipe.load_lora_weights(str(file))
        good &= report(f"{anima.OUT.name}: LoRA of both in the names of {names} through load_lora_weights", expected, anima.sampled(pipe, noise))
    return good


def noise_of(golden, folder):
    noise = load_file(golden.OUT / "expected.safetensors")["noise"]
    save_file({"noise": noise}, folder / "noise.safetensors")
    return noise


def size_of(golden):
    return [word for side, length in zip(("--height", "--width"), getattr(golden, "SIZE", (48, 64))) for word in (side, length)]


def small_train(golden, output, *options):
    """With the model of a golden script, its file's path."""
    metadata = golden.OUT / "layers/metadata.json" if golden is qwen_layered else OUT / "pictures/metadata.csv"
    burnish("train", "--model", golden.OUT / "model", "--dtype", "fp32", "--dataset_metadata_path", metadata, *size_of(golden),
            "--max_steps", 3, "--learning_rate", 0.01, "--save_dtype", "fp32", "--overwrite", "--output_path", output, *options)
    return output / "step-3.safetensors"


def small_draw(golden, model, folder, *options):
    if golden is qwen_layered:
        options += ("--reference", golden.OUT / "layers/1.png", "--num_frames", 3)
    burnish("sample", "--model", model, "--dtype", "fp32", *(word for prompt in golden.PROMPTS for word in ("--prompt", prompt)), *size_of(golden),
            "--num_inference_steps", 4, "--noise", folder / "noise.safetensors", "--save_latents", folder / "latents.safetensors", "--output_path", folder / "pictures", *options)
    return load_file(folder / "latents.safetensors")["latents"]


def check_small(golden, pipeline, transformer, folder):
    """A family whose golden script has one model and one way of drawing."""
    name, noise = golden.OUT.name, noise_of(golden, folder)
    plain, good = golden.sampled(pipeline(), noise), True
    for what, options in (("LoRA", []), ("LoRA in kohya's names", ["--lora_format", "kohya"]), ("LoRA in DiffSynth-Studio's names", ["--lora_format", "diffsynth"]),
                          ("LoRA over FP8", ["--fp8_models", "dit"])):
        if golden in (flux2, flux2_dev, flux3, chroma, kandinsky5, longcat_image, sd3, krea2, anima, ernie_image, ideogram4, fibo2, qwen_image_21, wan) and "DiffSynth" in what:  # their LoRAs are not written in these names, or read
            continue
        if golden in (flux3, chroma, kandinsky5, longcat_image, sd3, krea2, anima, ernie_image, ideogram4, fibo2, qwen_image_21) and "kohya" in what:  # diffusers' reader has the published width written into it, or reads none
            continue
        lora = small_train(golden, folder / what.replace(" ", "_").replace("'", ""), "--lora_rank", 4, "--lora_alpha", 8, *options)
        pipe = pipeline()
        pipe.load_lora_weights(str(lora))
        found = golden.sampled(pipe, noise)
        good &= report(f"{name}: {what} through load_lora_weights", small_draw(golden, golden.OUT / "model", folder, "--lora", lora), found)
        good &= (found - plain).abs().max().item() > 1e-3
    whole = folder / "model"
    shutil.copytree(golden.OUT / "model", whole)
    shutil.copy(small_train(golden, folder / "full", "--trainable_models", "dit"), whole / "transformer/diffusion_pytorch_model.safetensors")
    pipe = pipeline(transformer=transformer.from_pretrained(whole / "transformer"))
    return good & report(f"{name}: whole transformer through from_pretrained", small_draw(golden, whole, folder), golden.sampled(pipe, noise))


def check_control_net(folder):
    """A ControlNet that trained, beside what it was made of: it loads, and gives other residuals."""
    train(folder / "control", "--model", flux_extras.OUT / "controlnet", "--dataset_metadata_path", flux_extras.OUT / "metadata.json", "--extra_inputs",
          "controlnet_image,controlnet_processor_id", "--trainable_models", "controlnet", "--learning_rate", 0.001)
    shutil.copytree(flux_extras.OUT / "controlnet", folder / "controlnet")
    shutil.copy(folder / "control/step-2.controlnet.safetensors", folder / "controlnet/diffusion_pytorch_model.safetensors")
    torch.manual_seed(0)
    tokens, text, pooled = torch.randn(1, 12, 64), torch.randn(1, 5, flux_extras.TEXT), torch.randn(1, flux_extras.POOLED)
    given = {"hidden_states": tokens, "controlnet_cond": tokens.flip(1), "controlnet_mode": torch.zeros(1, 1, dtype=torch.long), "encoder_hidden_states": text, "pooled_projections": pooled,
             "timestep": torch.tensor([0.5]), "guidance": torch.tensor([1.0]), "txt_ids": torch.zeros(5, 3), "img_ids": torch.zeros(12, 3), "return_dict": False}
    before, after = (FluxControlNetModel.from_pretrained(at / "controlnet").float()(**given)[0][0] for at in (flux_extras.OUT, folder))
    change = ((after - before).abs().max() / before.abs().max()).item()
    print(f"whole ControlNet through from_pretrained: its residuals have changed by {change:.1e} of the largest")
    return 1e-4 < change < 1


def check_kontext(folder):
    """FLUX.1 with a reference picture."""
    noise = noise_of(make_pipeline, folder)
    trained = ["--dataset_metadata_path", references.OUT / "metadata.json", "--extra_inputs", "kontext_images"]
    reference = ["--reference", references.OUT / "a.png"]

    def kontext(**parts):
        pipe = FluxKontextPipeline.from_pretrained(OUT / "model", tokenizer=CLIPTokenizer.from_pretrained(ASSETS / "tokenizer"),
                                                   tokenizer_2=T5TokenizerFast.from_pretrained(ASSETS / "tokenizer_2"), torch_dtype=torch.float32, **parts)
        pipe.set_progress_bar_config(disable=True)
        return pipe

    plain = references.drawn(kontext(), noise)
    lora = train(folder / "lora", *trained, "--lora_rank", 4, "--lora_alpha", 8, "--save_dtype", "fp32")
    pipe = kontext()
    pipe.load_lora_weights(str(lora))
    found = references.drawn(pipe, noise)
    good = report("Kontext: LoRA through load_lora_weights", draw(OUT / "model", folder / "latents.safetensors", "--lora", lora, *reference), found)
    good &= (found - plain).abs().max().item() > 1e-3
    whole = folder / "model"
    shutil.copytree(OUT / "model", whole)
    shutil.copy(train(folder / "full", *trained, "--trainable_models", "dit"), whole / "transformer/diffusion_pytorch_model.safetensors")
    pipe = kontext(transformer=FluxTransformer2DModel.from_pretrained(whole / "transformer", torch_dtype=torch.float32))
    return good & report("Kontext: whole transformer through from_pretrained", draw(whole, folder / "latents.safetensors", *reference), references.drawn(pipe, noise))


def check_qwen_edit(folder):
    """Qwen-Image-Edit with a reference picture, in the latents and in the prompt."""
    qwen_edit.scale_to_area()
    noise, scaled = noise_of(qwen_edit, folder), ["--reference_pixels", qwen_edit.AREA]
    plain = qwen_edit.drawn(qwen_edit.parts()[1], noise, ["a.png"])
    lora = small_train(qwen_edit, folder / "lora", "--dataset_metadata_path", qwen_edit.OUT / "metadata.json", "--extra_inputs", "edit_image", "--lora_rank", 4, "--lora_alpha", 8, *scaled)
    pipe = qwen_edit.parts()[1]
    pipe.load_lora_weights(str(lora))
    found = qwen_edit.drawn(pipe, noise, ["a.png"])
    drawn = small_draw(qwen_image, qwen_edit.OUT / "model", folder, "--lora", lora, "--reference", qwen_edit.OUT / "a.png", "--reference_prompt", "plain", *scaled)
    return report("Qwen-Image-Edit: LoRA through load_lora_weights", drawn, found) & ((found - plain).abs().max().item() > 1e-3)


def check_blockwise(folder):
    """A blockwise ControlNet that trained: DiffSynth-Studio's class takes it, and it does something else than what it was made of."""
    control = blockwise.OUT / "control.safetensors"
    small_train(qwen_image, folder / "run", "--model", control, "--dataset_metadata_path", blockwise.OUT / "metadata.json", "--extra_inputs", "blockwise_controlnet_image",
                "--trainable_models", "blockwise_controlnet")
    given = load_file(blockwise.OUT / "expected.safetensors")
    outs = []
    for file in (control, folder / "run/step-3.blockwise_controlnet.safetensors"):
        net = QwenImageBlockWiseControlNet(num_layers=3, in_dim=64, additional_in_dim=0, dim=32)
        net.load_state_dict({name: value.float() for name, value in load_file(file).items()})
        with torch.no_grad():
            outs.append(given["block.image"] + net.blockwise_forward(given["block.image"], net.process_controlnet_conditioning(given["block.control"]), 1))
    change = ((outs[1] - outs[0]).abs().max() / outs[0].abs().max()).item()
    same = torch.allclose(outs[0], given["block.out"], rtol=1e-4, atol=1e-5)
    print(f"whole blockwise ControlNet in DiffSynth-Studio's class: what it gives has changed by {change:.1e} of the largest")
    return same and 1e-4 < change < 1


def main():
    expected = load_file(OUT / "expected.safetensors")
    noise = expected["noise"]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        save_file({"noise": noise}, folder / "noise.safetensors")

        lora = train(folder / "lora", "--lora_rank", 4, "--lora_alpha", 8)
        pipe = pipeline()
        pipe.load_lora_weights(str(lora))
        good = report("LoRA through load_lora_weights", draw(OUT / "model", folder / "latents.safetensors", "--lora", lora), sampled(pipe, noise, PROMPTS))
        changed = (sampled(pipe, noise, PROMPTS) - expected["latents.plain"]).abs().max().item()
        print(f"the LoRA changes the latents by up to {changed:.3f}")

        # diffusers knows the single blocks of FLUX.1's own width alone under these names.
        for what, options in (("its own", ["--lora_target_modules", r"transformer_blocks\..*"]), ("fused", ["--lora_target_modules", "a_to_qkv,b_to_qkv,a_to_out"]),
                              ("some and CLIP's", ["--lora_target_modules", "add_q_proj,add_v_proj,q_proj,k_proj,v_proj,out_proj,fc1,fc2", "--lora_base_model", "dit,text_encoder"])):
            kohya = train(folder / f"kohya_{what[:3]}", "--lora_rank", 4, "--lora_alpha", 8, "--lora_format", "kohya", "--save_dtype", "fp32", *options)
            pipe = pipeline()
            pipe.load_lora_weights(str(kohya))
            good &= report(f"LoRA of {what} layers in kohya's names through load_lora_weights", draw(OUT / "model", folder / "latents.safetensors", "--lora", kohya),
                           sampled(pipe, noise, PROMPTS))

        whole = folder / "model"
        shutil.copytree(OUT / "model", whole)
        shutil.copy(train(folder / "full", "--trainable_models", "dit"), whole / "transformer/diffusion_pytorch_model.safetensors")
        pipe = pipeline(transformer=FluxTransformer2DModel.from_pretrained(whole / "transformer", torch_dtype=torch.float32))
        good &= check_control_net(folder)
        good &= report("whole transformer through from_pretrained", draw(whole, folder / "latents.safetensors"), sampled(pipe, noise, PROMPTS))

        for kind in ("lora", "dora"):
            both = train(folder / f"both_{kind}", "--lora_rank", 4, "--lora_type", kind, "--lora_base_model", "dit,text_encoder")
            pipe = pipeline()
            pipe.load_lora_weights(str(both))
            good &= adapted(pipe.text_encoder) == 12
            good &= report(f"{kind} with the text encoder ({adapted(pipe.text_encoder)} layers) through load_lora_weights",
                           draw(OUT / "model", folder / "latents.safetensors", "--lora", both), sampled(pipe, noise, PROMPTS))

        train(folder / "encoder", "--trainable_models", "text_encoder")
        encoder = folder / "encoder/step-2.text_encoder.safetensors"
        shutil.copy(OUT / "model/transformer/diffusion_pytorch_model.safetensors", whole / "transformer/diffusion_pytorch_model.safetensors")
        shutil.copy(encoder, whole / "text_encoder/model.safetensors")
        pipe = pipeline(text_encoder=CLIPTextModel.from_pretrained(whole / "text_encoder", torch_dtype=torch.float32))
        good &= report("whole text encoder through from_pretrained", draw(whole, folder / "latents.safetensors"),
                       sampled(pipe, noise, PROMPTS))

        for name in ("sdxl_pipeline", "sd15_pipeline"):
            (folder / name).mkdir()
            good &= check_stable_diffusion(name, folder / name)
        for golden, pipe, transformer in ((zimage, zimage_pipeline, ZImageTransformer2DModel), (qwen_image, qwen_image_pipeline, QwenImageTransformer2DModel),
                                         (qwen_layered, qwen_layered_pipeline, QwenImageTransformer2DModel),
                                         (flux2, flux2_pipeline, Flux2Transformer2DModel), (flux2_dev, flux2_dev_pipeline, Flux2Transformer2DModel), (flux3, flux3_pipeline, Flux3Transformer2DModel), (chroma, chroma_pipeline, ChromaTransformer2DModel), (kandinsky5, kandinsky5_pipeline, Kandinsky5Transformer3DModel), (longcat_image, longcat_image_pipeline, LongCatImageTransformer2DModel), (sd3, sd3_pipeline, SD3Transformer2DModel), (krea2, krea2_pipeline, Krea2Transformer2DModel), (anima, anima_pipeline, CosmosTransformer3DModel),
                                         (ernie_image, ernie_image_pipeline, ErnieImageTransformer2DModel), (ideogram4, ideogram4_pipeline, Ideogram4Transformer2DModel), (fibo2, fibo2_pipeline, BriaFibo2Transformer2DModel),
                                         (qwen_image_21, qwen_image_21_pipeline, QwenImage21Transformer2DModel), (wan, wan_pipeline, WanTransformer3DModel)):
            (folder / golden.OUT.name).mkdir()
            good &= check_small(golden, pipe, transformer, folder / golden.OUT.name)
        for check in (check_kontext, check_qwen_edit, check_blockwise, check_anima_lora, check_wan_lora):
            (folder / check.__name__).mkdir()
            good &= check(folder / check.__name__)
    sys.exit(0 if good and changed > 0 else 1)


if __name__ == "__main__":
    main()
