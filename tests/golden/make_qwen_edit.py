#!/usr/bin/env python3
"""A whole small Qwen-Image-Edit pipeline with random weights, and what diffusers, transformers and peft do with it, in qwen_edit_pipeline/:

model/                a folder of QwenImageEditPlusPipeline, its components in bf16
a.png, b.png          reference pictures of 384 · 384 pixels in area, so that nothing is scaled but for the vision tower; c.png: smaller
metadata.json         the pictures of make_pipeline.py with one reference, with two, with none, and with one
lora.safetensors      an adapter as diffusers' save_lora_weights writes it, rank 4, alpha 2
replay.safetensors    step.{i}.noise, step.{i}.sigma, step.{i}.sample of ten steps
expected.safetensors  {lora,full}.{loss,grad_norm} of ten steps with numbered pictures, full of them with zero_cond_t; initial noise and the
                      latents after 4 sampling steps: plain (Edit, a.png), plain_cfg, plus (a.png and b.png), plus_cfg, scaled (c.png alone,
                      numbered), zero (a.png and b.png with zero_cond_t)
vision.safetensors    {i}.image: pictures [H, W, 3]; {i}.levels: what PIL's processor of transformers scales them to, [N, 3 · 14 · 14] patch by patch;
                      {i}.pixels: the digest of the normalised patches; {i}.seen: the tower's tokens; ids with two of these pictures, and the
                      states after the final norm
"""
import json
import shutil

import numpy as np
import torch
from diffusers import QwenImageEditPipeline, QwenImageEditPlusPipeline, QwenImageTransformer2DModel
from diffusers.pipelines.qwenimage import pipeline_qwenimage_edit, pipeline_qwenimage_edit_plus
from PIL import Image
from safetensors.torch import save_file
from transformers import AddedToken, Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration, Qwen2VLProcessor, Qwen2VLVideoProcessor
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

import training_loop
from digest import digest
from make_encoders import randomise, rounded
from make_qwen_image import FAMILY as base

OUT = base.HERE / "qwen_edit_pipeline"
AREA = 384 * 384
REFERENCES = [["a.png"], ["b.png", "a.png"], [], ["b.png"]]
CAPTIONS = ["red apple", "a cat face, smiling", "tree", "red apple"]
VISION = dict(depth=3, hidden_size=16, intermediate_size=20, num_heads=2, out_hidden_size=16, fullatt_block_indexes=[1], window_size=56)


def write_pictures():
    rng = np.random.default_rng(5)
    for name, size in (("a.png", (384, 384)), ("b.png", (288, 512)), ("c.png", (100, 70))):
        Image.fromarray(rng.integers(0, 256, (6, 6, 3), dtype=np.uint8)).resize(size, Image.NEAREST).save(OUT / name, optimize=True)
    rows = []
    for i, (prompt, names) in enumerate(zip(CAPTIONS, REFERENCES)):
        cell = {} if not names else {"edit_image": names[0] if len(names) == 1 else names}
        rows.append({"image": f"../pipeline/pictures/{i}.png", "prompt": prompt} | cell)
    (OUT / "metadata.json").write_text(json.dumps(rows, indent=1) + "\n")


def opened(names):
    return [Image.open(OUT / name).convert("RGB") for name in names]


class TextEncoder(Qwen2_5_VLForConditionalGeneration):
    """transformers 5 finds the positions of pictures' tokens only where it is told which they are, and diffusers 0.42 does not tell it."""

    def forward(self, input_ids=None, **options):
        return super().forward(input_ids=input_ids, mm_token_type_ids=(input_ids == self.config.image_token_id).int(), **options)


def scale_to_area():
    """diffusers scales reference pictures to AREA from here on, where 1024 · 1024 is written into it."""
    pipeline_qwenimage_edit_plus.VAE_IMAGE_SIZE = AREA
    dimensions = pipeline_qwenimage_edit.calculate_dimensions
    pipeline_qwenimage_edit.calculate_dimensions = lambda _, ratio: dimensions(AREA, ratio)


def parts():
    pipe = base.parts()
    torch.manual_seed(20)
    tokens = pipe.tokenizer
    tokens.add_tokens([AddedToken(t, special=True) for t in ("<|vision_end|>", "<|image_pad|>", "<|video_pad|>")])
    config = Qwen2_5_VLConfig(text_config=base.TEXT | {"vocab_size": len(tokens) + 1}, vision_config=VISION, tie_word_embeddings=True,
                              image_token_id=tokens.convert_tokens_to_ids("<|image_pad|>"), video_token_id=tokens.convert_tokens_to_ids("<|video_pad|>"),
                              vision_start_token_id=tokens.convert_tokens_to_ids("<|vision_start|>"), vision_end_token_id=tokens.convert_tokens_to_ids("<|vision_end|>"))
    text = rounded(randomise(TextEncoder(config), 1.5))
    transformer = rounded(randomise(QwenImageTransformer2DModel(in_channels=64, out_channels=16, num_layers=2, attention_head_dim=16, num_attention_heads=2,
                                                                joint_attention_dim=16, axes_dims_rope=(4, 6, 6)), 0.7))
    processor = Qwen2VLProcessor(Qwen2VLImageProcessorPil(), tokens, Qwen2VLVideoProcessor())
    shared = dict(scheduler=pipe.scheduler, vae=pipe.vae, text_encoder=text, tokenizer=tokens, processor=processor, transformer=transformer)
    plus, edit = QwenImageEditPlusPipeline(**shared), QwenImageEditPipeline(**shared)
    for one in (plus, edit):
        one.set_progress_bar_config(disable=True)
        one.prompt_template_encode_start_idx = len(tokens(one.prompt_template_encode.split("<|vision_start|>")[0].split("{}")[0]).input_ids)
    pipe.text_encoder, pipe.transformer = text, transformer
    return pipe, edit, plus


def set_zero(model, on):
    for module in (model, *model.transformer_blocks):
        module.zero_cond_t = on


@torch.no_grad()
def drawn(pipe, noise, names, **options):
    out = []
    pictures = opened(names)
    for prompt, latents in zip(base.PROMPTS, noise):
        h, w = latents.shape[1:]
        image = pipe(image=pictures if isinstance(pipe, QwenImageEditPlusPipeline) else pictures[0], prompt=prompt, latents=base.pack(latents[None]), height=h * 8, width=w * 8,
                     num_inference_steps=4, output_type="latent", **{"true_cfg_scale": 1.0, **options}).images
        out.append(base.unpack(image, h, w))
    return torch.cat(out)


@torch.no_grad()
def encode(pipe, plus):
    mean, std = base.scale(pipe.vae)

    def latents_of(picture):
        x = torch.from_numpy(np.array(picture)).permute(2, 0, 1)[None, :, None].float() / 127.5 - 1
        return ((pipe.vae.encode(x).latent_dist.mode() - mean) / std)[:, :, 0]

    samples = []
    for i, (caption, names) in enumerate(zip(CAPTIONS, REFERENCES)):
        pictures = opened(names)
        text = plus._get_qwen_prompt_embeds(caption, pictures)[0] if names else pipe.encode_prompt(caption)[0]
        samples.append((latents_of(Image.open(base.PICTURES / f"{i}.png").convert("RGB")), [latents_of(p) for p in pictures], text))
    return samples


def predict(model, noisy, sigma, references, text):
    pictures = [noisy, *references]
    tokens = torch.cat([base.pack(x) for x in pictures], 1)
    shapes = [[(1, x.shape[2] // 2, x.shape[3] // 2) for x in pictures]]
    out = model(tokens, encoder_hidden_states=text, encoder_hidden_states_mask=None, timestep=sigma, img_shapes=shapes, return_dict=False)[0]
    return base.unpack(out[:, :base.pack(noisy).shape[1]], *noisy.shape[2:])


def train(model, samples, replay, parameters):
    return training_loop.train_velocity(lambda *given: predict(model, *given), samples, replay, parameters)


@torch.no_grad()
def vision(text, processor):
    rng = np.random.default_rng(9)
    tensors, grids, values = {}, [], []
    process = processor.image_processor
    mean, std = [torch.tensor(v)[:, None, None] for v in (process.image_mean, process.image_std)]

    def levels(out):
        frames = out["pixel_values"].reshape(-1, 3, 2, 14, 14)
        return ((frames[:, :, 0] * std + mean) * 255).round().to(torch.uint8).flatten(1).contiguous()

    for i, (height, width, block) in enumerate([(72, 100, 10), (130, 61, 1), (30, 90, 4)]):
        image = np.kron(rng.integers(0, 256, (-(-height // block), -(-width // block), 3), dtype=np.uint8), np.ones((block, block, 1), np.uint8))[:height, :width]
        out = process(Image.fromarray(image), return_tensors="pt")
        grids.append(out["image_grid_thw"])
        values.append(out["pixel_values"])
        seen = text.model.visual(out["pixel_values"], grid_thw=out["image_grid_thw"]).pooler_output
        tensors |= {f"{i}.image": torch.from_numpy(image.copy()), f"{i}.levels": levels(out), f"{i}.pixels": digest(out["pixel_values"]), f"{i}.seen": seen}
    pad = text.config.image_token_id
    counts = [int(g.prod()) // 4 for g in grids]
    ids = torch.tensor([[5, 6, 7] + [pad] * counts[0] + [8, 9] + [pad] * counts[1] + [10, 11, 12, 13]])
    states = text(input_ids=ids, pixel_values=torch.cat(values[:2]), image_grid_thw=torch.cat(grids[:2]), output_hidden_states=True).hidden_states[-1]
    save_file({k: v.contiguous() for k, v in (tensors | {"ids": ids, "states": states}).items()}, OUT / "vision.safetensors")


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir()
    write_pictures()
    scale_to_area()
    pipe, _, plus = parts()
    plus.to(torch.bfloat16).save_pretrained(OUT / "model")
    shutil.rmtree(OUT / "model/processor")  # of which the published folders have this file as well
    plus.processor.image_processor.save_pretrained(OUT / "model/processor")
    pipe, edit, plus = parts()  # of which nothing was rounded but the parameters
    vision(plus.text_encoder, plus.processor)
    samples = encode(pipe, plus)

    replay = training_loop.write_replay(OUT / "replay.safetensors", base.LATENTS, len(samples))
    noise, both = torch.randn(2, 16, 6, 8), ["a.png", "b.png"]
    guided = dict(true_cfg_scale=2.5, negative_prompt="cat")
    expected = {"noise": noise, "latents.plain": drawn(edit, noise, ["a.png"]), "latents.plain_cfg": drawn(edit, noise, ["a.png"], **guided),
                "latents.plus": drawn(plus, noise, both), "latents.plus_cfg": drawn(plus, noise, both, **guided), "latents.scaled": drawn(plus, noise, ["c.png"])}
    model = plus.transformer
    set_zero(model, True)
    expected["latents.zero"] = drawn(plus, noise, both)
    original = {n: p.detach().clone() for n, p in model.named_parameters()}
    expected["full.loss"], expected["full.grad_norm"], _ = train(model, samples, replay, list(model.named_parameters()))
    model.load_state_dict(original)
    set_zero(model, False)
    adapter = training_loop.add_adapter(model, base.TARGETS)
    save_file(training_loop.adapter_state("transformer", model), OUT / "lora.safetensors", metadata={"format": "pt"})
    expected["lora.loss"], expected["lora.grad_norm"], _ = train(model, samples, replay, adapter)
    save_file({k: v.contiguous() for k, v in expected.items()}, OUT / "expected.safetensors")
    for file in OUT.rglob("*"):
        file.chmod(0o755 if file.is_dir() else 0o644)
    print(expected["full.loss"], expected["lora.loss"], [(k, v.std()) for k, v in expected.items() if k.startswith("latents")], [s[2].shape for s in samples])


if __name__ == "__main__":
    main()
