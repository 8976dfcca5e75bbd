#!/usr/bin/env python3
"""A whole small LongCat-Image pipeline with random weights, and what diffusers, transformers and peft do with it, in longcat_image_pipeline/:

model/                a diffusers folder, its components in bf16, with the tokenizer of tokenizers/qwen_json (make_qwen.py makes it)
lora.safetensors      an adapter as diffusers' save_lora_adapter writes it, rank 4, alpha 2
replay.safetensors    step.{i}.noise, step.{i}.sigma, step.{i}.sample of ten steps; pictures and captions are those of pipeline/
expected.safetensors  {lora,full}.{loss,grad_norm} of ten steps, initial noise and the latents after 4 sampling steps: plain, with the LoRA, with guidance
transformer.safetensors  the transformer alone on two samples: in.<input>, out, out_weight, and grad.<parameter>: the digest of the gradient of sum(out * out_weight)
quotes.json           texts, and the ids that the pipeline makes of each
"""
import json

import torch
from diffusers import FlowMatchEulerDiscreteScheduler, LongCatImagePipeline, LongCatImageTransformer2DModel
from diffusers.pipelines.longcat_image import pipeline_longcat_image
from transformers import PreTrainedTokenizerFast, Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration

import family
from make_encoders import randomise, rounded
from make_qwen_image import QwenImage

TEXTS = ["", "a cat", "a sign that says 'red apple'", 'a "cat" and "the tree"', "a cat's face, 'it'", "don't", "rock'n'roll", "'a cat", "“apple” and ‘tree’", "‘a ‘b’",
         "'tree' 'it's red'", "\"a\ncat\"", "\n a cat", "'it''s'", "the 'é' of 猫, “猫的苹果”", "<|im_start|> '<|im_start|>'", "a 'b\" c' d\"", "''"]


def ids_of(tokens, text):
    """As _encode_prompt cuts it."""
    pieces = [piece for part, quoted in pipeline_longcat_image.split_quotation(text) for piece in (part if quoted else [part])]
    return [i for piece in pieces for i in tokens(piece, add_special_tokens=False)["input_ids"]]


class LongCatImage(family.Family):
    OUT = family.HERE / "longcat_image_pipeline"
    TARGETS = ["to_q", "to_k", "to_v", "to_out.0", "add_q_proj", "to_add_out", "ff.net.0.proj", "ff_context.net.2", "proj_mlp", "proj_out"]
    PROMPTS = ["red apple", "tree of the north, with 'a cat' on it"]

    def parts(self):
        torch.manual_seed(0)
        tokens = PreTrainedTokenizerFast(tokenizer_file=str(self.HERE / "tokenizers/qwen_json/tokenizer.json"), pad_token="<|endoftext|>", padding_side="right")
        config = Qwen2_5_VLConfig(text_config=QwenImage.TEXT | {"vocab_size": len(tokens) + 1}, vision_config=QwenImage.VISION, tie_word_embeddings=True)
        text = randomise(Qwen2_5_VLForConditionalGeneration(config), 1.5)
        transformer = randomise(LongCatImageTransformer2DModel(in_channels=64, num_layers=2, num_single_layers=3, attention_head_dim=16, num_attention_heads=2,
                                                               joint_attention_dim=16, pooled_projection_dim=16, axes_dims_rope=[4, 6, 6]), 0.7)
        scheduler = FlowMatchEulerDiscreteScheduler(use_dynamic_shifting=True, base_shift=0.5, max_shift=1.15, base_image_seq_len=256, max_image_seq_len=4096)
        return LongCatImagePipeline(scheduler=scheduler, vae=rounded(family.small_vae()), text_encoder=rounded(text), tokenizer=tokens, transformer=rounded(transformer),
                                    text_processor=None)

    @staticmethod
    def pack(x):
        return LongCatImagePipeline._pack_latents(x, *x.shape)

    @staticmethod
    def unpack(x, rows, columns):
        return LongCatImagePipeline._unpack_latents(x, rows * 8, columns * 8, 8)

    def conditions(self, pipe, prompt):
        return (pipe.encode_prompt(prompt)[0],)

    def predict(self, model, noisy, sigma, text):
        (h, w), count, ids = noisy.shape[2:], text.shape[1], pipeline_longcat_image.prepare_pos_ids
        out = model(hidden_states=self.pack(noisy), encoder_hidden_states=text, timestep=sigma, txt_ids=ids(num_token=count),
                    img_ids=ids(1, "image", (count, count), height=h // 2, width=w // 2), return_dict=False)[0]
        return self.unpack(out, h, w)

    @torch.no_grad()
    def sampled(self, pipe, noise, **options):
        h, w = noise.shape[2:]
        images = pipe(prompt=self.PROMPTS, latents=self.pack(noise), height=h * 8, width=w * 8, num_inference_steps=4, output_type="latent", enable_prompt_rewrite=False,
                      **{"guidance_scale": 1.0, **options}).images
        return self.unpack(images, h, w)

    def drawn(self, pipe, noise):
        return {"plain": self.sampled(pipe, noise), "cfg": self.sampled(pipe, noise, guidance_scale=2.5, negative_prompt=["cat", "cat"]),
                "cfg_empty": self.sampled(pipe, noise, guidance_scale=2.5, negative_prompt=["", ""])}

    def write_alone(self, pipe):
        torch.manual_seed(3)
        text, noisy, sigma = torch.randn(2, 7, 16), torch.randn(2, 16, 6, 10), torch.tensor([0.83, 0.21])
        family.save_alone(pipe.transformer, {"noisy": noisy, "sigma": sigma, "text": text}, self.predict(pipe.transformer, noisy, sigma, text), self.OUT / "transformer.safetensors")
        (self.OUT / "quotes.json").write_text(json.dumps({text: ids_of(pipe.tokenizer, text) for text in TEXTS}, indent=1) + "\n")


FAMILY = LongCatImage()

if __name__ == "__main__":
    FAMILY.write()
