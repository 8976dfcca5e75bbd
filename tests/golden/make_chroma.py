#!/usr/bin/env python3
"""A whole small Chroma pipeline with random weights, and what diffusers + peft do with it, in chroma_pipeline/:

model/                a diffusers folder, its components in bf16, with T5's tokenizer of assets/tiny-flux
lora.safetensors      an adapter as diffusers' save_lora_weights writes it, rank 4, alpha 2
replay.safetensors    step.{i}.noise, step.{i}.sigma, step.{i}.sample of ten steps; pictures and captions are those of pipeline/
expected.safetensors  {lora,full}.{loss,grad_norm} of ten steps, initial noise and the latents after 4 sampling steps: plain, with the LoRA, with guidance
transformer.safetensors  the transformer alone on two samples whose captions differ in length: in.<input>, out, out_weight, and grad.<parameter>: the digest of the
                      gradient of sum(out * out_weight)

diffusers adds the mask of a caption to the scores of attention where the model leaves tokens out, so what the mask is 0 on is cut off here.
"""
import shutil

import torch
from diffusers import ChromaPipeline, ChromaTransformer2DModel, FlowMatchEulerDiscreteScheduler
from transformers import T5Config, T5EncoderModel, T5TokenizerFast

import family
from make_encoders import randomise, rounded
from make_pipeline import ASSETS


class Cut(ChromaPipeline):
    def _get_t5_prompt_embeds(self, *args, **options):
        embeds, mask = super()._get_t5_prompt_embeds(*args, **options)
        count = int(mask.sum())
        return embeds[:, :count], mask[:, :count]


class Chroma(family.Family):
    OUT = family.HERE / "chroma_pipeline"
    TARGETS = ["to_q", "to_k", "to_v", "to_out.0", "add_q_proj", "to_add_out", "ff.net.0.proj", "ff.net.2", "proj_mlp", "proj_out"]
    PROMPTS = ["red apple", "tree of the north, a cat"]

    def parts(self):
        torch.manual_seed(0)
        tokens = T5TokenizerFast.from_pretrained(ASSETS / "tokenizer_2")
        t5 = randomise(T5EncoderModel(T5Config(vocab_size=len(tokens), d_model=16, d_kv=8, d_ff=24, num_layers=2, num_heads=2, feed_forward_proj="gated-gelu")))
        vae = family.small_vae()
        transformer = randomise(ChromaTransformer2DModel(in_channels=64, num_layers=2, num_single_layers=2, attention_head_dim=16, num_attention_heads=2, joint_attention_dim=16,
                                                         axes_dims_rope=(4, 6, 6), approximator_num_channels=16, approximator_hidden_dim=24, approximator_layers=2), 0.7)
        scheduler = FlowMatchEulerDiscreteScheduler(use_dynamic_shifting=False, shift=3.0)
        return Cut(scheduler=scheduler, vae=rounded(vae), text_encoder=rounded(t5), tokenizer=tokens, transformer=rounded(transformer))

    def open(self):
        pipe = super().open()
        shutil.rmtree(self.OUT / "model/tokenizer")
        shutil.copytree(ASSETS / "tokenizer_2", self.OUT / "model/tokenizer")
        return pipe

    def conditions(self, pipe, prompt):
        return (pipe._get_t5_prompt_embeds(prompt, max_sequence_length=pipe.tokenizer.model_max_length, device="cpu")[0],)

    def predict(self, model, noisy, sigma, caption):
        h, w = noisy.shape[2:]
        out = model(hidden_states=ChromaPipeline._pack_latents(noisy, *noisy.shape), encoder_hidden_states=caption, timestep=sigma, txt_ids=torch.zeros(caption.shape[1], 3),
                    img_ids=ChromaPipeline._prepare_latent_image_ids(1, h // 2, w // 2, "cpu", torch.float32), return_dict=False)[0]
        return ChromaPipeline._unpack_latents(out, h * 8, w * 8, 8)

    @torch.no_grad()
    def sampled(self, pipe, noise, **options):
        out = []
        for prompt, latents in zip(self.PROMPTS, noise):
            c, h, w = latents.shape
            image = pipe(prompt=prompt, latents=ChromaPipeline._pack_latents(latents[None], 1, c, h, w), height=h * 8, width=w * 8, num_inference_steps=4,
                         max_sequence_length=pipe.tokenizer.model_max_length, output_type="latent", **{"guidance_scale": 1.0, **options}).images
            out.append(ChromaPipeline._unpack_latents(image, h * 8, w * 8, 8))
        return torch.cat(out)

    def drawn(self, pipe, noise):
        return {"plain": self.sampled(pipe, noise), "cfg": self.sampled(pipe, noise, guidance_scale=2.5, negative_prompt="cat")}

    def write_alone(self, pipe):
        torch.manual_seed(3)
        captions = [torch.randn(5, 16), torch.randn(9, 16)]
        noisy, sigma = torch.randn(2, 16, 6, 10), torch.tensor([0.83, 0.21])
        out = torch.cat([self.predict(pipe.transformer, noisy[i:i + 1], sigma[i:i + 1], captions[i][None]) for i in range(2)])
        family.save_alone(pipe.transformer, {"noisy": noisy, "sigma": sigma, "caption.0": captions[0], "caption.1": captions[1]}, out,
                          self.OUT / "transformer.safetensors")


FAMILY = Chroma()

if __name__ == "__main__":
    FAMILY.write()
