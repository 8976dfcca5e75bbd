#!/usr/bin/env python3
"""Pictures within texts of Qwen3-VL, from transformers' Qwen3VLModel and its processor on a small random model, in qwen3_vl.safetensors:

w.<parameter>         of the model, in bf16; the metadata has its config.json ("config") and the processor's ("processor")
{i}.image             pictures [H, W, 3]; {i}.levels: what PIL's processor scales them to, [N, 3 · 4 · 4] patch by patch; {i}.pixels: the digest of
                      the normalised patches; {i}.seen: the tower's tokens; {i}.added.{k}: what is added behind the text's layer k + 1
one.ids, two.ids      a text with the first of these pictures, and with the first two; {one,two}.state.{k}: hidden_states[k]
"""
import json

import numpy as np
import torch
from PIL import Image
from safetensors.torch import save_file
from transformers import Qwen3VLConfig, Qwen3VLModel
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

from digest import digest
from make_encoders import HERE, randomise, rounded

TEXT = dict(vocab_size=40, hidden_size=16, intermediate_size=24, num_hidden_layers=4, num_attention_heads=2, num_key_value_heads=1, head_dim=16,
            rope_parameters={"rope_type": "default", "rope_theta": 5e6, "mrope_section": [4, 2, 2], "mrope_interleaved": True})
VISION = dict(depth=4, hidden_size=8, intermediate_size=24, num_heads=2, patch_size=4, spatial_merge_size=2, out_hidden_size=16, num_position_embeddings=36,
              deepstack_visual_indexes=[0, 1, 3])
PICTURE = 39


@torch.no_grad()
def main():
    torch.manual_seed(4)
    rng = np.random.default_rng(4)
    config = Qwen3VLConfig(text_config=TEXT, vision_config=VISION, image_token_id=PICTURE, video_token_id=38, tie_word_embeddings=True)
    model = rounded(randomise(Qwen3VLModel(config), 1.5))
    process = Qwen2VLImageProcessorPil(patch_size=4, size={"shortest_edge": 24 * 24, "longest_edge": 48 * 48}, image_mean=[0.5] * 3, image_std=[0.5, 0.5, 0.4])
    mean, std = [torch.tensor(v)[:, None, None] for v in (process.image_mean, process.image_std)]
    tensors, pictures = {f"w.{k}": v.to(torch.bfloat16) for k, v in model.state_dict().items()}, []
    for i, (height, width, block) in enumerate([(30, 44, 5), (61, 42, 1), (12, 30, 3)]):
        image = np.kron(rng.integers(0, 256, (-(-height // block), -(-width // block), 3), dtype=np.uint8), np.ones((block, block, 1), np.uint8))[:height, :width]
        out = process(Image.fromarray(image), return_tensors="pt")
        levels = ((out["pixel_values"].reshape(-1, 3, 2, 4, 4)[:, :, 0] * std + mean) * 255).round().to(torch.uint8).flatten(1)
        seen = model.visual(out["pixel_values"], grid_thw=out["image_grid_thw"])
        tensors |= {f"{i}.image": torch.from_numpy(image.copy()), f"{i}.levels": levels, f"{i}.pixels": digest(out["pixel_values"]), f"{i}.seen": seen.pooler_output}
        tensors |= {f"{i}.added.{k}": feature for k, feature in enumerate(seen.deepstack_features)}
        pictures.append((out["pixel_values"], out["image_grid_thw"]))
    for name, count in (("one", 1), ("two", 2)):
        ids = [5, 6, 7]
        for i in range(count):
            ids += [PICTURE] * (int(pictures[i][1].prod()) // 4) + [8 + i, 9]
        ids = torch.tensor([ids + [11, 12, 13]])
        out = model(input_ids=ids, pixel_values=torch.cat([p for p, _ in pictures[:count]]), image_grid_thw=torch.cat([g for _, g in pictures[:count]]),
                    mm_token_type_ids=(ids == PICTURE).int(), output_hidden_states=True)
        tensors |= {f"{name}.ids": ids} | {f"{name}.state.{k}": s for k, s in enumerate(out.hidden_states)}
    metadata = {"config": json.dumps(config.to_dict()), "processor": json.dumps(process.to_dict(), default=str)}
    save_file({k: v.contiguous() for k, v in tensors.items()}, HERE / "qwen3_vl.safetensors", metadata=metadata)
    print([(g.tolist(), p.shape) for p, g in pictures], tensors["two.ids"].shape, process.to_dict())


if __name__ == "__main__":
    main()
