#!/usr/bin/env python3
"""Writes a model folder (diffusers layout) of a family whose transformer is small and random but shaped as the published one:
family_folder.py FAMILY FOLDER.

Width 512 with heads of 128, as the small FLUX of flux_folder.py. Encoders, autoencoder and tokenizer are those of the golden files. A family
of clips has some beside them, in clips/, one of layers pictures with theirs, in layers/. Needs torch, diffusers and Pillow.
"""
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Family:
    golden: str  # folder in tests/golden
    transformer: str  # class in diffusers
    config: dict
    targets: str  # attention and feed-forward layers, as one regular expression for a whole path: peft and burnish read it alike
    frames: int = 1  # of the clips that it trains on
    layers: int = 0  # of the pictures that it takes apart, the whole counted


HEADS = dict(attention_head_dim=128, num_attention_heads=4)
JOINT = "to_q|to_k|to_v|to_out\\.0|add_q_proj|add_k_proj|add_v_proj|to_add_out"
FAMILIES = {
    "z-image": Family("zimage_pipeline", "ZImageTransformer2DModel",
                      dict(in_channels=16, dim=512, n_layers=5, n_refiner_layers=1, n_heads=4, n_kv_heads=4, cap_feat_dim=16, axes_dims=[32, 48, 48]),
                      r"(layers|noise_refiner|context_refiner)\.\d+\.(attention\.(to_q|to_k|to_v|to_out\.0)|feed_forward\.w[123])"),
    "qwen-image": Family("qwen_image_pipeline", "QwenImageTransformer2DModel",
                         HEADS | dict(in_channels=64, out_channels=16, num_layers=4, joint_attention_dim=16, axes_dims_rope=(16, 56, 56)),
                         rf"transformer_blocks\.\d+\.(attn\.({JOINT})|(img|txt)_mlp\.net\.(0\.proj|2))"),
    "qwen-image-layered": Family("qwen_layered_pipeline", "QwenImageTransformer2DModel",
                                 HEADS | dict(in_channels=64, out_channels=16, num_layers=4, joint_attention_dim=16, axes_dims_rope=(16, 56, 56), use_additional_t_cond=True, use_layer3d_rope=True),
                                 rf"transformer_blocks\.\d+\.(attn\.({JOINT})|(img|txt)_mlp\.net\.(0\.proj|2))", layers=3),
    "krea2": Family("krea2_pipeline", "Krea2Transformer2DModel",
                    HEADS | dict(in_channels=64, num_key_value_heads=2, num_layers=6, intermediate_size=1536, timestep_embed_dim=256, text_hidden_dim=16, num_text_layers=3, text_num_attention_heads=2,
                                 text_num_key_value_heads=2, text_intermediate_size=24, num_layerwise_text_blocks=1, num_refiner_text_blocks=1, axes_dims_rope=(32, 48, 48)),
                    r"transformer_blocks\.\d+\.(attn\.(to_q|to_k|to_v|to_gate|to_out\.0)|ff\.(gate|up|down))"),
    "qwen-image-2.1": Family("qwen_image_21_pipeline", "QwenImage21Transformer2DModel",
                             HEADS | dict(in_channels=16, out_channels=16, num_layers=6, context_in_dim=16, axes_dims_rope=(16, 56, 56)),
                             r"transformer_blocks\.\d+\.(attn\.(to_q|to_k|to_v|to_out\.0)|img_mlp\.(proj|gate_layer|out))"),
    "flux2": Family("flux2_pipeline", "Flux2Transformer2DModel",
                    HEADS | dict(in_channels=32, num_layers=2, num_single_layers=4, joint_attention_dim=48, axes_dims_rope=(32, 32, 32, 32), guidance_embeds=False),
                    rf"transformer_blocks\.\d+\.(attn\.({JOINT})|ff(_context)?\.linear_(in|out))|single_transformer_blocks\.\d+\.attn\.(to_qkv_mlp_proj|to_out)"),
    "flux2-dev": Family("flux2_dev_pipeline", "Flux2Transformer2DModel",
                        HEADS | dict(in_channels=32, num_layers=2, num_single_layers=4, joint_attention_dim=24, axes_dims_rope=(32, 32, 32, 32), guidance_embeds=True),
                        rf"transformer_blocks\.\d+\.(attn\.({JOINT})|ff(_context)?\.linear_(in|out))|single_transformer_blocks\.\d+\.attn\.(to_qkv_mlp_proj|to_out)"),
    "flux3": Family("flux3_pipeline", "Flux3Transformer2DModel",
                    HEADS | dict(in_channels=32, cond_in_channels=32, num_layers=1, num_single_layers=4, joint_attention_dim=128, axes_dims_rope=(32, 32, 32, 32)),
                    r"(mode_blocks\.image|txt_mode_blocks|single_transformer_blocks)\.\d+\.(attn\.(to_q|to_k|to_v|to_out\.0)|ff\.linear_(in|out))"),
    "ernie-image": Family("ernie_image_pipeline", "ErnieImageTransformer2DModel",
                          dict(hidden_size=512, num_attention_heads=4, num_layers=6, ffn_hidden_size=1536, in_channels=32, out_channels=32, text_in_dim=24, rope_axes_dim=(32, 48, 48)),
                          r"layers\.\d+\.(self_attention\.(to_q|to_k|to_v|to_out\.0)|mlp\.(gate_proj|up_proj|linear_fc2))"),
    "ideogram4": Family("ideogram4_pipeline", "Ideogram4Transformer2DModel",
                        HEADS | dict(in_channels=32, num_layers=6, intermediate_size=1536, adaln_dim=64, llm_features_dim=104, mrope_section=(12, 10, 10)),
                        r"layers\.\d+\.(attention\.(to_q|to_k|to_v|to_out\.0)|feed_forward\.w[123])"),
    "chroma": Family("chroma_pipeline", "ChromaTransformer2DModel",
                     HEADS | dict(in_channels=64, num_layers=2, num_single_layers=4, joint_attention_dim=16, axes_dims_rope=(16, 56, 56),
                                  approximator_num_channels=64, approximator_hidden_dim=512, approximator_layers=3),
                     rf"transformer_blocks\.\d+\.(attn\.({JOINT})|ff(_context)?\.net\.(0\.proj|2))|single_transformer_blocks\.\d+\.(attn\.(to_q|to_k|to_v)|proj_mlp|proj_out)"),
    "anima": Family("anima_pipeline", "CosmosTransformer3DModel",
                    HEADS | dict(in_channels=16, out_channels=16, num_layers=4, text_embed_dim=16, adaln_lora_dim=64, rope_scale=(1, 4, 4), extra_pos_embed_type=None),
                    r"transformer_blocks\.\d+\.(attn[12]\.(to_q|to_k|to_v|to_out\.0)|ff\.net\.(0\.proj|2))"),
    "wan": Family("wan_pipeline", "WanTransformer3DModel",
                  HEADS | dict(in_channels=16, out_channels=16, text_dim=16, freq_dim=256, ffn_dim=2048, num_layers=4, rope_max_seq_len=1024),
                  r"blocks\.\d+\.(attn[12]\.(to_q|to_k|to_v|to_out\.0)|ffn\.net\.(0\.proj|2))", frames=17),
}
CLIP_SIDE = 128
CAPTION = "a red apple on a tree of the north, and a cat " * 20  # longer than any limit


def make_clips(folder, frames):
    """Eight clips of a picture of few colours that moves by a column a frame, at 16 frames a second."""
    import random

    from PIL import Image, ImageChops
    folder.mkdir()
    draw = random.Random(0)
    rows = ["video,prompt"]
    for i in range(8):
        small = Image.new("RGB", (16, 16))
        small.putdata([tuple(draw.randrange(256) for _ in range(3)) for _ in range(256)])
        picture = small.resize((CLIP_SIDE, CLIP_SIDE), Image.NEAREST)
        moved = [ImageChops.offset(picture, k, 0) for k in range(frames)]
        moved[0].save(folder / f"{i}.webp", save_all=True, append_images=moved[1:], duration=62, lossless=True)
        rows.append(f'{i}.webp,"{CAPTION}"')
    (folder / "metadata.csv").write_text("\n".join(rows) + "\n")


def make_layers(folder, count):
    """Eight pictures, each with the layers that it is made of, which are boxes of one colour on nothing."""
    import json
    import random

    from PIL import Image
    folder.mkdir()
    draw = random.Random(0)
    rows = []
    for i in range(8):
        size, behind = (CLIP_SIDE, CLIP_SIDE), Image.new("RGBA", (CLIP_SIDE, CLIP_SIDE), "white")
        names, layers = [f"{i}.png"], []
        for k in range(1, count):
            layer = Image.new("RGBA", size)
            layer.paste(tuple(draw.randrange(256) for _ in range(3)) + (255,), (16 * k, 8 * i, 16 * k + 48, 8 * i + 48))
            layers.append(layer)
            names.append(f"{i}_{k}.png")
            behind = Image.alpha_composite(behind, layer)
        for name, picture in zip(names, [behind, *layers]):
            picture.save(folder / name)
        rows.append({"image": names, "prompt": CAPTION})
    (folder / "metadata.json").write_text(json.dumps(rows))


def make(family, folder):
    import diffusers
    import torch
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ROOT / "tests/golden" / family.golden / "model", folder)
    torch.manual_seed(0)
    model = getattr(diffusers, family.transformer)(**family.config)
    for parameter in model.parameters():
        if not parameter.isfinite().all():  # left as it was allocated: padding tokens
            torch.nn.init.normal_(parameter, std=0.02)
    shutil.rmtree(folder / "transformer")
    model.to(torch.bfloat16).save_pretrained(folder / "transformer")
    if family.frames > 1:
        make_clips(folder / "clips", family.frames)
    if family.layers > 0:
        make_layers(folder / "layers", family.layers)
    (folder / "done").touch()


if __name__ == "__main__":
    make(FAMILIES[sys.argv[1]], Path(sys.argv[2]))
