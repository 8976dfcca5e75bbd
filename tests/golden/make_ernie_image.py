#!/usr/bin/env python3
"""A whole small ERNIE-Image pipeline with random weights, and what diffusers + peft do with it, in ernie_image_pipeline/:

model/                a diffusers folder, its components in bf16, with the tokenizer of tokenizers/tekken_json (make_tekken.py makes it)
lora.safetensors      an adapter as diffusers' save_lora_weights writes it, rank 4, alpha 2
replay.safetensors    step.{i}.noise, step.{i}.sigma, step.{i}.sample of ten steps; pictures and captions are those of pipeline/
expected.safetensors  {lora,full}.{loss,grad_norm} of ten steps, initial noise and the latents after 4 sampling steps: plain, with the
                      LoRA, with guidance; the captions differ in length
batch.safetensors     the transformer alone on a batch whose captions differ in length: in.<input>, out, out_weight, and
                      grad.<parameter>: the digest of the gradient of sum(out * out_weight)
text.safetensors      the text encoder alone: ids, and the states behind its layers
"""
import torch
from diffusers import AutoencoderKLFlux2, ErnieImagePipeline, ErnieImageTransformer2DModel, FlowMatchEulerDiscreteScheduler
from safetensors.torch import save_file
from transformers import Mistral3Config, Mistral3Model, PreTrainedTokenizerFast

import family
from make_encoders import randomise, rounded

# Ministral-3's, as are the heads: of a file without config.json nothing else is known.
YARN = {"rope_type": "yarn", "rope_theta": 1e6, "factor": 16.0, "original_max_position_embeddings": 16384, "beta_fast": 32.0, "beta_slow": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0,
        "llama_4_scaling_beta": 0.1}


class ErnieImage(family.Family):
    OUT = family.HERE / "ernie_image_pipeline"
    TARGETS = ["to_q", "to_k", "to_v", "to_out.0"]
    LATENTS = (32, 3, 4)

    def parts(self):
        torch.manual_seed(0)
        tokens = PreTrainedTokenizerFast(tokenizer_file=str(self.HERE / "tokenizers/tekken_json/tokenizer.json"), pad_token="<pad>", bos_token="<s>", padding_side="right")
        text = dict(model_type="ministral3", vocab_size=len(tokens), hidden_size=24, intermediate_size=32, num_hidden_layers=3, num_attention_heads=2, num_key_value_heads=1, head_dim=128,
                    rms_norm_eps=1e-5, rope_parameters=YARN, tie_word_embeddings=True, max_position_embeddings=262144)
        sees = dict(model_type="pixtral", hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=1, head_dim=8, image_size=16, patch_size=8)
        encoder = randomise(Mistral3Model(Mistral3Config(text_config=text, vision_config=sees)), 1.5)
        vae = randomise(AutoencoderKLFlux2(block_out_channels=(8, 8, 16, 16), layers_per_block=1, latent_channels=8, norm_num_groups=4, batch_norm_eps=1e-5), 1.2)
        vae.bn.running_mean.normal_(0, 0.3)
        vae.bn.running_var.uniform_(0.3, 2)
        for statistic in (vae.bn.running_mean, vae.bn.running_var):
            statistic.copy_(statistic.to(torch.bfloat16))
        transformer = randomise(ErnieImageTransformer2DModel(hidden_size=32, num_attention_heads=2, num_layers=3, ffn_hidden_size=48, in_channels=32, out_channels=32, text_in_dim=24,
                                                             rope_axes_dim=(4, 6, 6)), 0.7)
        return ErnieImagePipeline(scheduler=FlowMatchEulerDiscreteScheduler(shift=3.0), vae=rounded(vae), text_encoder=rounded(encoder), tokenizer=tokens, transformer=rounded(transformer))

    def latents(self, pipe, image):
        mean = pipe._patchify_latents(pipe.vae.encode(image).latent_dist.mode())
        return (mean - pipe.vae.bn.running_mean.view(1, -1, 1, 1)) / (pipe.vae.bn.running_var.view(1, -1, 1, 1) + pipe.vae.config.batch_norm_eps).sqrt()

    def conditions(self, pipe, prompt):
        return (pipe.encode_prompt(prompt, "cpu"),)

    def predict(self, model, noisy, sigma, captions):
        text, lengths = ErnieImagePipeline._pad_text(captions, "cpu", torch.float32, captions[0].shape[-1])
        return model(noisy, sigma * 1000, text, lengths, return_dict=False)[0]

    @torch.no_grad()
    def sampled(self, pipe, noise, **options):
        return pipe(prompt=list(self.PROMPTS), latents=noise, height=noise.shape[2] * 16, width=noise.shape[3] * 16, num_inference_steps=4, output_type="latent", return_dict=False,
                    **{"guidance_scale": 1.0, **options})[0]

    def drawn(self, pipe, noise):
        return {"plain": self.sampled(pipe, noise), "cfg": self.sampled(pipe, noise, guidance_scale=2.5, negative_prompt="cat"), "cfg_empty": self.sampled(pipe, noise, guidance_scale=2.5)}

    def write_alone(self, pipe):
        torch.manual_seed(3)
        captions = [torch.randn(5, 24), torch.randn(11, 24)]
        noisy, sigma = torch.randn(2, 32, 3, 5), torch.tensor([0.83, 0.21])
        family.save_alone(pipe.transformer, {"noisy": noisy, "sigma": sigma, "caption.0": captions[0], "caption.1": captions[1]},
                          self.predict(pipe.transformer, noisy, sigma, captions), self.OUT / "batch.safetensors")
        ids = torch.randint(0, 700, (1, 40))
        with torch.no_grad():
            states = pipe.text_encoder(input_ids=ids, output_hidden_states=True).hidden_states
        save_file({"ids": ids} | {f"states.{i}": state.contiguous() for i, state in enumerate(states)}, self.OUT / "text.safetensors")


FAMILY = ErnieImage()

if __name__ == "__main__":
    FAMILY.write()
