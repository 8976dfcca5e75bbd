#!/usr/bin/env python3
"""Samples in the layout of the caches that DiffSynth-Studio's `--task sft:data_process` writes for other families than FLUX.1, with made-up
numbers -> diffsynth_caches/: FAMILY.pth, a tuple of three dictionaries written by torch.save, and FAMILY.safetensors, what is to be found in
it by our names; a list is NAME.0, NAME.1 and so on. Names and forms are those of its pipelines/*.py, at the sizes of the small models of
pipeline/, *_pipeline/.
"""
import pathlib
import shutil

import torch
from safetensors.torch import save_file

OUT = pathlib.Path(__file__).parent / "diffsynth_caches"


def places(pictures, width, step):
    """Of the tokens of pictures of (rows, columns): which picture, `step` of them apart, row, column, and zeros."""
    rows = [[step * (i + 1) if step else i, r, c] + [0] * (width - 3) for i, (h, w) in enumerate(pictures) for r in range(h) for c in range(w)]
    return torch.tensor([rows])


def tokens(latents):
    """[1, C, h, w] -> [1, h w, C]."""
    return latents.flatten(2).transpose(1, 2).contiguous()


def patches(latents):
    """[1, C, 2 h, 2 w] -> [1, h w, 4 C]."""
    _, c, h, w = latents.shape
    return latents.reshape(1, c, h // 2, 2, w // 2, 2).permute(0, 2, 4, 1, 3, 5).reshape(1, h * w // 4, 4 * c).contiguous()


def save(family, shared, positive, expected, height=48, width=64):
    noise = torch.randn(1, 3)
    shared = {"height": height, "width": width, "cfg_scale": 1, "seed": None, "noise": noise, "latents": noise} | shared
    positive = {"prompt": "red apple"} | positive
    torch.save((shared, positive, positive | {"prompt": ""}), OUT / f"{family}.pth")
    save_file({name: tensor.contiguous().clone() for name, tensor in expected.items()}, OUT / f"{family}.safetensors")


def zimage():
    latents, text = torch.randn(1, 16, 6, 8), torch.randn(7, 16)
    save("zimage", {"input_latents": latents}, {"prompt_embeds": [text]}, {"latents": latents, "text_embedding": text[None], "text_mask": torch.ones(1, 7)})


def flux2():
    latents, text = torch.randn(1, 32, 3, 4), torch.randn(1, 9, 48)
    references = [torch.randn(1, 32, 2, 3), torch.randn(1, 32, 4, 2)]
    shared = {"input_latents": tokens(latents), "image_ids": places([(3, 4)], 4, 0)}
    expected = {"latents": latents, "text_embedding": text}
    save("flux2", shared, {"prompt_embeds": text, "text_ids": torch.zeros(1, 9, 4)}, expected)
    shared |= {"edit_latents": torch.cat([tokens(x) for x in references], 1), "edit_image_ids": places([(2, 3), (4, 2)], 4, 10)}
    expected |= {f"latents_of_references.{i}": x[0] for i, x in enumerate(references)}
    save("flux2_references", shared, {"prompt_embeds": text}, expected)


def kontext():
    latents, text, pooled = torch.randn(1, 16, 6, 8), torch.randn(1, 12, 16), torch.randn(1, 12)
    references = [torch.randn(1, 16, 6, 4), torch.randn(1, 16, 4, 10)]
    ids = torch.cat([places([(x.shape[2] // 2, x.shape[3] // 2)], 3, 1) for x in references], 1).float()
    shared = {"input_latents": latents, "kontext_latents": torch.cat([patches(x) for x in references], 1), "kontext_image_ids": ids}
    save("kontext", shared, {"prompt_emb": text, "pooled_prompt_emb": pooled},
         {"latents": latents, "text_embedding": text, "pooled_embedding": pooled} | {f"latents_of_references.{i}": x[0] for i, x in enumerate(references)})


def qwen_edit():
    latents, text, mask = torch.randn(1, 16, 6, 8), torch.randn(1, 9, 16), torch.ones(1, 9, dtype=torch.int64)
    references = [torch.randn(1, 16, 6, 6), torch.randn(1, 16, 4, 8)]
    positive, expected = {"prompt_emb": text, "prompt_emb_mask": mask}, {"latents": latents, "text_embedding": text, "text_mask": mask}
    save("qwen_edit", {"input_latents": latents, "edit_latents": references}, positive,
         expected | {f"latents_of_references.{i}": x[0] for i, x in enumerate(references)})
    save("qwen_edit_one", {"input_latents": latents, "edit_latents": references[0]}, positive, expected | {"latents_of_references.0": references[0][0]})


def stable_diffusion():
    latents, text = torch.randn(1, 4, 6, 8), torch.randn(1, 77, 16)
    save("sd15", {"input_latents": latents}, {"prompt_embeds": text}, {"latents": latents, "text_embedding": text})
    first, second, pooled = torch.randn(1, 77, 16), torch.randn(1, 77, 24), torch.randn(1, 24)
    ids = torch.tensor([[48.0, 64, 0, 0, 48, 64]])
    save("sdxl", {"input_latents": latents, "add_time_ids": ids}, {"prompt_embeds": torch.cat([first, second], -1), "pooled_prompt_embeds": pooled},
         {"latents": latents, "text_embedding": first, "text_embedding_2": second, "pooled_embedding": pooled, "time_ids": ids})


def wan():
    """Of clips: texts are filled up to 32 rows with zeros, of which our form has one, with their count."""
    text = torch.randn(1, 7, 16, dtype=torch.bfloat16)
    context = torch.cat([text, torch.zeros(1, 25, 16, dtype=torch.bfloat16)], 1)
    counts = torch.ones(1, 8)
    counts[0, 7] = 25
    texts = {"text_embedding": context[:, :8], "text_counts": counts}

    def clip(name, latents, values, expected):
        shared = {"input_latents": latents, "num_frames": 5} | values
        save(name, shared, {"context": context}, {"latents": latents} | expected | texts, 32, 48)

    latents, control, beside, states = (torch.randn(1, *shape) for shape in ((16, 2, 4, 6), (16, 2, 4, 6), (20, 2, 4, 6), (5, 16)))
    clip("wan", latents, {}, {})
    clip("wan_image", latents, {"y": beside, "clip_feature": states}, {"beside_latents": beside, "image_states": states})
    clip("wan_control", latents, {"y": torch.cat([control, beside], 1), "clip_feature": states},
         {"control_latents": control, "beside_latents": beside, "image_states": states})
    vace = torch.randn(1, 96, 2, 4, 6)
    clip("wan_vace", latents, {"vace_context": vace, "vace_scale": 1.0}, {"vace_context": vace})
    latents, first = torch.randn(1, 6, 2, 2, 3), torch.randn(1, 6, 1, 2, 3)
    clip("wan_held", latents, {"first_frame_latents": first, "fuse_vae_embedding_in_latents": True}, {"first_latents": first})


def flux3():
    """Of one sample without a dimension for it; beside what is read lies an object of a class of its own, of which each mode has the values."""
    import dataclasses, sys, types
    module = types.ModuleType("diffsynth.models.flux3_dit")
    module.Packed = dataclasses.make_dataclass("Packed", ["data", "ids", "timesteps", "mode_indices"])
    module.Packed.__module__ = module.__name__
    sys.modules |= {"diffsynth": types.ModuleType("diffsynth"), "diffsynth.models": types.ModuleType("diffsynth.models"), module.__name__: module}

    def half_steps(pictures, first):
        ids = places(pictures, 4, 0)[0].float()
        return torch.cat([0 * ids[:, :1], ids[:, 1:3] / 2, first - ids[:, :1]], 1)

    latents, text = torch.randn(1, 32, 3, 4), torch.randn(80, 128).to(torch.bfloat16)
    references = [torch.randn(1, 32, 2, 3), torch.randn(1, 32, 4, 2)]
    ids = torch.zeros(80, 4)
    ids[:, 3] = torch.arange(80)
    shared = {"input_latents": tokens(latents)[0], "image_ids": half_steps([(3, 4)], 0), "reference_tokens": torch.cat([tokens(x)[0] for x in references]),
              "reference_ids": half_steps([(2, 3), (4, 2)], -1)}
    packed = module.Packed({"text": text, "image": shared["input_latents"]}, {"text": ids}, {"text": torch.zeros(80)}, {"text": [(0, 80)]})
    expected = {"latents": latents, "text_embedding": text[None], "text_mask": torch.ones(1, 80)} | {f"latents_of_references.{i}": x[0] for i, x in enumerate(references)}
    save("flux3", shared, {"prompt_tokens": text, "prompt_ids": ids, "packed": packed}, expected)


def anima():
    """Its states are filled up, and all of them are read."""
    latents, states, ids = torch.randn(1, 16, 6, 8), torch.randn(1, 12, 24), torch.tensor([[5, 9, 1]])
    save("anima", {"input_latents": latents}, {"prompt_emb": states, "t5xxl_ids": ids},
         {"latents": latents, "text_embedding": states, "text_mask": torch.ones(1, 12), "t5_ids": ids, "t5_mask": torch.ones(1, 3)})


def ernie_image():
    """What it calls the mask of a text are the numbers of texts' tokens."""
    latents, text = torch.randn(1, 32, 3, 4), torch.randn(1, 7, 24)
    save("ernie_image", {"input_latents": latents}, {"prompt_embeds": text, "prompt_embeds_mask": torch.tensor([7])},
         {"latents": latents, "text_embedding": text, "text_mask": torch.ones(1, 7)})


def moss_image():
    latents, text = torch.randn(1, 32, 3, 4), torch.randn(1, 7, 24)
    save("moss_image", {"input_latents": latents}, {"prompt_embeds": text, "prompt_embeds_mask": torch.ones(1, 7, dtype=torch.bool)},
         {"latents": latents, "text_embedding": text, "text_mask": torch.ones(1, 7)})


def ideogram4():
    """The text has zeros behind it where the picture's tokens are, whose places begin at 65536."""
    latents, text = torch.randn(1, 32, 3, 4), torch.randn(1, 7, 104)
    ids = torch.cat([torch.arange(7)[None, :, None].expand(1, 7, 3), places([(3, 4)], 3, 0) + 65536], 1)
    positive = {"llm_features": torch.cat([text, torch.zeros(1, 12, 104)], 1), "position_ids": ids, "max_text_tokens": 7}
    save("ideogram4", {"input_latents": tokens(latents)}, positive, {"latents": latents, "text_embedding": text, "text_mask": torch.ones(1, 7)})


def fibo2():
    """Latents are in no patches, and each reader of a text has the states of its three layers side by side: two blocks here, and the gist before them."""
    latents, states, layers = torch.randn(1, 8, 6, 8), torch.randn(1, 7, 9, 8), (5, 7, 9, 16, 18, 20, 27, 29, 31)
    read = [torch.cat([states[:, :, layers.index(i)] for i in of_one], -1) for of_one in ((9, 20, 31), (5, 16, 27), (7, 18, 29))]
    references = [torch.randn(1, 8, 4, 6), torch.randn(1, 8, 6, 4)]
    patched = lambda x: torch.nn.functional.pixel_unshuffle(x, 2)
    save("fibo2", {"input_latents": latents, "context_latents": references}, {"prompt_embeds": torch.stack(read, 1), "prompt_embeds_mask": None},
         {"latents": patched(latents), "text_embedding": states, "text_mask": torch.ones(1, 7)} | {f"latents_of_references.{i}": patched(x)[0] for i, x in enumerate(references)})


def qwen_layered():
    """Layers are the first dimension."""
    latents, whole, text, mask = torch.randn(3, 16, 6, 8), torch.randn(1, 16, 6, 8), torch.randn(1, 9, 16), torch.ones(1, 9, dtype=torch.int64)
    save("qwen_layered", {"input_latents": latents, "layer_input_latents": whole, "layer_num": 2}, {"prompt_emb": text, "prompt_emb_mask": mask},
         {"latents": latents.transpose(0, 1)[None], "whole_latents": whole, "text_embedding": text, "text_mask": mask})


def qwen_image_21():
    """A text has states at the places of its pictures too, which nobody reads."""
    latents, text = torch.randn(1, 16, 2, 4), torch.randn(1, 14, 16)
    plain = {"prompt_embeds": text, "prompt_embeds_mask": None, "edit_image_pad_mask": torch.zeros(1, 14, dtype=torch.bool)}
    save("qwen_image_21", {"input_latents": latents}, plain, {"latents": latents, "text_embedding": text, "text_mask": torch.ones(1, 14)})
    references, pictured = [torch.randn(1, 16, 2, 4), torch.randn(1, 16, 4, 2)], torch.zeros(1, 14, dtype=torch.bool)
    pictured[:, 3:5] = pictured[:, 7:9] = True
    expected = {"latents": latents, "text_embedding": text[:, 9:], "text_mask": torch.ones(1, 5), "text_between.0": text[0, :3], "text_between.1": text[0, 5:7]}
    save("qwen_image_21_edit", {"input_latents": latents, "edit_latents": references}, plain | {"edit_image_pad_mask": pictured},
         expected | {f"latents_of_references.{i}": x[0] for i, x in enumerate(references)})


def boogu():
    """The mask has whole numbers, and reference pictures are a list in a list."""
    latents, text = torch.randn(1, 16, 6, 8), torch.randn(1, 9, 16)
    positive = {"instruction_hidden_states": text, "instruction_attention_mask": torch.ones(1, 9, dtype=torch.int64)}
    expected = {"latents": latents, "text_embedding": text, "text_mask": torch.ones(1, 9)}
    save("boogu", {"input_latents": latents, "ref_image_hidden_states": None}, positive, expected)
    reference = torch.randn(16, 4, 6)
    save("boogu_edit", {"input_latents": latents, "ref_image_hidden_states": [[reference]]}, positive, expected | {"latents_of_references.0": reference})


if __name__ == "__main__":
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir()
    for write in (zimage, flux2, kontext, qwen_edit, stable_diffusion, wan, flux3, anima, ernie_image, moss_image, ideogram4, fibo2, qwen_layered, qwen_image_21, boogu):
        torch.manual_seed(17)  # so that no family's numbers depend on those before it
        write()
    for file in OUT.iterdir():
        file.chmod(0o644)
