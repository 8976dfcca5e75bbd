#!/usr/bin/env python3
"""What DiffSynth-Studio's units make of a clip of five frames for models of Wan that read more than a text, as its `--task sft:data_process`
saves it, in wan_caches/: NAME.pth, a tuple of three dictionaries written by torch.save, without the pictures and the noise that it saves too.

i2v, flf2v  the clip 0.webp of wan_clips/, cut to 32 x 64, with its first frame, and its last, for the models of make_wan_image.py
ti2v        with its first frame, for that of make_wan_frames.py
vace        video.webp of wan_vace/, 32 x 48, which also guides, with its mask and reference picture, for the model of make_wan_vace.py
control     the first clip with 1.webp as the clip that controls and the first frame of 2.webp as the reference picture, for a Fun model of
            Wan 2.2, of 52 channels and without CLIP
control_2_1 the same for a model of Wan 2.1, of 48 channels and with CLIP, and with the clip's first frame

Texts have 16 rows.
"""
import json
import shutil
from types import SimpleNamespace

import torch
from diffsynth.models.wan_video_image_encoder import VisionTransformer, WanImageEncoder
from diffsynth.pipelines.wan_video import WanVideoPipeline
from PIL import Image, ImageSequence
from safetensors.torch import load_file
from torchvision.transforms import Compose, Normalize

import family
from make_wan import Wan
from make_wan_clips import OUT as CLIPS
from make_wan_diffsynth import FRAMES_OF, HuggingfaceTokenizer, autoencoder, text_encoder

OUT, VACE, IMAGE = (family.HERE / name for name in ("wan_caches", "wan_vace", "wan_image"))
FRAMES, ROWS = 5, 16
MEAN, DEVIATION = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)


def frames(file, height):
    """The first frames of an animation, cut to a height."""
    whole = [frame.convert("RGB") for frame in ImageSequence.Iterator(Image.open(file))][:FRAMES]
    top = (whole[0].height - height) // 2
    return [frame.crop((0, top, frame.width, top + height)) for frame in whole]


def image_encoder():
    """Its tower of pictures with the weights of wan_image/."""
    folder = IMAGE / "image_encoder"
    c = json.loads((folder / "config.json").read_text())
    visual = VisionTransformer(image_size=c["image_size"], patch_size=c["patch_size"], dim=c["hidden_size"], mlp_ratio=c["intermediate_size"] // c["hidden_size"],
                               num_heads=c["num_attention_heads"], num_layers=c["num_hidden_layers"], activation="gelu", norm_eps=c["layer_norm_eps"])
    w = {name.removeprefix("vision_model."): value.float() for name, value in load_file(folder / "model.safetensors").items()}
    state = {"cls_embedding": w["embeddings.class_embedding"].reshape(1, 1, -1), "pos_embedding": w["embeddings.position_embedding.weight"][None],
             "patch_embedding.weight": w["embeddings.patch_embedding.weight"], "head": visual.head}
    pairs = [("pre_norm", "pre_layrnorm"), ("post_norm", "post_layernorm")]
    for i in range(c["num_hidden_layers"]):
        ours, theirs = f"encoder.layers.{i}", f"transformer.{i}"
        pairs += [(f"{theirs}.{a}", f"{ours}.{b}") for a, b in (("norm1", "layer_norm1"), ("norm2", "layer_norm2"), ("attn.proj", "self_attn.out_proj"), ("mlp.0", "mlp.fc1"), ("mlp.2", "mlp.fc2"))]
        for kind in ("weight", "bias"):
            state[f"{theirs}.attn.to_qkv.{kind}"] = torch.cat([w[f"{ours}.self_attn.{x}_proj.{kind}"] for x in "qkv"])
    for theirs, ours in pairs:
        state |= {f"{theirs}.{kind}": w[f"{ours}.{kind}"] for kind in ("weight", "bias")}
    visual.load_state_dict(state)
    encoder = WanImageEncoder.__new__(WanImageEncoder)
    torch.nn.Module.__init__(encoder)
    encoder.model = SimpleNamespace(visual=visual.eval(), image_size=c["image_size"])
    encoder.transforms = Compose([Normalize(MEAN, DEVIATION)])
    return encoder


def is_kept(name, value):
    """Pictures are left out, and noise, also where it is called latents, and the zeros that stand for CLIP's states where there is no CLIP."""
    if name in ("noise", "latents") or isinstance(value, Image.Image) or (name == "clip_feature" and value is not None and not value.any()):
        return False
    return not (isinstance(value, list) and value and isinstance(value[0], Image.Image))


@torch.no_grad()
def save(name, pipe, clip, dit, **given):
    """`dit`: what its units ask the transformer."""
    pipe.dit = SimpleNamespace(**dict(require_vae_embedding=False, require_clip_embedding=False, has_image_pos_emb=False, fuse_vae_embedding_in_latents=False) | dit)
    known = {name for unit in pipe.units for name in unit.input_params or ()}
    shared = dict.fromkeys(known) | {"input_video": clip, "height": clip[0].height, "width": clip[0].width, "num_frames": FRAMES, "cfg_scale": 1, "tiled": False, "rand_device": "cpu",
                                     "seed": 0, "cfg_merge": False, "vace_scale": 1, "max_timestep_boundary": 1, "min_timestep_boundary": 0, "use_gradient_checkpointing": True} | given
    positive, negative = {"prompt": "red apple"}, {}
    for unit in pipe.units:
        shared, positive, negative = pipe.unit_runner(unit, pipe, shared, positive, negative)
    values = [{key: value for key, value in table.items() if is_kept(key, value)} for table in (shared, positive, negative)]
    torch.save(tuple(values), OUT / f"{name}.pth")
    print(name, {key: list(value.shape) for table in values for key, value in table.items() if isinstance(value, torch.Tensor)})


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir()
    pipe = WanVideoPipeline(device="cpu", torch_dtype=torch.float32)
    pipe.scheduler.set_timesteps(1000, training=True)
    pipe.tokenizer, pipe.text_encoder = HuggingfaceTokenizer(Wan.OUT / "model/tokenizer", seq_len=ROWS, clean="whitespace"), text_encoder()
    pipe.vae = autoencoder(Wan.OUT / "model/vae")
    clip, control, other = (frames(CLIPS / f"{i}.webp", 32) for i in range(3))
    save("vace", pipe, frames(VACE / "video.webp", 32), {}, vace_video=frames(VACE / "video.webp", 32), vace_video_mask=frames(VACE / "mask.webp", 32),
         vace_reference_image=[Image.open(VACE / "reference.png").convert("RGB")])
    save("control", pipe, clip, {"in_dim": 52}, control_video=control, reference_image=other[0])
    pipe.image_encoder = image_encoder()
    first = {"require_vae_embedding": True, "require_clip_embedding": True}
    save("i2v", pipe, clip, first, input_image=clip[0])
    save("flf2v", pipe, clip, first | {"has_image_pos_emb": True}, input_image=clip[0], end_image=clip[-1])
    save("control_2_1", pipe, clip, first | {"in_dim": 48}, control_video=control, reference_image=other[0], input_image=clip[0])
    pipe.vae = autoencoder(FRAMES_OF / "ti2v/vae")
    save("ti2v", pipe, clip, {"fuse_vae_embedding_in_latents": True}, input_image=clip[0])
    for file in OUT.iterdir():
        file.chmod(0o644)


if __name__ == "__main__":
    main()
