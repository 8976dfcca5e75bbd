#!/usr/bin/env python3
"""Krea 2's edit forms on the small pipeline of make_krea2.py, in krea2_edit/. The conventions are those of ai-toolkit (frames: pictures behind the target in
frames 1, 2, ..., modulated by the time 0) and of SimpleTuner (overlaid: one picture in the target's place, at its time); the forward is written here over
diffusers' own modules, the text over transformers' Qwen3VLModel.

a.png, b.png          reference pictures whose sides are multiples of 16, a.png of the targets' size; c.png: other sides
tokenizer/            that of the model, which has <|vision_end|> and <|image_pad|> in place of two other tokens
processor/            preprocessor_config.json, by which the tower is shown few pixels
metadata.json         the pictures of make_pipeline.py with one reference, with two, with none, and with one; overlaid.json: with a.png each
replay.safetensors    step.{i}.noise, step.{i}.sigma, step.{i}.sample of ten steps
expected.safetensors  {frames,overlaid,full}.{loss,grad_norm} of ten steps with the adapter of krea2_pipeline/, and of the whole transformer (frames);
                      initial noise and the latents after 4 sampling steps: one (a.png), two, two_cfg, scaled (c.png), overlaid (a.png);
                      {frames,overlaid}.text: the states that the transformer reads of "red apple" with a.png and b.png, with a.png
alone.safetensors     the transformer alone with two references and captions of 5 and 9 tokens: in.<input>, out, out_weight, and grad.<parameter>
"""
import json
import shutil

import numpy as np
import torch
import torch.nn.functional as F
from diffusers import Krea2Pipeline
from PIL import Image
from safetensors.torch import save_file
from transformers import PreTrainedTokenizerFast
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

import family
import training_loop
from make_krea2 import FAMILY as base

OUT = base.HERE / "krea2_edit"
REFERENCES = [["a.png"], ["b.png", "a.png"], [], ["b.png"]]
CAPTIONS = ["red apple", "a cat face, smiling", "tree", "red apple"]


def write_pictures():
    rng = np.random.default_rng(6)
    for name, size in (("a.png", (64, 48)), ("b.png", (48, 80)), ("c.png", (100, 70))):
        Image.fromarray(rng.integers(0, 256, (6, 6, 3), dtype=np.uint8)).resize(size, Image.BICUBIC).save(OUT / name, optimize=True)
    for file, references in (("metadata.json", REFERENCES), ("overlaid.json", [["a.png"]] * 4)):
        rows = [{"image": f"../pipeline/pictures/{i}.png", "prompt": prompt} | ({"edit_image": names[0] if len(names) == 1 else names} if names else {})
                for i, (prompt, names) in enumerate(zip(CAPTIONS, references))]
        (OUT / file).write_text(json.dumps(rows, indent=1) + "\n")


def write_tokenizer():
    """The model's embedding has no rows for further tokens: two that no text here has are called otherwise."""
    folder = OUT / "tokenizer"
    shutil.copytree(base.OUT / "model/tokenizer", folder)
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    for token in tokenizer["added_tokens"]:
        token["content"] = {"<think>": "<|vision_end|>", "</think>": "<|image_pad|>"}.get(token["content"], token["content"])
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer, ensure_ascii=False))
    return PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"), pad_token="<|endoftext|>", padding_side="right")


def forward(model, target, references, text, mask, sigma, size, grids, frames):
    """What the transformer predicts of packed tokens; `grids` are rows and columns of the references."""
    temb = model.time_embed(sigma, dtype=target.dtype)
    project = lambda embedded: model.time_mod_proj(F.gelu(embedded, approximate="tanh"))
    text_mask = None if mask is None else mask[:, None, None, :]
    words = model.txt_in(model.text_fusion(text, attention_mask=text_mask))
    hidden = torch.cat([words, model.img_in(torch.cat([target, *references], 1))], 1)
    num_clean = sum(r.shape[1] for r in references) if frames else 0
    modulation = project(temb).expand(-1, hidden.shape[1] - num_clean, -1)
    if num_clean:
        modulation = torch.cat([modulation, project(model.time_embed(torch.zeros_like(sigma), dtype=target.dtype)).expand(-1, num_clean, -1)], 1)
    places = [torch.zeros(words.shape[1], 3)]
    for frame, (rows, columns) in enumerate([size, *grids]):
        row, column = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
        places.append(torch.stack([torch.full((rows * columns,), frame if frames else 0), row.flatten(), column.flatten()], 1).float())
    rope = model.rotary_emb(torch.cat(places))
    attended = None if mask is None else torch.cat([mask, mask.new_ones(len(mask), hidden.shape[1] - mask.shape[1])], 1)[:, None, None, :]
    for block in model.transformer_blocks:
        hidden = block(hidden, modulation, rope, attended)
    return model.final_layer(hidden[:, words.shape[1]:words.shape[1] + target.shape[1]], temb)


def predict(model, noisy, sigma, references, text, mask=None, frames=True):
    packed = lambda x: Krea2Pipeline._pack_latents(base.pipe, x, *x.shape)
    rows, columns = noisy.shape[2:]
    out = forward(model, packed(noisy), [packed(r) for r in references], text, mask, sigma, (rows // 2, columns // 2),
                  [(r.shape[2] // 2, r.shape[3] // 2) for r in references], frames)
    return base.unpack(out, rows, columns)


class Edit:
    def __init__(self, pipe, tokens):
        self.pipe, self.tokens = pipe, tokens
        self.picture = tokens.convert_tokens_to_ids("<|image_pad|>")
        pipe.text_encoder.config.image_token_id = self.picture
        self.process = Qwen2VLImageProcessorPil(patch_size=2, size={"shortest_edge": 12 * 12, "longest_edge": 24 * 24}, image_mean=[0.5] * 3, image_std=[0.5] * 3)
        self.process.save_pretrained(OUT / "processor")

    @torch.no_grad()
    def text(self, prompt, names, frames=True):
        """As ai-toolkit tells of pictures, or SimpleTuner: [1, L, layers, width]."""
        pipe, place = self.pipe, "<|vision_start|><|image_pad|><|vision_end|>"
        told = "".join(f"Picture {i + 1}: {place}" for i in range(len(names))) if frames else place + "\n"
        text = pipe.prompt_template_encode_prefix + (told if names else "") + prompt + pipe.prompt_template_encode_suffix
        given, shown, grids = self.tokens(text).input_ids, [], []
        for name in names:
            out = self.process(Image.open(OUT / name).convert("RGB"), return_tensors="pt")
            shown.append(out["pixel_values"])
            grids.append(out["image_grid_thw"])
        ids, counts = [], iter(int(g.prod()) // 4 for g in grids)
        for i in given:
            ids += [i] * (next(counts) if i == self.picture else 1)
        ids = torch.tensor([ids])
        seen = dict(pixel_values=torch.cat(shown), image_grid_thw=torch.cat(grids)) if names else {}
        states = pipe.text_encoder(input_ids=ids, mm_token_type_ids=(ids == self.picture).int(), output_hidden_states=True, **seen).hidden_states
        return torch.stack([states[i] for i in pipe.config.text_encoder_select_layers], 2)[:, pipe.prompt_template_encode_start_idx:]

    @torch.no_grad()
    def latents(self, name):
        image = Image.open(OUT / name).convert("RGB")
        sides = [max(16, round(s / 16) * 16) for s in image.size]
        image = torch.from_numpy(np.array(image.resize(sides, Image.LANCZOS))).permute(2, 0, 1)[None].float() / 127.5 - 1
        return base.latents(self.pipe, image)

    def samples(self, references, frames):
        pictures = [family.tensor_of(base.PICTURES / f"{i}.png") for i in range(4)]
        with torch.no_grad():
            return [(base.latents(self.pipe, x), [self.latents(n) for n in names], self.text(caption, names, frames))
                    for x, names, caption in zip(pictures, references, CAPTIONS)]

    @torch.no_grad()
    def drawn(self, noise, names, frames=True, **options):
        pipe, model = self.pipe, self.pipe.transformer
        references, out, original = [self.latents(n) for n in names], [], model.forward
        packed = [base.pack(pipe, r) for r in references]
        size, grids = tuple(s // 2 for s in noise.shape[2:]), [(r.shape[2] // 2, r.shape[3] // 2) for r in references]
        model.forward = lambda hidden_states, encoder_hidden_states, timestep, **_: (forward(model, hidden_states, packed, encoder_hidden_states, None, timestep, size, grids, frames),)
        for prompt, latents in zip(base.PROMPTS, noise):
            texts = {"prompt_embeds": self.text(prompt, names, frames)}
            if "guidance_scale" in options:
                texts["negative_prompt_embeds"] = self.text("cat", names, frames)
            texts |= {f"{n}_mask": torch.ones(x.shape[:2], dtype=torch.bool) for n, x in texts.items()}
            image = pipe(latents=base.pack(pipe, latents[None]), height=noise.shape[2] * 8, width=noise.shape[3] * 8, num_inference_steps=4, output_type="latent",
                         **({"guidance_scale": 0.0} | options), **texts).images
            out.append(base.unpack(image, *noise.shape[2:]))
        model.forward = original
        return torch.cat(out)


def write_alone(model):
    torch.manual_seed(13)
    captions, noisy, sigma = [torch.randn(5, 3, 16), torch.randn(9, 3, 16)], torch.randn(2, 16, 6, 10), torch.tensor([0.83, 0.21])
    references = [torch.randn(2, 16, 4, 6), torch.randn(2, 16, 8, 4)]
    text = torch.stack([F.pad(c, (0, 0, 0, 0, 0, 9 - len(c))) for c in captions])
    mask = torch.stack([torch.arange(9) < len(c) for c in captions])
    inputs = {"noisy": noisy, "sigma": sigma, "caption.0": captions[0], "caption.1": captions[1], "reference.0": references[0], "reference.1": references[1]}
    family.save_alone(model, inputs, predict(model, noisy, sigma, references, text, mask), OUT / "alone.safetensors")


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir()
    write_pictures()
    pipe = base.pipe = base.parts()
    pipe.set_progress_bar_config(disable=True)
    edit = Edit(pipe, write_tokenizer())
    model = pipe.transformer
    write_alone(model)
    replay = training_loop.write_replay(OUT / "replay.safetensors", base.LATENTS, 4, base.REPLAYED)
    noise, both = torch.randn(2, *base.LATENTS), ["a.png", "b.png"]
    expected = {"noise": noise, "latents.one": edit.drawn(noise, ["a.png"]), "latents.two": edit.drawn(noise, both), "latents.two_cfg": edit.drawn(noise, both, guidance_scale=1.5),
                "latents.scaled": edit.drawn(noise, ["c.png"]), "latents.overlaid": edit.drawn(noise, ["a.png"], frames=False),
                "frames.text": edit.text("red apple", both), "overlaid.text": edit.text("red apple", ["a.png"], frames=False)}
    frames, overlaid = edit.samples(REFERENCES, True), edit.samples([["a.png"]] * 4, False)
    original = {n: p.detach().clone() for n, p in model.named_parameters()}

    def train(name, samples, parameters, is_framed):
        expected[f"{name}.loss"], expected[f"{name}.grad_norm"], _ = training_loop.train_velocity(
            lambda noisy, sigma, references, text: predict(model, noisy, sigma, references, text, frames=is_framed), samples, replay, parameters)

    train("full", frames, list(model.named_parameters()), True)
    model.load_state_dict(original)
    adapter = training_loop.add_adapter(model, base.TARGETS)
    for name, samples in (("frames", frames), ("overlaid", overlaid)):
        training_loop.load_adapter(adapter, base.OUT / "lora.safetensors")
        train(name, samples, adapter, name == "frames")
    save_file({k: v.contiguous() for k, v in expected.items()}, OUT / "expected.safetensors")
    for file in OUT.rglob("*"):
        file.chmod(0o755 if file.is_dir() else 0o644)
    print({k: v for k, v in expected.items() if k.endswith("loss")}, {k: v.std().item() for k, v in expected.items() if k.startswith("latents")},
          [s[2].shape for s in frames], expected["overlaid.text"].shape)


if __name__ == "__main__":
    main()
