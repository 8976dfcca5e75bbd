#!/usr/bin/env python3
"""What transformers' generate writes about pictures, in captions/:

qwen3_vl/             a small random Qwen3-VL as a hub's checkout has it: an untied head, the tokenizer of tokenizers/qwen_json, its processor. The
                      Qwen2.5-VL is that of qwen_edit_pipeline/model, whose head is tied
pictures/             pictures of unequal sizes; clip/: four frames
captions.json         for each model cases of pictures with a prompt, a penalty and a number of new tokens: the ids and what is decoded of them. "together":
                      all pictures with prompts of unequal length in a batch
"""
import json
import shutil

import numpy as np
import torch
from PIL import Image
from transformers import AddedToken, PreTrainedTokenizerFast, Qwen2_5_VLForConditionalGeneration, Qwen3VLConfig, Qwen3VLForConditionalGeneration
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

from make_encoders import HERE, randomise, rounded

OUT = HERE / "captions"
SYSTEM = "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n"
NEW = 20
PROMPT = "Describe this image."
TEXT = dict(hidden_size=16, intermediate_size=24, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2, head_dim=16,
            rope_parameters={"rope_type": "default", "rope_theta": 5e6, "mrope_section": [4, 2, 2], "mrope_interleaved": True})
VISION = dict(depth=4, hidden_size=16, intermediate_size=24, num_heads=2, patch_size=4, spatial_merge_size=2, out_hidden_size=16, num_position_embeddings=36,
              deepstack_visual_indexes=[0, 1, 3])


def write_pictures():
    rng = np.random.default_rng(11)
    (OUT / "pictures").mkdir(parents=True)
    (OUT / "clip").mkdir()
    for name, (width, height) in (("pictures/a.png", (60, 44)), ("pictures/b.png", (40, 84)), ("pictures/c.png", (60, 44))):
        Image.fromarray(rng.integers(0, 256, (5, 6, 3), dtype=np.uint8)).resize((width, height), Image.BICUBIC).save(OUT / name, optimize=True)
    for i in range(4):  # of which no side is scaled by either model
        Image.fromarray(rng.integers(0, 256, (4, 4, 3), dtype=np.uint8)).resize((56, 112), Image.NEAREST).save(OUT / f"clip/{i}.png", optimize=True)


def qwen3(folder):
    torch.manual_seed(31)
    tokens = PreTrainedTokenizerFast(tokenizer_file=str(HERE / "tokenizers/qwen_json/tokenizer.json"), pad_token="<|endoftext|>", padding_side="right")
    tokens.add_tokens([AddedToken(t, special=True) for t in ("<|vision_end|>", "<|image_pad|>", "<|video_pad|>")])
    id_of = tokens.convert_tokens_to_ids
    config = Qwen3VLConfig(text_config=TEXT | {"vocab_size": len(tokens) + 1}, vision_config=VISION, tie_word_embeddings=False, image_token_id=id_of("<|image_pad|>"),
                           video_token_id=id_of("<|video_pad|>"), vision_start_token_id=id_of("<|vision_start|>"), vision_end_token_id=id_of("<|vision_end|>"))
    model = rounded(randomise(Qwen3VLForConditionalGeneration(config), 1.5))
    process = Qwen2VLImageProcessorPil(patch_size=4, size={"shortest_edge": 24 * 24, "longest_edge": 48 * 48}, image_mean=[0.5] * 3, image_std=[0.5] * 3)
    model.to(torch.bfloat16).save_pretrained(folder)
    tokens.save_pretrained(folder)
    process.save_pretrained(folder)
    # Opened anew, since the frequencies of positions were rounded to bf16 as well.
    return Qwen3VLForConditionalGeneration.from_pretrained(folder, dtype=torch.float32).eval(), tokens, process


def qwen25(folder):
    tokens = PreTrainedTokenizerFast.from_pretrained(folder / "tokenizer")
    model = Qwen2_5_VLForConditionalGeneration.from_pretrained(folder / "text_encoder", dtype=torch.float32).eval()
    return model, tokens, Qwen2VLImageProcessorPil.from_pretrained(folder / "processor")


def clip_patches(process):
    """The layout of Qwen2VLVideoProcessor.patchify, of frames that need no scaling, two by two."""
    p, m = process.patch_size, process.merge_size
    mean, std = np.array(process.image_mean), np.array(process.image_std)
    frames = np.stack([np.array(Image.open(OUT / f"clip/{i}.png").convert("RGB")) for i in range(4)])
    x = torch.from_numpy((frames / 255 - mean) / std).float().permute(0, 3, 1, 2)
    rows, columns = x.shape[2] // p, x.shape[3] // p
    x = x.view(2, 2, 3, rows // m, m, p, columns // m, m, p).permute(0, 3, 6, 4, 7, 2, 1, 5, 8)
    return x.reshape(2 * rows * columns, -1), torch.tensor([[2, rows, columns]])


class Writer:
    def __init__(self, name, model, tokens, process, before, is_third):
        self.model, self.tokens, self.process, self.before, self.is_third = model, tokens, process, before, is_third
        self.image, self.video = (tokens.convert_tokens_to_ids(t) for t in ("<|image_pad|>", "<|video_pad|>"))
        self.cases = []
        self.name = name

    def ids_of(self, shown, prompt):
        text = f"{self.before}<|im_start|>user\n{shown}{prompt}<|im_end|>\n<|im_start|>assistant\n"
        return self.tokens(text).input_ids

    def picture(self, name):
        out = self.process(Image.open(OUT / name).convert("RGB"), return_tensors="pt")
        return out["pixel_values"], out["image_grid_thw"]

    def shown(self, grid):
        return "<|vision_start|>" + "<|image_pad|>" * (int(grid.prod()) // 4) + "<|vision_end|>"

    @torch.no_grad()
    def generate(self, rows, penalty, new, **seen):
        longest = max(len(r) for r in rows)
        pad = self.tokens.pad_token_id
        ids = torch.tensor([[pad] * (longest - len(r)) + r for r in rows])
        mask = torch.tensor([[0] * (longest - len(r)) + [1] * len(r) for r in rows])
        types = (ids == self.image).int() + 2 * (ids == self.video).int()
        end = self.tokens.convert_tokens_to_ids(["<|im_end|>", "<|endoftext|>"])
        out = self.model.generate(input_ids=ids, attention_mask=mask, mm_token_type_ids=types, max_new_tokens=new, do_sample=False, repetition_penalty=penalty,
                                  eos_token_id=end, pad_token_id=pad, output_scores=True, return_dict_in_generate=True, **seen)
        gaps = torch.stack([torch.diff(s.topk(2).values).abs() for s in out.scores]).min()
        written = []
        for row in out.sequences[:, longest:].tolist():
            stop = next((i for i, t in enumerate(row) if t in end), len(row))
            written.append(row[:stop])
        return written, float(gaps)

    def add(self, case, rows, penalty, new=NEW, **seen):
        ids, gap = self.generate(rows, penalty, new, **seen)
        texts = [self.tokens.decode(row, skip_special_tokens=True) for row in ids]
        print(self.name, case, "least gap", gap, ids, texts)
        self.cases.append(case | {"penalty": penalty, "max_new_tokens": new, "ids": ids, "texts": texts})

    def write(self):
        for penalty in (1.0, 1.05, 1.3):
            for name in ("a", "b"):
                pixels, grid = self.picture(f"pictures/{name}.png")
                self.add({"pictures": [f"pictures/{name}.png"], "prompt": PROMPT}, [self.ids_of(self.shown(grid[0]), PROMPT)], penalty, pixel_values=pixels, image_grid_thw=grid)
        names = [f"pictures/{n}.png" for n in "abc"]
        pixels, grids = zip(*[self.picture(n) for n in names])
        rows = [self.ids_of(self.shown(g[0]), PROMPT) for g in grids]
        self.add({"pictures": names, "prompt": PROMPT}, rows, 1.3, pixel_values=torch.cat(pixels), image_grid_thw=torch.cat(grids))
        values, grid = clip_patches(self.process)
        cells = int(grid[0, 1:].prod()) // 4
        if self.is_third:  # at two frames a second
            shown = "".join(f"<{t:.1f} seconds><|vision_start|>{'<|video_pad|>' * cells}<|vision_end|>" for t in (0.25, 1.25))
            more = {}
        else:
            shown, more = f"<|vision_start|>{'<|video_pad|>' * 2 * cells}<|vision_end|>", {"second_per_grid_ts": torch.tensor([1.0])}
        for penalty in (1.0, 1.3):
            self.add({"clip": "clip", "prompt": "Describe this video."}, [self.ids_of(shown, "Describe this video.")], penalty, pixel_values_videos=values, video_grid_thw=grid, **more)
        return self.cases


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir()
    write_pictures()
    models = {"qwen_edit_pipeline/model": ("qwen25", *qwen25(HERE / "qwen_edit_pipeline/model"), SYSTEM, False), "captions/qwen3_vl": ("qwen3", *qwen3(OUT / "qwen3_vl"), "", True)}
    cases = {folder: Writer(*parts).write() for folder, parts in models.items()}
    (OUT / "captions.json").write_text(json.dumps(cases) + "\n")
    for file in OUT.rglob("*"):
        file.chmod(0o755 if file.is_dir() else 0o644)


if __name__ == "__main__":
    main()
