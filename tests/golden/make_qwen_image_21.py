#!/usr/bin/env python3
"""A whole small Qwen-Image-2.1 pipeline with random weights, and what diffusers + peft do with it, in qwen_image_21_pipeline/:

model/                a diffusers folder, its components in bf16; the processor has the tokenizer of tokenizers/qwen_json (make_qwen.py makes it), of which
                      two tokens that no text here has are called <|vision_end|> and <|image_pad|>
lora.safetensors      an adapter as diffusers' save_lora_weights writes it, rank 4, alpha 2
replay.safetensors    step.{i}.noise, step.{i}.sigma, step.{i}.sample of ten steps; pictures and captions are those of pipeline/, 32 rows of each picture
expected.safetensors  {lora,full}.{loss,grad_norm} of ten steps, initial noise and the latents after 4 sampling steps: plain, with the LoRA, with
                      guidance; the captions differ in length, and each is drawn alone, since diffusers places a picture behind the padding of its text
batch.safetensors     the transformer alone on captions that differ in length: in.<input>, out, out_weight, and grad.<parameter>: the digest of the
                      gradient of sum(out * out_weight)
vae.safetensors       the autoencoder alone: image, its latents as the transformer sees them, image.drawn of them in red, green, blue and alpha
"""
import json

import torch
from diffusers import AutoencoderKLQwenImage21, FlowMatchEulerDiscreteScheduler, QwenImage21Pipeline, QwenImage21Transformer2DModel
from safetensors.torch import save_file
from transformers import PreTrainedTokenizerFast, Qwen3VLConfig, Qwen3VLForConditionalGeneration, Qwen3VLProcessor, Qwen3VLVideoProcessor
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

import family
from make_encoders import randomise, rounded

TURNS = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content[0].text }}<|im_end|>\n{% endfor %}"


def processor(size):
    """One that shows pictures of these areas; `size` is as Qwen2VLImageProcessor has it."""
    words = json.loads((family.HERE / "tokenizers/qwen_json/tokenizer.json").read_text())
    for token in words["added_tokens"]:
        token["content"] = {"<think>": "<|vision_end|>", "</think>": "<|image_pad|>"}.get(token["content"], token["content"])
    tokens = PreTrainedTokenizerFast(tokenizer_object=family_tokenizer(words), pad_token="<|endoftext|>")
    shows = Qwen2VLImageProcessorPil(patch_size=16, size=size, image_mean=[0.5] * 3, image_std=[0.5] * 3)
    return Qwen3VLProcessor(image_processor=shows, tokenizer=tokens, video_processor=Qwen3VLVideoProcessor(), chat_template=TURNS)


def family_tokenizer(words):
    from tokenizers import Tokenizer
    return Tokenizer.from_str(json.dumps(words))


class QwenImage21(family.Family):
    OUT = family.HERE / "qwen_image_21_pipeline"
    REPLAYED = torch.bfloat16
    TARGETS = ["to_q", "to_k", "to_v", "to_out.0", "img_mlp.proj", "img_mlp.gate_layer", "img_mlp.out", "img_in", "modulation.1", "txt_in.in_layer"]
    LATENTS, SIZE = (16, 2, 4), (32, 64)
    TEXT = dict(hidden_size=16, intermediate_size=24, num_hidden_layers=3, num_attention_heads=2, num_key_value_heads=1, head_dim=8, max_position_embeddings=2048,
                rope_parameters={"rope_type": "default", "rope_theta": 5e6, "mrope_section": [2, 1, 1], "mrope_interleaved": True})
    VISION = dict(depth=2, hidden_size=8, intermediate_size=8, num_heads=1, patch_size=16, spatial_merge_size=2, out_hidden_size=16, num_position_embeddings=4,
                  deepstack_visual_indexes=[0])

    def parts(self):
        torch.manual_seed(0)
        sees = processor({"shortest_edge": 32 * 32, "longest_edge": 128 * 128})
        tokens = sees.tokenizer
        pictured = {f"{name}_token_id": tokens.convert_tokens_to_ids(word) for name, word in
                    (("image", "<|image_pad|>"), ("vision_start", "<|vision_start|>"), ("vision_end", "<|vision_end|>"))}
        text = randomise(Qwen3VLForConditionalGeneration(Qwen3VLConfig(text_config=self.TEXT | {"vocab_size": len(tokens) + 1}, vision_config=self.VISION,
                                                                       tie_word_embeddings=False, **pictured)), 1.5)
        mean, deviation = torch.randn(16) * 0.3, torch.rand(16) + 0.5
        vae = randomise(AutoencoderKLQwenImage21(base_dim=2, decoder_base_dim=3, z_dim=16, num_res_blocks=1, latents_mean=[round(x, 4) for x in mean.tolist()],
                                                 latents_std=[round(x, 4) for x in deviation.tolist()]), 1.5)
        for name, p in vae.named_parameters():
            if name.endswith("gamma"):
                p.data = 1 + 0.2 * torch.randn_like(p)
        transformer = randomise(QwenImage21Transformer2DModel(in_channels=16, out_channels=16, num_layers=3, attention_head_dim=16, num_attention_heads=2, context_in_dim=16,
                                                              axes_dims_rope=(4, 6, 6)))
        transformer.txt_in.text_norm.weight.data -= 1  # which is added to it
        scheduler = FlowMatchEulerDiscreteScheduler(base_image_seq_len=256, base_shift=0.5, max_image_seq_len=8192, max_shift=0.9, shift_terminal=0.02, use_dynamic_shifting=True)
        return QwenImage21Pipeline(scheduler=scheduler, vae=rounded(vae), text_encoder=rounded(text), processor=sees, transformer=rounded(transformer))

    def latents(self, pipe, image):
        """Of the rows in the middle of a picture, which is as high as latents can be."""
        rows = image.shape[2] // 32 * 32
        first = (image.shape[2] - rows) // 2
        image = torch.nn.functional.pad(image[:, :, first:first + rows], (0, 0, 0, 0, 0, 1), value=1)  # nothing shines through
        return pipe._encode_vae_image(image[:, :, None], None)[:, :, 0]

    def conditions(self, pipe, prompt):
        return (pipe.encode_prompt(prompt)[0][0],)

    def predict_one(self, model, noisy, sigma, text, references=(), pictured=None):
        """Of one sample, whose text [T, E] has states at the places of `references` [1, C, h, w], where `pictured` [T] is true."""
        shapes = [(1, *x.shape[2:]) for x in (*references, noisy)]
        tokens = torch.cat([x.flatten(2).transpose(1, 2) for x in (*references, noisy)], 1)
        pictured = torch.zeros(len(text), dtype=torch.bool) if pictured is None else pictured
        slots = torch.cat([pictured, torch.ones(noisy[0, 0].numel() // 4, dtype=torch.bool)])[None]
        out = model(tokens, text[None], sigma.reshape(1), [shapes], slots, return_dict=False)[0]
        return out[:, -noisy[0, 0].numel():].transpose(1, 2).reshape(noisy.shape)

    def predict(self, model, noisy, sigma, *texts):
        texts = texts[0] if isinstance(texts[0], list) else texts
        return torch.cat([self.predict_one(model, noisy[i:i + 1], sigma[i], text) for i, text in enumerate(texts)])

    @torch.no_grad()
    def sampled(self, pipe, noise, **options):
        h, w = noise.shape[2:]
        draw = lambda prompt, latents: pipe(prompt=prompt, latents=latents.flatten(2).transpose(1, 2), height=h * 16, width=w * 16, num_inference_steps=4, output_type="latent", **options).images
        return torch.cat([draw(prompt, noise[i:i + 1]).transpose(1, 2).reshape(1, -1, h, w) for i, prompt in enumerate(self.PROMPTS)])

    def drawn(self, pipe, noise):
        return {"plain": self.sampled(pipe, noise), "cfg": self.sampled(pipe, noise, true_cfg_scale=2.5, negative_prompt="cat"),
                "cfg_empty": self.sampled(pipe, noise, true_cfg_scale=2.5, negative_prompt="")}

    def write_alone(self, pipe):
        torch.manual_seed(3)
        captions = [torch.randn(5, 16), torch.randn(9, 16)]
        noisy, sigma = torch.randn(2, 16, 4, 6), torch.tensor([0.83, 0.21])
        family.save_alone(pipe.transformer, {"noisy": noisy, "sigma": sigma, "caption.0": captions[0], "caption.1": captions[1]},
                          self.predict(pipe.transformer, noisy, sigma, captions), self.OUT / "batch.safetensors")
        with torch.no_grad():
            image = torch.rand(1, 3, 32, 64) * 2 - 1
            latents = self.latents(pipe, image)
            mean, deviation = (torch.tensor(x).view(1, -1, 1, 1) for x in (pipe.vae.config.latents_mean, pipe.vae.config.latents_std))
            drawn = pipe.vae.decode((latents * deviation + mean)[:, :, None]).sample[:, :, 0]
        save_file({"image": image, "latents": latents.contiguous(), "image.drawn": drawn.contiguous()}, self.OUT / "vae.safetensors")


FAMILY = QwenImage21()

if __name__ == "__main__":
    FAMILY.write()
