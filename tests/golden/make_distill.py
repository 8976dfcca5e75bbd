#!/usr/bin/env python3
"""Direct distillation of the pipeline of make_pipeline.py, in plain torch: noise of a seed, all steps with gradients, the mean squared error
between the latents at the end and the teacher's picture. distill.safetensors: {diffsynth,default}.{loss,grad_norm} of four optimizer
steps of the LoRA, noise of the seed, and the sigmas."""
import pathlib

import numpy as np
import torch
import torch.nn.functional as F
from diffusers import FluxPipeline
from PIL import Image
from safetensors.torch import save_file
from transformers import CLIPTokenizer, T5TokenizerFast

import training_loop

HERE = pathlib.Path(__file__).parent
ASSETS = HERE.parent.parent / "assets/tiny-flux"
SEED, NUM_STEPS, STEPS = 42, 3, 4
TARGETS = ["to_q", "to_k", "to_v", "to_out.0", "add_q_proj", "to_add_out", "ff.net.0.proj", "ff.net.2", "proj_mlp", "proj_out"]


def diffsynth_sigmas():
    t = torch.linspace(1, 0.003 / 1.002, NUM_STEPS, dtype=torch.float64)
    return torch.cat([3 * t / (1 + 2 * t), torch.zeros(1, dtype=torch.float64)])


def default_sigmas(pipe, num_tokens):
    slope = (1.15 - 0.5) / (4096 - 256)
    pipe.scheduler.set_timesteps(sigmas=np.linspace(1.0, 1 / NUM_STEPS, NUM_STEPS), mu=num_tokens * slope + 0.5 - slope * 256)
    return pipe.scheduler.sigmas.double()


def main():
    pipe = FluxPipeline.from_pretrained(HERE / "pipeline/model", tokenizer=CLIPTokenizer.from_pretrained(ASSETS / "tokenizer"),
                                        tokenizer_2=T5TokenizerFast.from_pretrained(ASSETS / "tokenizer_2"), torch_dtype=torch.float32)
    model = pipe.transformer
    picture = torch.from_numpy(np.asarray(Image.open(HERE / "pipeline/pictures/1.png")).copy()).permute(2, 0, 1)[None].float() / 127.5 - 1
    with torch.no_grad():
        latents = (pipe.vae.encode(picture).latent_dist.mode() - pipe.vae.config.shift_factor) * pipe.vae.config.scaling_factor
        text, pooled, text_ids = pipe.encode_prompt("tree", prompt_2="tree", max_sequence_length=pipe.tokenizer_2.model_max_length)
    noise = torch.randn(latents.shape, generator=torch.Generator("cpu").manual_seed(SEED))
    b, c, h, w = latents.shape
    ids = FluxPipeline._prepare_latent_image_ids(b, h // 2, w // 2, "cpu", torch.float32)
    adapter = training_loop.add_adapter(model, TARGETS)
    model.train()
    out = {"noise": noise}
    for kind, sigmas in (("diffsynth", diffsynth_sigmas()), ("default", default_sigmas(pipe, (h // 2) * (w // 2)))):
        training_loop.load_adapter(adapter, HERE / "pipeline/lora.safetensors")

        def loss_of(_):
            x = noise
            for i in range(NUM_STEPS):
                v = model(hidden_states=FluxPipeline._pack_latents(x, b, c, h, w), encoder_hidden_states=text, pooled_projections=pooled, timestep=sigmas[i:i + 1].float(),
                          guidance=torch.ones(1), txt_ids=text_ids, img_ids=ids, return_dict=False)[0]
                x = x + FluxPipeline._unpack_latents(v, h * 8, w * 8, 8) * float(sigmas[i + 1] - sigmas[i])
            return F.mse_loss(x, latents)

        losses, norms, _ = training_loop.train(adapter, STEPS, loss_of)
        out |= {f"{kind}.loss": losses, f"{kind}.grad_norm": norms, f"{kind}.sigmas": sigmas}
        print(kind, losses, norms, sigmas)
    save_file(out, HERE / "distill.safetensors")


if __name__ == "__main__":
    main()
