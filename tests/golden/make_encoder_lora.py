#!/usr/bin/env python3
"""LoRAs on the text encoders of the model in pipeline/, trained through diffusers + peft, in pipeline/:

encoder_lora.safetensors            transformer and CLIP as diffusers' save_lora_weights writes them, T5 in the same manner; rank 4, alpha 2
expected_encoder_lora.safetensors   loss and grad_norm of ten replayed steps, and the latents after 4 sampling steps with the transformer's and
                                    CLIP's part ("latents") and without CLIP's ("latents.dit")
"""
import csv
import torch
import torch.nn.functional as F
from diffusers import FluxPipeline
from safetensors.torch import load_file, save_file
from transformers import CLIPTokenizer, T5TokenizerFast

import training_loop
from make_pipeline import ASSETS, GUIDANCE, OUT, STEPS, TARGETS, encode, sampled

ENCODERS = {"text_encoder": ["q_proj", "k_proj", "v_proj", "out_proj", "fc1", "fc2"], "text_encoder_2": ["q", "k", "v", "o", "wi_0", "wi_1", "wo"]}


def loss_of(pipe, sample, prompt, noise, sigma):
    latents, _, _, text_ids = sample
    text, pooled, _ = pipe.encode_prompt(prompt, prompt_2=prompt, max_sequence_length=pipe.tokenizer_2.model_max_length)
    noisy = (1 - sigma) * latents + sigma * noise
    b, c, h, w = latents.shape
    prediction = pipe.transformer(hidden_states=FluxPipeline._pack_latents(noisy, b, c, h, w), encoder_hidden_states=text, pooled_projections=pooled,
                                  timestep=sigma.reshape(1), guidance=torch.tensor([GUIDANCE]), txt_ids=text_ids,
                                  img_ids=FluxPipeline._prepare_latent_image_ids(b, h // 2, w // 2, "cpu", torch.float32), return_dict=False)[0]
    return F.mse_loss(prediction, FluxPipeline._pack_latents(noise - latents, b, c, h, w))


def main():
    torch.manual_seed(11)
    pipe = FluxPipeline.from_pretrained(OUT / "model", tokenizer=CLIPTokenizer.from_pretrained(ASSETS / "tokenizer"),
                                        tokenizer_2=T5TokenizerFast.from_pretrained(ASSETS / "tokenizer_2"), torch_dtype=torch.float32)
    pipe.set_progress_bar_config(disable=True)
    rows = [(r["image"], r["prompt"]) for r in csv.DictReader(open(OUT / "pictures/metadata.csv"))]
    samples = encode(pipe, rows)
    replay = load_file(OUT / "replay.safetensors")
    noise, prompts = load_file(OUT / "expected.safetensors")["noise"], ["red apple", "tree of the north"]
    expected = {}

    training_loop.add_adapter(pipe.transformer, TARGETS)
    expected["latents.dit"] = sampled(pipe, noise, prompts)
    training_loop.add_adapter(pipe.text_encoder, ENCODERS["text_encoder"])
    expected["latents"] = sampled(pipe, noise, prompts)
    training_loop.add_adapter(pipe.text_encoder_2, ENCODERS["text_encoder_2"])
    models = {"transformer": pipe.transformer, "text_encoder": pipe.text_encoder, "text_encoder_2": pipe.text_encoder_2}
    save_file({k: v for name, model in models.items() for k, v in training_loop.adapter_state(name, model).items()}, OUT / "encoder_lora.safetensors", metadata={"format": "pt"})

    parameters = [(f"{name}.{n}", p) for name, model in models.items() for n, p in model.named_parameters() if p.requires_grad]

    def loss_of_step(step):
        index = int(replay[f"step.{step}.sample"])
        return loss_of(pipe, samples[index], rows[index][1], replay[f"step.{step}.noise"][None], replay[f"step.{step}.sigma"])

    losses, norms, _ = training_loop.train(parameters, STEPS, loss_of_step)
    expected |= {"loss": losses, "grad_norm": norms}
    save_file({k: v.contiguous() for k, v in expected.items()}, OUT / "expected_encoder_lora.safetensors")


if __name__ == "__main__":
    main()
