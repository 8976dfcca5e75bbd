#!/usr/bin/env python3
"""A whole small LongCat-Image-Edit pipeline with random weights, and what diffusers, transformers and peft do with it, in longcat_image_edit_pipeline/:

model/                a folder of LongCatImageEditPipeline, its components in bf16
metadata.json         the pictures of make_pipeline.py with one of the reference pictures of qwen_edit_pipeline/ each, and one without
lora.safetensors      an adapter as diffusers' save_lora_adapter writes it, rank 4, alpha 2
replay.safetensors    step.{i}.noise, step.{i}.sigma, step.{i}.sample of ten steps
expected.safetensors  lora.{loss,grad_norm} of ten steps; initial noise and the latents after 4 sampling steps: plain (a.png), cfg

The pipeline's area of pictures is AREA here. The places of tokens of texts are numbered on behind a picture, padding's too.
"""
import json
import shutil

import torch
from diffusers import LongCatImageEditPipeline
from diffusers.pipelines.longcat_image import pipeline_longcat_image_edit
from PIL import Image
from safetensors.torch import save_file
from transformers import AddedToken, Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration, Qwen2VLProcessor, Qwen2VLVideoProcessor
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

import family
import training_loop
from make_encoders import randomise, rounded
from make_longcat_image import FAMILY as base
from make_qwen_edit import VISION
from make_qwen_image import QwenImage

OUT, PICTURES = base.HERE / "longcat_image_edit_pipeline", base.HERE / "qwen_edit_pipeline"
AREA = 128 * 128
REFERENCES = ["a.png", "b.png", None, "c.png"]
CAPTIONS = ["red apple", "a cat face, 'smiling'", "tree", "red apple"]


class TextEncoder(Qwen2_5_VLForConditionalGeneration):
    """transformers 5 finds the places of pictures' tokens only where it is told which they are, and diffusers 0.42 does not tell it."""

    def forward(self, input_ids=None, image_grid_thw=None, **options):
        if image_grid_thw is not None:
            told = (input_ids == self.config.image_token_id).int()
            options["position_ids"] = self.model.get_rope_index(input_ids, mm_token_type_ids=told, image_grid_thw=image_grid_thw)[0]
        return super().forward(input_ids=input_ids, image_grid_thw=image_grid_thw, **options)


def scale_to_area():
    dimensions = pipeline_longcat_image_edit.calculate_dimensions
    pipeline_longcat_image_edit.calculate_dimensions = lambda _, ratio: dimensions(AREA, ratio)


def parts():
    pipe = base.parts()
    torch.manual_seed(21)
    tokens = pipe.tokenizer
    tokens.add_tokens([AddedToken(t, special=True) for t in ("<|vision_end|>", "<|image_pad|>")])
    config = Qwen2_5_VLConfig(text_config=QwenImage.TEXT | {"vocab_size": len(tokens) + 1}, vision_config=VISION, tie_word_embeddings=True,
                              image_token_id=tokens.convert_tokens_to_ids("<|image_pad|>"), vision_start_token_id=tokens.convert_tokens_to_ids("<|vision_start|>"),
                              vision_end_token_id=tokens.convert_tokens_to_ids("<|vision_end|>"))
    processor = Qwen2VLProcessor(Qwen2VLImageProcessorPil(), tokens, Qwen2VLVideoProcessor())
    edit = LongCatImageEditPipeline(scheduler=pipe.scheduler, vae=pipe.vae, text_encoder=rounded(randomise(TextEncoder(config), 1.5)), tokenizer=tokens, transformer=pipe.transformer,
                                    text_processor=processor)
    edit.set_progress_bar_config(disable=True)
    pipe.text_encoder = edit.text_encoder
    return pipe, edit


def opened(name):
    return Image.open(PICTURES / name).convert("RGB")


def scaled(pipe, picture):
    width, height = pipeline_longcat_image_edit.calculate_dimensions(0, picture.size[0] / picture.size[1])
    picture = pipe.image_processor.resize(picture, height, width)
    return pipe.image_processor.preprocess(picture, height, width), pipe.image_processor.resize(picture, height // 2, width // 2)


@torch.no_grad()
def drawn(pipe, noise, name, **options):
    out = []
    for prompt, latents in zip(base.PROMPTS, noise):
        images = pipe(image=opened(name), prompt=prompt, latents=base.pack(latents[None]), num_inference_steps=4, output_type="latent", **{"guidance_scale": 1.0, **options}).images
        out.append(base.unpack(images, *latents.shape[1:]))
    return torch.cat(out)


@torch.no_grad()
def encode(pipe, edit):
    samples = []
    for i, (caption, name) in enumerate(zip(CAPTIONS, REFERENCES)):
        target = base.latents(pipe, family.tensor_of(base.PICTURES / f"{i}.png"))
        if name is None:
            samples.append((target, [], pipe.encode_prompt(caption)[0]))
            continue
        picture, seen = scaled(edit, opened(name))
        samples.append((target, [base.latents(pipe, picture)], edit.encode_prompt([caption], seen)[0]))
    return samples


def predict(model, noisy, sigma, references, text):
    pictures, count, ids = [noisy, *references], text.shape[1], pipeline_longcat_image_edit.prepare_pos_ids
    places = [ids(i + 1, "image", (count, count), height=x.shape[2] // 2, width=x.shape[3] // 2) for i, x in enumerate(pictures)]
    out = model(hidden_states=torch.cat([base.pack(x) for x in pictures], 1), encoder_hidden_states=text, timestep=sigma, txt_ids=ids(num_token=count),
                img_ids=torch.cat(places), return_dict=False)[0]
    return base.unpack(out[:, :base.pack(noisy).shape[1]], *noisy.shape[2:])


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir()
    rows = [{"image": f"../pipeline/pictures/{i}.png", "prompt": caption} | ({"edit_image": f"../qwen_edit_pipeline/{name}"} if name else {})
            for i, (caption, name) in enumerate(zip(CAPTIONS, REFERENCES))]
    (OUT / "metadata.json").write_text(json.dumps(rows, indent=1) + "\n")
    scale_to_area()
    parts()[1].to(torch.bfloat16).save_pretrained(OUT / "model")
    shutil.rmtree(OUT / "model/text_processor")  # of which the published folder has this file as well
    pipe, edit = parts()  # of which nothing was rounded but the parameters
    edit.text_processor.image_processor.save_pretrained(OUT / "model/text_processor")
    samples = encode(pipe, edit)
    replay = training_loop.write_replay(OUT / "replay.safetensors", base.LATENTS, len(samples))
    noise = torch.randn(2, 16, 16, 16)
    expected = {"noise": noise, "latents.plain": drawn(edit, noise, "a.png"),
                "latents.cfg": drawn(edit, noise, "a.png", guidance_scale=2.5, negative_prompt="cat")}
    adapter = training_loop.add_adapter(edit.transformer, base.TARGETS)
    save_file(training_loop.adapter_state("transformer", edit.transformer), OUT / "lora.safetensors", metadata={"format": "pt"})
    expected["lora.loss"], expected["lora.grad_norm"], _ = training_loop.train_velocity(lambda *given: predict(edit.transformer, *given), samples, replay, adapter)
    save_file({k: v.contiguous() for k, v in expected.items()}, OUT / "expected.safetensors")
    for file in OUT.rglob("*"):
        file.chmod(0o755 if file.is_dir() else 0o644)
    print(expected["lora.loss"], [(k, v.std()) for k, v in expected.items() if k.startswith("latents")], [s[2].shape for s in samples])


if __name__ == "__main__":
    main()
