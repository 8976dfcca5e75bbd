#!/usr/bin/env python3
"""A whole small Qwen-Image pipeline with random weights, and what diffusers + peft do with it, in qwen_image_pipeline/:

model/                a diffusers folder, its components in bf16, with the tokenizer of tokenizers/qwen_json (make_qwen.py makes it)
lora.safetensors      an adapter as diffusers' save_lora_weights writes it, rank 4, alpha 2
replay.safetensors    step.{i}.noise, step.{i}.sigma, step.{i}.sample of ten steps; pictures and captions are those of pipeline/
expected.safetensors  {lora,full}.{loss,grad_norm} of ten steps, initial noise and the latents after 4 sampling steps: plain, with the
                      LoRA, with guidance; the captions differ in length
batch.safetensors     the transformer alone on a batch whose captions differ in length: in.<input>, out, out_weight, and
                      grad.<parameter>: the digest of the gradient of sum(out * out_weight)
vae.safetensors       the autoencoder alone: image, and the mean and log-variance of its latents, normalised; latents, and what is decoded
text.safetensors      the text encoder alone: ids, and the states after the final norm
"""
import torch
import torch.nn.functional as F
from diffusers import AutoencoderKLQwenImage, FlowMatchEulerDiscreteScheduler, QwenImagePipeline, QwenImageTransformer2DModel
from safetensors.torch import save_file
from transformers import PreTrainedTokenizerFast, Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration

import family
from make_encoders import randomise, rounded


class QwenImage(family.Family):
    OUT = family.HERE / "qwen_image_pipeline"
    TARGETS = ["to_q", "to_k", "to_v", "add_q_proj", "add_k_proj", "add_v_proj", "to_out.0", "to_add_out", "img_mlp.net.2", "img_mod.1", "txt_mlp.net.2", "txt_mod.1"]
    TEXT = dict(hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1, max_position_embeddings=2048, tie_word_embeddings=True,
                rope_parameters={"rope_type": "default", "type": "default", "rope_theta": 1e6, "mrope_section": [2, 1, 1]})
    VISION = dict(depth=1, hidden_size=8, intermediate_size=8, num_heads=1, patch_size=2, spatial_merge_size=2, out_hidden_size=16)

    def parts(self):
        torch.manual_seed(0)
        tokens = PreTrainedTokenizerFast(tokenizer_file=str(self.HERE / "tokenizers/qwen_json/tokenizer.json"), pad_token="<|endoftext|>", padding_side="right")
        config = Qwen2_5_VLConfig(text_config=self.TEXT | {"vocab_size": len(tokens) + 1}, vision_config=self.VISION, tie_word_embeddings=True)
        text = randomise(Qwen2_5_VLForConditionalGeneration(config), 1.5)
        vae = randomise(AutoencoderKLQwenImage(base_dim=4, z_dim=16, num_res_blocks=1), 1.5)
        for name, p in vae.named_parameters():
            if name.endswith("gamma"):
                p.data = 1 + 0.2 * torch.randn_like(p)
        transformer = randomise(QwenImageTransformer2DModel(in_channels=64, out_channels=16, num_layers=3, attention_head_dim=16, num_attention_heads=2, joint_attention_dim=16,
                                                            axes_dims_rope=(4, 6, 6)), 0.7)
        scheduler = FlowMatchEulerDiscreteScheduler(base_image_seq_len=256, base_shift=0.5, max_image_seq_len=8192, max_shift=0.9, shift_terminal=0.02, use_dynamic_shifting=True)
        pipe = QwenImagePipeline(scheduler=scheduler, vae=rounded(vae), text_encoder=rounded(text), tokenizer=tokens, transformer=rounded(transformer))
        # The template has other tokens in the small vocabulary than the 34 of the real one.
        pipe.prompt_template_encode_start_idx = len(tokens(pipe.prompt_template_encode.split("{}")[0]).input_ids)
        return pipe

    @staticmethod
    def scale(vae):
        return [torch.tensor(v)[None, :, None, None, None] for v in (vae.config.latents_mean, vae.config.latents_std)]

    @staticmethod
    def pack(x):
        return QwenImagePipeline._pack_latents(x, *x.shape)

    @staticmethod
    def unpack(x, rows, columns):
        return QwenImagePipeline._unpack_latents(x, rows * 8, columns * 8, 8)[:, :, 0]

    def latents(self, pipe, image):
        mean, std = self.scale(pipe.vae)
        return ((pipe.vae.encode(image[:, :, None]).latent_dist.mode() - mean) / std)[:, :, 0]

    def conditions(self, pipe, prompt):
        return ([pipe.encode_prompt(prompt)[0][0]],)

    def predict(self, model, noisy, sigma, captions):
        longest = max(len(c) for c in captions)
        text = torch.stack([F.pad(c, (0, 0, 0, longest - len(c))) for c in captions])
        mask = torch.stack([torch.arange(longest) < len(c) for c in captions])
        h, w = noisy.shape[2:]
        out = model(self.pack(noisy), encoder_hidden_states=text, encoder_hidden_states_mask=None if mask.all() else mask, timestep=sigma,
                    img_shapes=[[(1, h // 2, w // 2)]] * len(noisy), return_dict=False)[0]
        return self.unpack(out, h, w)

    @torch.no_grad()
    def sampled(self, pipe, noise, **options):
        h, w = noise.shape[2:]
        images = pipe(prompt=list(self.PROMPTS), latents=self.pack(noise), height=h * 8, width=w * 8, num_inference_steps=4, output_type="latent",
                      **{"true_cfg_scale": 1.0, **options}).images
        return self.unpack(images, h, w)

    def drawn(self, pipe, noise):
        return {"plain": self.sampled(pipe, noise), "cfg": self.sampled(pipe, noise, true_cfg_scale=2.5, negative_prompt=["cat", "cat"]),
                "cfg_empty": self.sampled(pipe, noise, true_cfg_scale=2.5, negative_prompt=["", ""])}

    def write_alone(self, pipe):
        torch.manual_seed(3)
        captions = [torch.randn(5, 16), torch.randn(9, 16)]
        noisy, sigma = torch.randn(2, 16, 6, 10), torch.tensor([0.83, 0.21])
        family.save_alone(pipe.transformer, {"noisy": noisy, "sigma": sigma, "caption.0": captions[0], "caption.1": captions[1]},
                          self.predict(pipe.transformer, noisy, sigma, captions), self.OUT / "batch.safetensors")
        self.write_encoders(pipe)

    @torch.no_grad()
    def write_encoders(self, pipe):
        torch.manual_seed(5)
        mean, std = self.scale(pipe.vae)
        image, latents = torch.rand(2, 3, 1, 24, 40) * 2 - 1, torch.randn(1, 16, 1, 3, 5)
        moments = pipe.vae.encode(image).latent_dist
        tensors = {"image": image, "mean": (moments.mean - mean) / std, "logvar": moments.logvar - 2 * std.log(), "latents": latents,
                   "decoded": pipe.vae.decode(latents * std + mean).sample}
        save_file({n: x[:, :, 0].contiguous() for n, x in tensors.items()}, self.OUT / "vae.safetensors")
        ids = torch.randint(0, 200, (2, 11))
        save_file({"ids": ids, "states": pipe.text_encoder(input_ids=ids, output_hidden_states=True).hidden_states[-1].contiguous()}, self.OUT / "text.safetensors")


FAMILY = QwenImage()

if __name__ == "__main__":
    FAMILY.write()
