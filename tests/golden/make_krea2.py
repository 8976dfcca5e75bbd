#!/usr/bin/env python3
"""A whole small Krea 2 pipeline with random weights, and what diffusers + peft do with it, in krea2_pipeline/:

model/                a diffusers folder, its components in bf16, with the tokenizer of tokenizers/qwen_json (make_qwen.py makes it)
lora.safetensors      an adapter as diffusers' save_lora_weights writes it, rank 4, alpha 2
replay.safetensors    step.{i}.noise, step.{i}.sigma, step.{i}.sample of ten steps; pictures and captions are those of pipeline/
expected.safetensors  {lora,full}.{loss,grad_norm} of ten steps, initial noise and the latents after 4 sampling steps: plain, with the
                      LoRA, with guidance, as Turbo draws, with texts cut to 20 tokens; the captions differ in length
batch.safetensors     the transformer alone on a batch whose captions differ in length: in.<input>, out, out_weight, and
                      grad.<parameter>: the digest of the gradient of sum(out * out_weight)
"""
import torch
import torch.nn.functional as F
from diffusers import AutoencoderKLQwenImage, FlowMatchEulerDiscreteScheduler, Krea2Pipeline, Krea2Transformer2DModel
from transformers import PreTrainedTokenizerFast, Qwen3VLConfig, Qwen3VLModel

import family
from make_encoders import randomise, rounded


class Krea2(family.Family):
    OUT = family.HERE / "krea2_pipeline"
    REPLAYED = torch.bfloat16
    TARGETS = ["to_q", "to_k", "to_gate", "to_out.0", "down", "projector", "img_in", "time_mod_proj", "txt_in.linear_2"]
    TEXT = dict(hidden_size=16, intermediate_size=24, num_hidden_layers=4, num_attention_heads=2, num_key_value_heads=1, head_dim=8, max_position_embeddings=2048,
                rope_parameters={"rope_type": "default", "rope_theta": 5e6, "mrope_section": [2, 1, 1], "mrope_interleaved": True})
    VISION = dict(depth=1, hidden_size=8, intermediate_size=8, num_heads=1, patch_size=2, spatial_merge_size=2, out_hidden_size=16, num_position_embeddings=4,
                  deepstack_visual_indexes=[0])

    def parts(self):
        torch.manual_seed(0)
        tokens = PreTrainedTokenizerFast(tokenizer_file=str(self.HERE / "tokenizers/qwen_json/tokenizer.json"), pad_token="<|endoftext|>", padding_side="right")
        text = randomise(Qwen3VLModel(Qwen3VLConfig(text_config=self.TEXT | {"vocab_size": len(tokens) + 1}, vision_config=self.VISION, tie_word_embeddings=True)), 1.5)
        vae = randomise(AutoencoderKLQwenImage(base_dim=4, z_dim=16, num_res_blocks=1), 1.5)
        for name, p in vae.named_parameters():
            if name.endswith("gamma"):
                p.data = 1 + 0.2 * torch.randn_like(p)
        transformer = randomise(Krea2Transformer2DModel(in_channels=64, num_layers=3, attention_head_dim=16, num_attention_heads=2, num_key_value_heads=1, intermediate_size=48,
                                                        text_hidden_dim=16, num_text_layers=3, text_num_attention_heads=2, text_num_key_value_heads=2, text_intermediate_size=24,
                                                        num_layerwise_text_blocks=1, num_refiner_text_blocks=2, axes_dims_rope=(4, 6, 6)))
        for name, p in transformer.named_parameters():
            if "norm" in name:  # 1 is added to them
                p.data -= 1
            if name.endswith("scale_shift_table"):
                p.data = 0.3 * torch.randn_like(p)
        scheduler = FlowMatchEulerDiscreteScheduler(base_image_seq_len=256, base_shift=0.5, max_image_seq_len=6400, max_shift=1.15, use_dynamic_shifting=True)
        pipe = Krea2Pipeline(scheduler=scheduler, vae=rounded(vae), text_encoder=rounded(text), tokenizer=tokens, transformer=rounded(transformer),
                             text_encoder_select_layers=(1, 2, 3))
        # The template has other tokens in the small vocabulary.
        pipe.prompt_template_encode_start_idx = len(tokens(pipe.prompt_template_encode_prefix).input_ids)
        pipe.prompt_template_encode_num_suffix_tokens = len(tokens(pipe.prompt_template_encode_suffix).input_ids)
        return pipe

    @staticmethod
    def scale(vae):
        return [torch.tensor(v)[None, :, None, None, None] for v in (vae.config.latents_mean, vae.config.latents_std)]

    @staticmethod
    def pack(pipe, x):
        return pipe._pack_latents(x, *x.shape)

    @staticmethod
    def unpack(x, rows, columns):
        """As the pipeline's, of any number of rows and columns."""
        return x.view(len(x), rows // 2, columns // 2, -1, 2, 2).permute(0, 3, 1, 4, 2, 5).reshape(len(x), -1, rows, columns)

    def latents(self, pipe, image):
        mean, std = self.scale(pipe.vae)
        return ((pipe.vae.encode(image[:, :, None]).latent_dist.mode() - mean) / std)[:, :, 0]

    def conditions(self, pipe, prompt):
        states, mask = pipe.encode_prompt(prompt)
        return ([states[0][mask[0]]],)

    def predict(self, model, noisy, sigma, captions):
        longest = max(len(c) for c in captions)
        text = torch.stack([F.pad(c, (0, 0, 0, 0, 0, longest - len(c))) for c in captions])
        mask = torch.stack([torch.arange(longest) < len(c) for c in captions])
        h, w = noisy.shape[2:]
        places = Krea2Pipeline.prepare_position_ids(longest, h // 2, w // 2, noisy.device)
        out = model(Krea2Pipeline._pack_latents(self.pipe, noisy, *noisy.shape), encoder_hidden_states=text, encoder_attention_mask=None if mask.all() else mask, timestep=sigma,
                    position_ids=places, return_dict=False)[0]
        return self.unpack(out, h, w)

    def open(self):
        self.pipe = super().open()
        return self.pipe

    @torch.no_grad()
    def sampled(self, pipe, noise, **options):
        h, w = noise.shape[2:]
        images = pipe(prompt=list(self.PROMPTS), latents=self.pack(pipe, noise), height=h * 8, width=w * 8, num_inference_steps=4, output_type="latent",
                      **{"guidance_scale": 0.0, **options}).images
        return self.unpack(images, h, w)

    def drawn(self, pipe, noise):
        drawn = {"plain": self.sampled(pipe, noise), "cfg": self.sampled(pipe, noise, guidance_scale=1.5, negative_prompt=["cat", "cat"]),
                 "cfg_empty": self.sampled(pipe, noise, guidance_scale=1.5), "cut": self.sampled(pipe, noise, max_sequence_length=20)}
        pipe.register_to_config(is_distilled=True)
        drawn["turbo"] = self.sampled(pipe, noise)
        pipe.register_to_config(is_distilled=False)
        return drawn

    def write_alone(self, pipe):
        torch.manual_seed(3)
        captions = [torch.randn(5, 3, 16), torch.randn(9, 3, 16)]
        noisy, sigma = torch.randn(2, 16, 6, 10), torch.tensor([0.83, 0.21])
        family.save_alone(pipe.transformer, {"noisy": noisy, "sigma": sigma, "caption.0": captions[0], "caption.1": captions[1]},
                          self.predict(pipe.transformer, noisy, sigma, captions), self.OUT / "batch.safetensors")


FAMILY = Krea2()

if __name__ == "__main__":
    FAMILY.write()
