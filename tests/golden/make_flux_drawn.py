#!/usr/bin/env python3
"""What diffusers' pipelines draw with the components of make_flux_extras.py over the pipeline of make_pipeline.py, in flux_drawn/:

expected.safetensors  the initial noise of two pictures, and the latents after 4 steps: latents.control (FluxControlNetPipeline, kind "depth"), latents.control_cfg (with
                      true guidance of 2.5 away from "cat"), latents.fill (FluxFillPipeline), latents.redux (FluxPriorReduxPipeline, then FluxPipeline)

Latents of pictures are the means of their distributions, where diffusers draws from these. Redux' prior has the width of FLUX.1 written into it for the text that is none,
so its tokens are put behind zeros here. FluxControlNetPipeline gives the pass of the negative prompt what the ControlNet makes of the prompt; here each pass has its own.
"""
import shutil

import torch
from diffusers import FluxControlNetModel, FluxControlNetPipeline, FluxFillPipeline, FluxPipeline, FluxPriorReduxPipeline
from diffusers.models.autoencoders.vae import DiagonalGaussianDistribution
from diffusers.pipelines.flux.modeling_flux import ReduxImageEncoder
from PIL import Image
from safetensors.torch import load_file, save_file
from transformers import SiglipImageProcessor, SiglipVisionModel

import make_flux_extras as extras
import make_pipeline
from make_wild import open_pipe

OUT = make_pipeline.OUT.parent / "flux_drawn"
PROMPTS = ["red apple", "tree of the north"]


def opened(path):
    return Image.open(path).convert("RGB")


@torch.no_grad()
def drawn(pipe, noise, texts=None, **options):
    out = []
    for i, prompt in enumerate(PROMPTS):
        _, c, h, w = noise.shape
        text = {"prompt": prompt} if texts is None else texts
        latents = pipe(**text, latents=FluxPipeline._pack_latents(noise[i:i + 1], 1, c, h, w), height=h * 8, width=w * 8, num_inference_steps=4, guidance_scale=3.5,
                       max_sequence_length=pipe.tokenizer_2.model_max_length, output_type="latent", **options).images
        out.append(FluxPipeline._unpack_latents(latents, h * 8, w * 8, 8))
    return torch.cat(out)


def controlled_by_own_text(pipe):
    control, denoise, given = pipe.controlnet.forward, pipe.transformer.forward, {}

    def of_prompt(**values):
        given.update(values)
        return control(**values)

    def of_either(**values):
        texts = {name: values[name] for name in ("encoder_hidden_states", "pooled_projections")}
        values["controlnet_block_samples"], values["controlnet_single_block_samples"] = control(**(given | texts))
        return denoise(**values)

    pipe.controlnet.forward, pipe.transformer.forward = of_prompt, of_either
    return denoise


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir()
    DiagonalGaussianDistribution.sample = lambda self, generator=None: self.mode()
    base = open_pipe()
    torch.manual_seed(29)
    expected = {"noise": torch.randn(2, 16, 6, 8)}
    picture, mask = opened(make_pipeline.OUT / "pictures/1.png"), opened(extras.OUT / "white_0.png")
    parts = {name: getattr(base, name) for name in ("scheduler", "vae", "text_encoder", "tokenizer", "text_encoder_2", "tokenizer_2", "transformer")}

    pipe = FluxControlNetPipeline(**parts, controlnet=FluxControlNetModel.from_pretrained(extras.OUT / "controlnet", torch_dtype=torch.float32))
    control = dict(control_image=picture, control_mode=extras.MODES["depth"])
    expected["latents.control"] = drawn(pipe, expected["noise"], **control)
    denoise = controlled_by_own_text(pipe)
    expected["latents.control_cfg"] = drawn(pipe, expected["noise"], true_cfg_scale=2.5, negative_prompt="cat", **control)
    pipe.transformer.forward = denoise

    with torch.no_grad():
        image_encoder = SiglipVisionModel.from_pretrained(extras.OUT / "siglip", torch_dtype=torch.float32)
        embedder = ReduxImageEncoder(extras.FEATURES, extras.TEXT)
        embedder.load_state_dict({k: v.float() for k, v in load_file(extras.OUT / "redux.safetensors").items()})
        prior = FluxPriorReduxPipeline(image_encoder=image_encoder, feature_extractor=SiglipImageProcessor(size={"height": 384, "width": 384}), image_embedder=embedder)
        tokens = prior.image_embedder(prior.encode_image(opened(extras.REFERENCES / "a.png"), "cpu", 1)).image_embeds
        texts = {"prompt_embeds": torch.cat([torch.zeros(1, 512, extras.TEXT), tokens], 1), "pooled_prompt_embeds": torch.zeros(1, extras.POOLED)}
    expected["latents.redux"] = drawn(base, expected["noise"], texts)

    weight = load_file(extras.OUT / "fill.safetensors")["x_embedder.weight"].float()
    layer = torch.nn.Linear(weight.shape[1], weight.shape[0])
    with torch.no_grad():
        layer.weight.copy_(weight)
        layer.bias.copy_(base.transformer.x_embedder.bias)
    base.transformer.x_embedder = layer
    base.transformer.register_to_config(in_channels=weight.shape[1])
    expected["latents.fill"] = drawn(FluxFillPipeline(**parts), expected["noise"], image=picture, mask_image=mask)
    save_file({k: v.contiguous() for k, v in expected.items()}, OUT / "expected.safetensors")
    for file in OUT.iterdir():
        file.chmod(0o644)
    print({k: v.std() for k, v in expected.items()})


if __name__ == "__main__":
    main()
