#!/usr/bin/env python3
"""A whole small FIBO 2 pipeline with random weights, and what diffusers + peft do with it, in fibo2_pipeline/:

model/                a diffusers folder, its components in bf16, whose tokenizer is that of tokenizers/qwen_json (make_qwen.py makes it) with two tokens
                      called as those around a picture
lora.safetensors      an adapter as diffusers' save_lora_weights writes it, rank 4, alpha 2
replay.safetensors    step.{i}.noise, step.{i}.sigma, step.{i}.sample of ten steps; pictures and captions are those of pipeline/
expected.safetensors  {lora,full,references}.{loss,grad_norm} of ten steps, initial noise and the latents after 4 sampling steps: plain, with the LoRA,
                      with guidance away from a text and from the empty caption, of a caption that is JSON and long, with the reference pictures a.png
                      and b.png of references/, with b.png and a caption that is JSON; the captions differ in length
batch.safetensors     the transformer alone on a batch whose captions differ in length and in gist tokens: in.<input>, out, out_weight, and
                      grad.<parameter>: the digest of the gradient of sum(out * out_weight)
edit.safetensors      the same with two reference pictures and short captions
captions.json         prompts, and the texts that the pipeline makes of them: as prompts, and with one picture and with two
"""
import csv
import json

import numpy as np
import torch
import torch.nn.functional as F
from diffusers import AutoencoderKLFlux2, BriaFibo2Pipeline, BriaFibo2Transformer2DModel, FlowMatchEulerDiscreteScheduler
from PIL import Image
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast, Qwen3VLConfig, Qwen3VLForConditionalGeneration, Qwen3VLProcessor
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil
from transformers.models.qwen3_vl.video_processing_qwen3_vl import Qwen3VLVideoProcessor

import family
from make_encoders import randomise, rounded

# Longer than 256 tokens of the small vocabulary, so that the text has more gist tokens than a short one.
JSON = json.dumps({"short_description": "a red apple on the tree of the north, and a cat on it with a red apple, which it eats", "objects": [{"description": "a cat face, smiling", "location": "center", "relationship": ""}],
                   "background_setting": "tree of the north, a cat face, smiling, a red apple on the tree, and a cat on it, a tree behind the cat, and a face on the tree", "lighting": {}, "aesthetics": {"mood": "cat", "aesthetic_score": 7.5}, "context": "", "preference_score": "high",
                   "text_render": [{"text": "", "location": "on the tree"}], "artistic_style": None})
CAPTIONS = ["red apple", "", JSON, "{}", '{"short_description": "", "objects": []}', '{"a": 1.0, "b": 1e20, "c": [1, null, "é\\n\\u00e9\\"/"], "d": {"e": {"f": []}}, "g": true}',
            '{"short_description": "cat", "text_render": []}', '{"text_render": [{"text": "Hi"}], "short_description": ""}', '["red", "apple"]', '{"broken": ', "12",
            '{"edit_instruction": "make it red"}', '{"edit_instruction": "make it red", "short_description": "a red cat", "objects": []}',
            '{"structured_caption": {"short_description": "cat", "context": ""}, "edit_instruction": "add a cat"}', '{"structured_caption": "a cat", "edit_instruction": "add a cat"}',
            '{"short_description": "", "objects": [], "lighting": {}}', '{"aesthetic_score": 5, "lighting": {"aesthetic_score": 5, "kind": "day"}, "other": {"preference_score": 1}}']


def patched(x):
    """Latents [B, C, 2 h, 2 w] -> [B, 4 C, h, w], as FLUX.2's are patched."""
    return BriaFibo2Pipeline._patchify_latents(x)


def unpatched(x):
    return BriaFibo2Pipeline._unpatchify_latents(x)


class Fibo2(family.Family):
    OUT = family.HERE / "fibo2_pipeline"
    TARGETS = ["to_q", "to_k", "to_v", "to_out.0", "w1", "w2", "w3"]
    LATENTS = (32, 3, 4)
    REFERENCES = [["a.png"], ["b.png", "a.png"], [], ["b.png"]]  # by row
    LAYERS = (5, 7, 9, 16, 18, 20, 27, 29, 31)  # of the text encoder, which the gist tokens and two blocks read
    BUNDLES = ((9, 20, 31), (5, 16, 27), (7, 18, 29))
    TRANSFORMER = dict(in_channels=8, dim=32, n_layers=4, n_refiner_layers=2, n_heads=2, cap_feat_dim=24, injection_layer_ids=(1, 3), perceiver_num_layers=2,
                       min_num_gist_tokens=8, max_num_gist_tokens=16, gist_step=2, axes_dims=(4, 6, 6))
    # The published number of layers, of which the pipeline's code names 15.
    TEXT = dict(hidden_size=8, intermediate_size=8, num_hidden_layers=36, num_attention_heads=2, num_key_value_heads=1, head_dim=8, max_position_embeddings=8192,
                rope_parameters={"rope_type": "default", "rope_theta": 5e6, "mrope_section": [2, 1, 1], "mrope_interleaved": True})
    VISION = dict(depth=1, hidden_size=8, intermediate_size=8, num_heads=1, patch_size=2, spatial_merge_size=2, out_hidden_size=8, num_position_embeddings=4,
                  deepstack_visual_indexes=[0])

    def processor(self):
        """No row of the embedding is for further tokens: two that no text here has are called otherwise."""
        words = json.loads((self.HERE / "tokenizers/qwen_json/tokenizer.json").read_text())
        for token in words["added_tokens"]:
            token["content"] = {"<think>": "<|vision_end|>", "</think>": "<|image_pad|>"}.get(token["content"], token["content"])
        tokens = PreTrainedTokenizerFast(tokenizer_object=Tokenizer.from_str(json.dumps(words)), pad_token="<|endoftext|>", padding_side="right")
        pictures = Qwen2VLImageProcessorPil(patch_size=2, size={"shortest_edge": 12 * 12, "longest_edge": 24 * 24}, image_mean=[0.5] * 3, image_std=[0.5] * 3)
        return Qwen3VLProcessor(image_processor=pictures, tokenizer=tokens, video_processor=Qwen3VLVideoProcessor())

    def parts(self):
        torch.manual_seed(0)
        processor = self.processor()
        config = Qwen3VLConfig(text_config=self.TEXT | {"vocab_size": len(processor.tokenizer) + 1}, vision_config=self.VISION, tie_word_embeddings=True,
                               image_token_id=processor.image_token_id)
        text = randomise(Qwen3VLForConditionalGeneration(config), 0.7)
        vae = randomise(AutoencoderKLFlux2(block_out_channels=(4, 4, 8, 8), layers_per_block=1, latent_channels=8, norm_num_groups=4), 1.2)
        vae.bn.running_mean.normal_(0, 0.3)
        vae.bn.running_var.uniform_(0.3, 2)
        for statistic in (vae.bn.running_mean, vae.bn.running_var):
            statistic.copy_(statistic.to(torch.bfloat16))
        transformer = randomise(BriaFibo2Transformer2DModel(**self.TRANSFORMER))
        scheduler = FlowMatchEulerDiscreteScheduler(base_image_seq_len=256, base_shift=0.5, max_image_seq_len=4096, max_shift=1.15, use_dynamic_shifting=True)
        pipe = BriaFibo2Pipeline(scheduler=scheduler, vae=rounded(vae), text_encoder=rounded(text), processor=processor, transformer=rounded(transformer))
        return pipe

    def latents(self, pipe, image):
        return patched(pipe.prepare_image_latents([image], 1, "cpu", torch.float32)[0])

    def pictures(self, names):
        return [Image.open(self.HERE / "references" / name).convert("RGB") for name in names]

    def conditions(self, pipe, prompt, references=()):
        return (pipe.encode_prompt(prompt, self.pictures(references) or None)[0],)

    def predict(self, model, noisy, sigma, captions, mask=None, references=()):
        return patched(model(unpatched(noisy), sigma, captions, mask, [unpatched(x) for x in references] or None, return_dict=False)[0])

    @torch.no_grad()
    def sampled(self, pipe, noise, **options):
        h, w = noise.shape[2:]
        return patched(pipe(latents=unpatched(noise), height=h * 16, width=w * 16, num_inference_steps=4, output_type="latent",
                            **{"prompt": list(self.PROMPTS), "guidance_scale": 1.0, "render_text_images": False, **options}).images)

    def open(self):
        pipe = super().open()
        # The small pictures are not brought to the sizes of training.
        pipe.image_processor.preprocess = lambda images, **_: ([torch.from_numpy(np.array(x)).permute(2, 0, 1)[None].float() / 127.5 - 1 for x in images], images)
        return pipe

    def trained_more(self, pipe, adapter, replay):
        rows = list(csv.DictReader(open(self.PICTURES / "metadata.csv")))
        with torch.no_grad():
            samples = [(self.latents(pipe, family.tensor_of(self.PICTURES / row["image"])), *self.conditions(pipe, row["prompt"], names), None,
                        [self.latents(pipe, family.tensor_of(self.HERE / "references" / name)) for name in names]) for row, names in zip(rows, self.REFERENCES)]
        return self.train(pipe, samples, replay, adapter, "references")

    def drawn(self, pipe, noise):
        both, edit = self.pictures(["a.png", "b.png"]), json.dumps({"edit_instruction": "a red cat", "short_description": "a red cat on a tree", "context": ""})
        return {"references": self.sampled(pipe, noise, image=both), "reference": self.sampled(pipe, noise, image=both[1:], prompt=[edit, "red apple"]),
                "references_cfg": self.sampled(pipe, noise, image=both, guidance_scale=2.5), "plain": self.sampled(pipe, noise), "cfg": self.sampled(pipe, noise, guidance_scale=2.5, negative_prompt=["cat", "cat"]),
                "cfg_empty": self.sampled(pipe, noise, guidance_scale=2.5), "json": self.sampled(pipe, noise, prompt=[JSON, "red apple"])}

    def bundled(self, captions):
        """States [B, T, N, E] of LAYERS as the transformer takes them."""
        return torch.stack([torch.cat([captions[:, :, self.LAYERS.index(i)] for i in layers], -1) for layers in self.BUNDLES], 1)

    def write_alone(self, pipe):
        torch.manual_seed(3)
        for name, longest, references in (("batch", 260, []), ("edit", 9, [torch.randn(2, 32, 2, 3), torch.randn(2, 32, 3, 2)])):
            captions = [torch.randn(5, 9, 8), torch.randn(longest, 9, 8)]
            text = torch.stack([F.pad(x, (0, 0, 0, 0, 0, longest - len(x))) for x in captions])
            mask = torch.stack([torch.arange(longest) < len(x) for x in captions])
            noisy, sigma = torch.randn(2, 32, 3, 5), torch.tensor([0.83, 0.21])
            inputs = {"noisy": noisy, "sigma": sigma} | {f"caption.{i}": x for i, x in enumerate(captions)} | {f"reference.{i}": x for i, x in enumerate(references)}
            out = self.predict(pipe.transformer, noisy, sigma, self.bundled(text), mask, references)
            family.save_alone(pipe.transformer, inputs, out, self.OUT / f"{name}.safetensors")
        self.write_captions(pipe)

    def write_captions(self, pipe):
        rows = []
        for prompt in CAPTIONS:
            caption, _ = pipe._parse_prompt(prompt)
            text = caption if isinstance(caption, str) else json.dumps(caption or {}, separators=(",", ":"), ensure_ascii=False)
            rows.append({"prompt": prompt, "text": text, "one": pipe._get_edit_prompt(prompt, 1), "two": pipe._get_edit_prompt(prompt, 2)})
        (self.OUT / "captions.json").write_text(json.dumps(rows, indent=0, ensure_ascii=False) + "\n")


FAMILY = Fibo2()

if __name__ == "__main__":
    FAMILY.write()
