#!/usr/bin/env python3
"""A whole small Kandinsky 5 T2I pipeline with random weights, and what diffusers, transformers and peft do with it, in kandinsky5_pipeline/:

model/                a diffusers folder, its components in bf16, with the tokenizers of tokenizers/qwen_json and pipeline/
lora.safetensors      an adapter as diffusers' save_lora_adapter writes it, rank 4, alpha 2
replay.safetensors    step.{i}.noise, step.{i}.sigma, step.{i}.sample of ten steps; pictures and captions are those of pipeline/
expected.safetensors  {lora,full}.{loss,grad_norm} of ten steps, initial noise and the latents after 4 sampling steps: plain, with the LoRA, with guidance
batch.safetensors     the transformer alone on a batch whose captions differ in length: in.<input>, out, out_weight, and grad.<parameter>: the digest of the
                      gradient of sum(out * out_weight)
text.safetensors      what the pipeline makes of a prompt: states, pooled

diffusers' attention rounds turned queries and keys to bf16, whatever the model computes in; here it does not.
"""
import types

import torch
from diffusers import FlowMatchEulerDiscreteScheduler, Kandinsky5T2IPipeline, Kandinsky5Transformer3DModel
from diffusers.models.transformers import transformer_kandinsky
from safetensors.torch import save_file
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTokenizer, PreTrainedTokenizerFast, Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration

import family
from make_encoders import randomise, rounded
from make_qwen_image import QwenImage

PROMPT = "  a   red\n\tapple &amp; “it’s” "


class WithoutRounding(types.ModuleType):
    """torch, for which bf16 is fp32."""
    bfloat16 = torch.float32

    def __getattr__(self, name):
        return getattr(torch, name)


transformer_kandinsky.torch = WithoutRounding("torch")


class Kandinsky5(family.Family):
    OUT = family.HERE / "kandinsky5_pipeline"
    TARGETS = ["to_query", "to_key", "to_value", "self_attention.out_layer", "cross_attention.out_layer", "feed_forward.in_layer", "feed_forward.out_layer", "text_modulation.out_layer",
               "visual_modulation.out_layer"]
    PIPELINE, VISUAL_COND = Kandinsky5T2IPipeline, False

    def parts(self):
        torch.manual_seed(0)
        tokens = PreTrainedTokenizerFast(tokenizer_file=str(self.HERE / "tokenizers/qwen_json/tokenizer.json"), pad_token="<|endoftext|>", padding_side="right")
        config = Qwen2_5_VLConfig(text_config=QwenImage.TEXT | {"vocab_size": len(tokens) + 1}, vision_config=QwenImage.VISION, tie_word_embeddings=True)
        text = randomise(Qwen2_5_VLForConditionalGeneration(config), 1.5)
        tokenizer_2 = CLIPTokenizer.from_pretrained(self.HERE.parents[1] / "assets/tiny-flux/tokenizer")
        clip = randomise(CLIPTextModel(CLIPTextConfig(vocab_size=len(tokenizer_2), hidden_size=8, intermediate_size=16, num_hidden_layers=2, num_attention_heads=2,
                                                      max_position_embeddings=77, eos_token_id=tokenizer_2.eos_token_id, bos_token_id=tokenizer_2.bos_token_id)), 1.5)
        transformer = randomise(Kandinsky5Transformer3DModel(in_visual_dim=16, out_visual_dim=16, in_text_dim=16, in_text_dim2=8, time_dim=12, model_dim=32, ff_dim=48,
                                                             num_text_blocks=2, num_visual_blocks=3, axes_dims=(4, 6, 6), visual_cond=self.VISUAL_COND), 0.7)
        pipe = self.PIPELINE(scheduler=FlowMatchEulerDiscreteScheduler(shift=3.0), vae=rounded(family.small_vae()), text_encoder=rounded(text),
                             tokenizer=tokens, text_encoder_2=rounded(clip), tokenizer_2=tokenizer_2, transformer=rounded(transformer))
        return self.fit(pipe)

    def fit(self, pipe):
        # The template has other tokens in the small vocabulary than the 40 of the real one.
        pipe.prompt_template_encode_start_idx = len(pipe.tokenizer(pipe.prompt_template.split("{}")[0]).input_ids)
        pipe.resolutions = [(self.SIZE[1], self.SIZE[0])]
        pipe.set_progress_bar_config(disable=True)
        return pipe

    @staticmethod
    def last(x):
        """[B, C, h, w] with channels last, as one frame."""
        return x.permute(0, 2, 3, 1)[:, None]

    @staticmethod
    def first(x):
        return x[:, 0].permute(0, 3, 1, 2).contiguous()

    def latents(self, pipe, image):
        return pipe.vae.encode(image).latent_dist.mode() * pipe.vae.config.scaling_factor

    def conditions(self, pipe, prompt):
        states, pooled, _ = pipe.encode_prompt(prompt)
        return ([states[0]], pooled)

    def velocity(self, model, noisy, sigma, text, pooled):
        h, w = noisy.shape[2:]
        out = model(self.last(noisy), encoder_hidden_states=text, timestep=sigma * 1000, pooled_projections=pooled,
                    visual_rope_pos=[torch.arange(1), torch.arange(h // 2), torch.arange(w // 2)], text_rope_pos=torch.arange(text.shape[1])).sample
        return self.first(out)

    def predict(self, model, noisy, sigma, captions, pooled):
        """One by one: the model knows no padding."""
        return torch.cat([self.velocity(model, noisy[i:i + 1], sigma[i:i + 1], caption[None], pooled[i:i + 1]) for i, caption in enumerate(captions)])

    @torch.no_grad()
    def sampled(self, pipe, noise, **options):
        h, w = noise.shape[2:]
        return torch.cat([self.first(pipe(prompt=prompt, latents=self.last(x[None]), height=h * 8, width=w * 8, num_inference_steps=4, output_type="latent",
                                          **{"guidance_scale": 1.0, **options}).image) for prompt, x in zip(self.PROMPTS, noise)])

    def drawn(self, pipe, noise):
        return {"plain": self.sampled(pipe, noise), "cfg": self.sampled(pipe, noise, guidance_scale=2.5, negative_prompt="cat"),
                "cfg_empty": self.sampled(pipe, noise, guidance_scale=2.5, negative_prompt="")}

    def write_alone(self, pipe):
        torch.manual_seed(3)
        captions = [torch.randn(5, 16), torch.randn(9, 16)]
        noisy, sigma, pooled = torch.randn(2, 16, 6, 10), torch.tensor([0.83, 0.21]), torch.randn(2, 8)
        family.save_alone(pipe.transformer, {"noisy": noisy, "sigma": sigma, "pooled": pooled, "caption.0": captions[0], "caption.1": captions[1]},
                          self.predict(pipe.transformer, noisy, sigma, captions, pooled), self.OUT / "batch.safetensors")
        with torch.no_grad():
            states, pooled, _ = pipe.encode_prompt(PROMPT)
        save_file({"states": states.contiguous(), "pooled": pooled.contiguous()}, self.OUT / "text.safetensors")


FAMILY = Kandinsky5()

if __name__ == "__main__":
    FAMILY.write()
