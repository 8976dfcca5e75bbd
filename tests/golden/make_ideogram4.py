#!/usr/bin/env python3
"""A whole small Ideogram 4 pipeline with random weights, and what diffusers + peft do with it, in ideogram4_pipeline/:

model/                a diffusers folder, its components in bf16, with the tokenizer of tokenizers/qwen_json (make_qwen.py makes it)
lora.safetensors      an adapter as diffusers' save_lora_weights writes it, rank 4, alpha 2
replay.safetensors    step.{i}.noise, step.{i}.sigma, step.{i}.sample of ten steps; pictures and captions are those of pipeline/
expected.safetensors  {lora,full}.{loss,grad_norm} of ten steps, initial noise and the latents after 4 sampling steps: plain, with the
                      LoRA, with guidance, with guidance that is weaker at the last step, of a caption that is JSON; the captions differ
                      in length
batch.safetensors     the transformer alone on a batch whose captions differ in length: in.<input>, out, out_weight, and
                      grad.<parameter>: the digest of the gradient of sum(out * out_weight)
text.safetensors      the text encoder alone: ids, and the states of a token that are read, those of all layers number by number
"""
import torch
import torch.nn.functional as F
from diffusers import AutoencoderKLFlux2, FlowMatchEulerDiscreteScheduler, Ideogram4Pipeline, Ideogram4Transformer2DModel
from safetensors.torch import save_file
from transformers import PreTrainedTokenizerFast, Qwen3VLConfig, Qwen3VLModel

import family
from make_encoders import randomise, rounded

CHAT = ("{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' }}{% for c in m.content %}{{ c.text }}{% endfor %}{{ '<|im_end|>\n' }}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")
TEXT_INDICATOR, IMAGE_INDICATOR = 3, 2
JSON = '{"high_level_description":"a red apple","compositional_deconstruction":{"background":"tree","elements":[{"type":"obj","desc":"a cat -- smiling --w"}]}}'


def by_pixel(x):
    """Latents [B, C, 2 h, 2 w] in patches of 2 x 2: [B, 4 C, h, w], the channels of a pixel side by side."""
    b, c, h, w = x.shape
    return x.view(b, c, h // 2, 2, w // 2, 2).permute(0, 3, 5, 1, 2, 4).reshape(b, 4 * c, h // 2, w // 2)


class Ideogram4(family.Family):
    OUT = family.HERE / "ideogram4_pipeline"
    TARGETS = ["to_q", "to_k", "to_v", "to_out.0", "w1", "w2", "w3"]
    LATENTS = (32, 3, 4)
    TRANSFORMER = dict(in_channels=32, num_layers=3, attention_head_dim=16, num_attention_heads=2, intermediate_size=48, adaln_dim=8, llm_features_dim=13 * 8, mrope_section=(1, 1, 1))
    # The published numbers of layers, of which the pipeline's code names 13.
    TEXT = dict(hidden_size=8, intermediate_size=8, num_hidden_layers=36, num_attention_heads=2, num_key_value_heads=1, head_dim=8, max_position_embeddings=4096,
                rope_parameters={"rope_type": "default", "rope_theta": 5e6, "mrope_section": [2, 1, 1], "mrope_interleaved": True})
    VISION = dict(depth=1, hidden_size=8, intermediate_size=8, num_heads=1, patch_size=2, spatial_merge_size=2, out_hidden_size=8, num_position_embeddings=4, deepstack_visual_indexes=[0])
    LENGTH = 192

    def parts(self):
        torch.manual_seed(0)
        tokens = PreTrainedTokenizerFast(tokenizer_file=str(self.HERE / "tokenizers/qwen_json/tokenizer.json"), pad_token="<|endoftext|>", padding_side="left", chat_template=CHAT)
        text = randomise(Qwen3VLModel(Qwen3VLConfig(text_config=self.TEXT | {"vocab_size": len(tokens) + 1}, vision_config=self.VISION, tie_word_embeddings=True)), 0.7)
        vae = randomise(AutoencoderKLFlux2(block_out_channels=(4, 4, 8, 8), layers_per_block=1, latent_channels=8, norm_num_groups=4), 1.2)
        # The published statistics come again every 32 numbers, with small differences.
        vae.bn.running_mean.copy_((torch.randn(8) * 0.3).repeat(4) + torch.randn(32) * 0.02)
        vae.bn.running_var.copy_((torch.rand(8) * 1.7 + 0.3).repeat(4) * (1 + torch.randn(32) * 0.02))
        for statistic in (vae.bn.running_mean, vae.bn.running_var):
            statistic.copy_(statistic.to(torch.bfloat16))
        conditional, unconditional = (randomise(Ideogram4Transformer2DModel(**self.TRANSFORMER), 0.7) for _ in range(2))
        return Ideogram4Pipeline(scheduler=FlowMatchEulerDiscreteScheduler(), vae=rounded(vae), text_encoder=rounded(text), tokenizer=tokens, transformer=rounded(conditional),
                                 unconditional_transformer=rounded(unconditional))

    def latents(self, pipe, image):
        mean, std = (x[None, :, None, None] for x in (pipe.vae.bn.running_mean, (pipe.vae.bn.running_var + pipe.vae.config.batch_norm_eps).sqrt()))
        return (by_pixel(pipe.vae.encode(image).latent_dist.mode()) - mean) / std

    def conditions(self, pipe, prompt):
        features, _, _, indicator = pipe.encode_prompt(prompt, 1, 1, self.LENGTH, "cpu")
        return ([features[0][indicator[0] == TEXT_INDICATOR]],)

    def predict(self, model, noisy, sigma, captions):
        b, c, h, w = noisy.shape
        longest = max(len(x) for x in captions)
        text = torch.stack([F.pad(x, (0, 0, longest - len(x), h * w)) for x in captions])
        places, segments, indicator = Ideogram4Pipeline._prepare_ids([len(x) for x in captions], h, w, longest, "cpu")
        tokens = F.pad(noisy.flatten(2).transpose(1, 2), (0, 0, longest, 0))
        out = model(tokens, 1 - sigma, text, places, segments, indicator, return_dict=False)[0]
        return -out[:, longest:].transpose(1, 2).reshape(b, c, h, w).contiguous()

    @torch.no_grad()
    def sampled(self, pipe, noise, **options):
        h, w = noise.shape[2:]
        options = {"prompt": list(self.PROMPTS), "guidance_scale": None if "guidance_schedule" in options else 1.0, "guidance_schedule": None, **options}
        tokens = pipe(latents=noise.flatten(2).transpose(1, 2), height=h * 16, width=w * 16, num_inference_steps=4, max_sequence_length=self.LENGTH, output_type="latent", return_dict=False,
                      **options)[0]
        return tokens.transpose(1, 2).reshape(noise.shape)

    def drawn(self, pipe, noise):
        return {"plain": self.sampled(pipe, noise), "cfg": self.sampled(pipe, noise, guidance_scale=2.5), "schedule": self.sampled(pipe, noise, guidance_schedule=[7.0, 7.0, 7.0, 3.0]),
                "json": self.sampled(pipe, noise, prompt=[JSON, "red apple"])}

    def write_alone(self, pipe):
        torch.manual_seed(3)
        captions = [torch.randn(5, 13 * 8), torch.randn(9, 13 * 8)]
        noisy, sigma = torch.randn(2, 32, 3, 5), torch.tensor([0.83, 0.21])
        family.save_alone(pipe.transformer, {"noisy": noisy, "sigma": sigma, "caption.0": captions[0], "caption.1": captions[1]},
                          self.predict(pipe.transformer, noisy, sigma, captions), self.OUT / "batch.safetensors")
        ids = torch.randint(0, 700, (1, 12))
        with torch.no_grad():
            states = pipe._get_text_encoder_hidden_states(pipe.text_encoder, ids, torch.ones_like(ids), torch.arange(12)[None])
        save_file({"ids": ids, "states": torch.stack(states, -1).flatten(2)}, self.OUT / "text.safetensors")


FAMILY = Ideogram4()

if __name__ == "__main__":
    FAMILY.write()
