#!/usr/bin/env python3
"""A whole small Kandinsky 5 I2I pipeline with random weights, and what diffusers, transformers and peft do with it, in kandinsky5_edit_pipeline/:

model/                a folder of Kandinsky5I2IPipeline, its components in bf16
metadata.json         the pictures of make_pipeline.py, each with another of them as the one that it is made of
lora.safetensors      an adapter as diffusers' save_lora_adapter writes it, rank 4, alpha 2
replay.safetensors    step.{i}.noise, step.{i}.sigma, step.{i}.sample of ten steps
expected.safetensors  lora.{loss,grad_norm} of ten steps; initial noise and the latents after 4 sampling steps of picture 2: plain, cfg, cfg_empty
batch.safetensors     the transformer alone, as in kandinsky5_pipeline/, with in.given, the latents of the picture

The picture's latents are the mean, where the pipeline draws them. Of the prompt five states are dropped, as in the real vocabulary.
"""
import json
import shutil

import torch
from diffusers import Kandinsky5I2IPipeline
from diffusers.models.autoencoders.vae import DiagonalGaussianDistribution
from PIL import Image
from safetensors.torch import save_file
from transformers import AddedToken, Qwen2_5_VLConfig, Qwen2VLProcessor, Qwen2VLVideoProcessor
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

import family
import training_loop
from make_encoders import randomise, rounded
from make_kandinsky5 import Kandinsky5
from make_longcat_image_edit import TextEncoder
from make_qwen_edit import VISION
from make_qwen_image import QwenImage

CAPTIONS = ["red apple", "a cat face, smiling", "tree of the north", "an apple on the tree"]
DROPPED = 5
DiagonalGaussianDistribution.sample = lambda self, generator=None: self.mode()


class Kandinsky5Edit(Kandinsky5):
    OUT = family.HERE / "kandinsky5_edit_pipeline"
    PIPELINE, VISUAL_COND = Kandinsky5I2IPipeline, True

    def fit(self, pipe):
        tokens = pipe.tokenizer
        tokens.add_tokens([AddedToken(t, special=True) for t in ("<|vision_end|>", "<|image_pad|>")])
        id_of = tokens.convert_tokens_to_ids
        config = Qwen2_5_VLConfig(text_config=QwenImage.TEXT | {"vocab_size": len(tokens) + 1}, vision_config=VISION, tie_word_embeddings=True, image_token_id=id_of("<|image_pad|>"),
                                  vision_start_token_id=id_of("<|vision_start|>"), vision_end_token_id=id_of("<|vision_end|>"))
        torch.manual_seed(23)
        pipe.text_encoder = rounded(randomise(TextEncoder(config), 1.5))
        pipe.tokenizer = Qwen2VLProcessor(Qwen2VLImageProcessorPil(min_pixels=28 * 28 * 6, max_pixels=28 * 28 * 12), tokens, Qwen2VLVideoProcessor())
        pipe.prompt_template_encode_start_idx = len(tokens(pipe.prompt_template.split("{}")[0]).input_ids) + DROPPED
        pipe.resolutions = [(self.SIZE[1], self.SIZE[0])]
        pipe.set_progress_bar_config(disable=True)
        return pipe

    def picture(self, i):
        return Image.open(self.PICTURES / f"{i}.png").convert("RGB")

    def velocity(self, model, noisy, sigma, given, text, pooled):
        h, w = noisy.shape[2:]
        read = torch.cat([noisy, given, torch.ones_like(given[:, :1])], 1)
        out = model(self.last(read), encoder_hidden_states=text, timestep=sigma * 1000, pooled_projections=pooled,
                    visual_rope_pos=[torch.arange(1), torch.arange(h // 2), torch.arange(w // 2)], text_rope_pos=torch.arange(text.shape[1])).sample
        return self.first(out)

    @torch.no_grad()
    def samples(self, pipe):
        out = []
        for i, caption in enumerate(CAPTIONS):
            of_target, of_given = (self.latents(pipe, family.tensor_of(self.PICTURES / f"{j}.png")) for j in (i, (i + 1) % 4))
            states, pooled, _ = pipe.encode_prompt([caption], self.picture((i + 1) % 4))
            out.append((of_target, of_given, states, pooled))
        return out

    @torch.no_grad()
    def sampled(self, pipe, noise, **options):
        """The pipeline takes latents with those of the picture behind them."""
        given = self.latents(pipe, family.tensor_of(self.PICTURES / "2.png"))
        drawn = []
        for prompt, x in zip(self.PROMPTS, noise):
            latents = self.last(torch.cat([x[None], given, torch.ones_like(given[:, :1])], 1))
            images = pipe(image=self.picture(2), prompt=prompt, latents=latents, height=self.SIZE[0], width=self.SIZE[1], num_inference_steps=4, output_type="latent",
                          **{"guidance_scale": 1.0, **options}).image
            drawn.append(self.first(images))
        return torch.cat(drawn)

    def write_alone(self, pipe):
        torch.manual_seed(3)
        captions = [torch.randn(5, 16), torch.randn(9, 16)]
        noisy, given, sigma, pooled = torch.randn(2, 16, 6, 10), torch.randn(2, 16, 6, 10), torch.tensor([0.83, 0.21]), torch.randn(2, 8)
        out = torch.cat([self.velocity(pipe.transformer, noisy[i:i + 1], sigma[i:i + 1], given[i:i + 1], captions[i][None], pooled[i:i + 1]) for i in range(2)])
        family.save_alone(pipe.transformer, {"noisy": noisy, "given": given, "sigma": sigma, "pooled": pooled, "caption.0": captions[0], "caption.1": captions[1]}, out,
                          self.OUT / "batch.safetensors")


def main():
    edit = Kandinsky5Edit()
    shutil.rmtree(edit.OUT, ignore_errors=True)
    edit.OUT.mkdir()
    rows = [{"image": f"../pipeline/pictures/{i}.png", "prompt": caption, "edit_image": f"../pipeline/pictures/{(i + 1) % 4}.png"} for i, caption in enumerate(CAPTIONS)]
    (edit.OUT / "metadata.json").write_text(json.dumps(rows, indent=1) + "\n")
    saved = edit.parts()
    saved.to(torch.bfloat16)
    saved.save_pretrained(edit.OUT / "model")
    pipe = edit.parts()  # of which nothing was rounded but the parameters
    edit.write_alone(pipe)
    samples = edit.samples(pipe)
    replay = training_loop.write_replay(edit.OUT / "replay.safetensors", edit.LATENTS, len(samples))
    noise = torch.randn(2, *edit.LATENTS)
    expected = {"noise": noise, "latents.plain": edit.sampled(pipe, noise), "latents.cfg": edit.sampled(pipe, noise, guidance_scale=2.5, negative_prompt="cat"),
                "latents.cfg_empty": edit.sampled(pipe, noise, guidance_scale=2.5, negative_prompt="")}
    adapter = training_loop.add_adapter(pipe.transformer, edit.TARGETS)
    save_file(training_loop.adapter_state("transformer", pipe.transformer), edit.OUT / "lora.safetensors", metadata={"format": "pt"})
    expected["lora.loss"], expected["lora.grad_norm"], _ = training_loop.train_velocity(lambda *given: edit.velocity(pipe.transformer, *given), samples, replay, adapter)
    save_file({k: v.contiguous() for k, v in expected.items()}, edit.OUT / "expected.safetensors")
    for file in edit.OUT.rglob("*"):
        file.chmod(0o755 if file.is_dir() else 0o644)
    print(expected["lora.loss"], [(k, float(v.std())) for k, v in expected.items() if k.startswith("latents")], [s[2].shape for s in samples])


if __name__ == "__main__":
    main()
