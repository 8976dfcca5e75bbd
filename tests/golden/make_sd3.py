#!/usr/bin/env python3
"""A whole small Stable Diffusion 3.5 pipeline with random weights, and what diffusers + peft do with it, in sd3_pipeline/:

model/                a diffusers folder, its components in bf16, with the tokenizers of assets/tiny-flux
lora.safetensors      an adapter as diffusers' save_lora_weights writes it, rank 4, alpha 2
dora.safetensors      one of half of the layers, with magnitudes
replay.safetensors    step.{i}.noise, step.{i}.sigma, step.{i}.sample of ten steps; pictures and captions are those of pipeline/
expected.safetensors  {lora,dora,full}.{loss,grad_norm} of ten steps, initial noise and the latents after 4 sampling steps: plain, with the LoRA, with guidance
transformer.safetensors  the transformer alone on two samples: in.<input>, out, out_weight, and grad.<parameter>: the digest of the gradient of sum(out * out_weight)
text.safetensors      what the transformer reads of the two prompts: embeds.<i>, pooled.<i>

Of the three blocks the middle one alone attends to the picture a second time; the published Medium has its first thirteen do so, Large none.
"""
import json, shutil

import torch
from diffusers import FlowMatchEulerDiscreteScheduler, SD3Transformer2DModel, StableDiffusion3Pipeline
from safetensors.torch import save_file
from transformers import CLIPTextConfig, CLIPTextModelWithProjection, CLIPTokenizer, T5Config, T5EncoderModel, T5TokenizerFast

import family
import training_loop
from make_encoders import randomise, rounded
from make_pipeline import ASSETS


class Sd3(family.Family):
    OUT = family.HERE / "sd3_pipeline"
    TARGETS = ["to_q", "to_k", "to_v", "to_out.0", "add_q_proj", "add_k_proj", "add_v_proj", "to_add_out", "ff.net.0.proj", "ff.net.2", "ff_context.net.2"]
    PROMPTS = ["red apple", "tree of the north, a cat"]

    def parts(self):
        torch.manual_seed(0)
        words, big_words = CLIPTokenizer.from_pretrained(ASSETS / "tokenizer"), CLIPTokenizer.from_pretrained(ASSETS / "tokenizer", pad_token="!")
        pieces = T5TokenizerFast.from_pretrained(ASSETS / "tokenizer_2")

        def clip(width, act, words, **sizes):
            config = CLIPTextConfig(vocab_size=len(words), hidden_size=width, num_attention_heads=2, max_position_embeddings=words.model_max_length, projection_dim=width,
                                    hidden_act=act, bos_token_id=words.bos_token_id, eos_token_id=2, pad_token_id=words.pad_token_id, **sizes)
            return rounded(randomise(CLIPTextModelWithProjection(config)))

        clips = [clip(8, "quick_gelu", words, intermediate_size=16, num_hidden_layers=2), clip(16, "gelu", big_words, intermediate_size=24, num_hidden_layers=3)]
        t5 = randomise(T5EncoderModel(T5Config(vocab_size=len(pieces), d_model=32, d_kv=8, d_ff=24, num_layers=2, num_heads=2, feed_forward_proj="gated-gelu")))
        vae = family.small_vae()
        transformer = randomise(SD3Transformer2DModel(sample_size=16, in_channels=16, num_layers=3, attention_head_dim=16, num_attention_heads=2, joint_attention_dim=32,
                                                      caption_projection_dim=32, pooled_projection_dim=24, out_channels=16, pos_embed_max_size=32, dual_attention_layers=(1,),
                                                      qk_norm="rms_norm"), 0.7)
        transformer.pos_embed.pos_embed.copy_((transformer.pos_embed.pos_embed + torch.randn(1, 1024, 32) * 0.2).to(torch.bfloat16).float())
        return StableDiffusion3Pipeline(transformer=rounded(transformer), scheduler=FlowMatchEulerDiscreteScheduler(shift=3.0), vae=rounded(vae), text_encoder=clips[0],
                                        tokenizer=words, text_encoder_2=clips[1], tokenizer_2=big_words, text_encoder_3=rounded(t5), tokenizer_3=pieces)

    def open(self):
        pipe = super().open()
        for name, source in (("tokenizer", "tokenizer"), ("tokenizer_2", "tokenizer"), ("tokenizer_3", "tokenizer_2")):
            shutil.rmtree(self.OUT / "model" / name)
            shutil.copytree(ASSETS / source, self.OUT / "model" / name)
        for name in ("tokenizer_config.json", "special_tokens_map.json"):
            file = self.OUT / "model/tokenizer_2" / name
            file.write_text(json.dumps(json.loads(file.read_text()) | {"pad_token": "!"}, indent=2) + "\n")
        return pipe

    def conditions(self, pipe, prompt):
        text, _, pooled, _ = pipe.encode_prompt(prompt, None, None, device="cpu", do_classifier_free_guidance=False, max_sequence_length=pipe.tokenizer_3.model_max_length)
        return text, pooled

    def predict(self, model, noisy, sigma, text, pooled):
        return model(hidden_states=noisy, encoder_hidden_states=text, pooled_projections=pooled, timestep=sigma * 1000, return_dict=False)[0]

    @torch.no_grad()
    def sampled(self, pipe, noise, **options):
        height, width = self.SIZE
        return pipe(prompt=self.PROMPTS, latents=noise.clone(), height=height, width=width, num_inference_steps=4, output_type="latent",
                    max_sequence_length=pipe.tokenizer_3.model_max_length, **{"guidance_scale": 1.0, **options}).images

    def drawn(self, pipe, noise):
        return {"plain": self.sampled(pipe, noise), "cfg": self.sampled(pipe, noise, guidance_scale=2.5, negative_prompt=["cat", "cat"]),
                "cfg_empty": self.sampled(pipe, noise, guidance_scale=2.5)}

    def trained_more(self, pipe, adapter, replay):
        pipe.transformer.delete_adapters("default")
        samples = self.encode(pipe)
        dora = training_loop.add_adapter(pipe.transformer, self.TARGETS[::2], use_dora=True)
        save_file(training_loop.adapter_state("transformer", pipe.transformer), self.OUT / "dora.safetensors", metadata={"format": "pt"})
        return self.train(pipe, samples, replay, dora, "dora")

    def write_alone(self, pipe):
        torch.manual_seed(3)
        text, pooled = torch.randn(2, 7, 32), torch.randn(2, 24)
        noisy, sigma = torch.randn(2, 16, 6, 10), torch.tensor([0.83, 0.21])
        out = self.predict(pipe.transformer, noisy, sigma, text, pooled)
        family.save_alone(pipe.transformer, {"noisy": noisy, "sigma": sigma, "text": text, "pooled": pooled}, out, self.OUT / "transformer.safetensors")
        read = [self.conditions(pipe, prompt) for prompt in self.PROMPTS]
        save_file({f"{name}.{i}": x.detach().contiguous() for i, both in enumerate(read) for name, x in zip(("embeds", "pooled"), both)}, self.OUT / "text.safetensors")


FAMILY = Sd3()

if __name__ == "__main__":
    FAMILY.write()
