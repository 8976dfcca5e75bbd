#!/usr/bin/env python3
"""A small random transformer of Wan with VACE, and what diffusers + peft do with it, in wan_vace/; other components are those of wan_pipeline/.

transformer/          the transformer in bf16, a diffusers folder
transformer.safetensors  as that of wan_pipeline/, with in.context beside the noisy latents
scaled.safetensors    its out with control_hidden_states_scale 0.5 and -2
metadata.json         the pictures and captions of pipeline/, each with a clip of one frame, a mask and a reference picture for VACE
lora.safetensors, vace_lora.safetensors  adapters of all attention and MLPs of the transformer and of the module, rank 4, alpha 2
replay.safetensors, expected.safetensors  as those of wan_pipeline/, of latents with the reference's in front: {lora,vace_lora,vace}.{loss,grad_norm} of
                      ten steps of the transformer's adapter, of the module's and of the whole module; and clip.{noise,latents}: what
                      WanVACEPipeline draws of five frames in 4 steps with video.webp, mask.webp and reference.png
"""
import copy, csv, json, shutil
import torch
import torch.nn.functional as F
from PIL import Image
from diffusers import WanVACEPipeline, WanVACETransformer3DModel
from safetensors.torch import save_file

import family
import training_loop
from make_encoders import randomise, rounded
from make_wan import TOKENS, Spaced, Wan

OUT = family.HERE / "wan_vace"
COLUMNS = [("0.png", "1.png", "2.png"), ("1.png", "2.png", "3.png"), ("2.png", "3.png", "0.png"), ("3.png", "0.png", "1.png")]


def context_of(wan, pipe, clip, mask, reference=None):
    """Channels that VACE reads: of a clip [1, 3, F, H, W] in [-1, 1] and a mask of its shape in [0, 1]."""
    mean, std = wan.scale(pipe.vae)
    encode = lambda x: (pipe.vae.encode(x).latent_dist.mode() - mean) / std
    hard = (mask > 0.5).float()
    latents = torch.cat([encode(clip * (1 - hard)), encode(clip * hard)], 1)
    frames = latents.shape[2]
    pixels = mask[0, 0].unflatten(1, (-1, 8)).unflatten(3, (-1, 8)).permute(2, 4, 0, 1, 3).flatten(0, 1)
    channels = F.interpolate(pixels[None], size=(frames, *latents.shape[3:]), mode="nearest-exact")
    context = torch.cat([latents, channels], 1)
    if reference is None:
        return context
    front = encode(reference[:, :, None])
    return torch.cat([torch.cat([front, torch.zeros(1, context.shape[1] - front.shape[1], *front.shape[2:])], 1), context], 2)


@torch.no_grad()
def samples_of(wan, pipe, pictures, rows):
    picture = lambda name: family.tensor_of(pictures / name)
    samples = []
    for row in rows:
        context = context_of(wan, pipe, picture(row["vace_video"])[:, :, None], picture(row["vace_video_mask"])[:, :, None] / 2 + 0.5, picture(row["vace_reference_image"]))
        latents = torch.cat([wan.latents(pipe, picture(row["vace_reference_image"])), wan.latents(pipe, picture(row["image"]))], 2)
        samples.append((latents, *wan.conditions(pipe, row["prompt"]), context))
    return samples


def predict(model, noisy, sigma, caption, context, scales=None):
    return model(hidden_states=noisy, encoder_hidden_states=caption, timestep=sigma * 1000, control_hidden_states=context,
                 control_hidden_states_scale=scales, return_dict=False)[0]


def write_alone(model):
    torch.manual_seed(3)
    captions = [torch.randn(5, 16), torch.randn(9, 16)]
    noisy, context, sigma = torch.randn(2, 16, 2, 4, 4), torch.randn(2, 96, 2, 4, 4), torch.tensor([0.83, 0.21])
    filled = torch.stack([F.pad(c, (0, 0, 0, 12 - len(c))) for c in captions])
    out = predict(model, noisy, sigma, filled, context)
    with torch.no_grad():
        save_file({"out": predict(model, noisy, sigma, filled, context, torch.tensor([0.5, -2.0]))}, OUT / "scaled.safetensors")
    family.save_alone(model, {"noisy": noisy, "context": context, "sigma": sigma, "caption.0": captions[0], "caption.1": captions[1]}, out, OUT / "transformer.safetensors")


@torch.no_grad()
def drawn(wan, pipe, transformer):
    vace = WanVACEPipeline(tokenizer=pipe.tokenizer, text_encoder=pipe.text_encoder, vae=pipe.vae, transformer=transformer, scheduler=Spaced(shift=3.0))
    vace.set_progress_bar_config(disable=True)
    squares = lambda *shape, side: F.interpolate(torch.rand(*shape, 32 // side, 48 // side), scale_factor=side)
    video, mask = squares(5, 3, side=4), (squares(5, 1, side=8) > 0.5).float().expand(-1, 3, -1, -1)
    reference, noise = squares(1, 3, side=4)[0], torch.randn(1, 16, 3, 4, 6)
    video, reference = (video * 255).round() / 255, (reference * 255).round() / 255
    seen = []
    forward = transformer.forward

    def watched(hidden_states, control_hidden_states, **rest):
        out = forward(hidden_states=hidden_states, control_hidden_states=control_hidden_states, **rest)
        seen.append((hidden_states, out[0], rest["timestep"]))
        return out

    transformer.forward = watched
    shown = lambda x: Image.fromarray((x * 255).round().to(torch.uint8).permute(1, 2, 0).numpy())
    vace(video=[shown(x) for x in video], mask=[shown(x) for x in mask], reference_images=shown(reference), prompt_embeds=wan.conditions(pipe, "red apple")[0], height=32, width=48, num_frames=5, latents=noise, num_inference_steps=4, guidance_scale=1.0, output_type="latent", max_sequence_length=TOKENS)
    transformer.forward = forward
    # What it gives back lacks the frames in front; the last step of Euler's method says them.
    noisy, prediction, timestep = seen[-1]
    latents = noisy - prediction * (timestep.view(-1, 1, 1, 1, 1) / 1000)
    for name, clip in (("video", video), ("mask", mask)):
        frames = [shown(x) for x in clip]
        frames[0].save(OUT / f"{name}.webp", save_all=True, append_images=frames[1:], duration=[63, 62, 63, 62, 63], lossless=True, exact=True)
    shown(reference).save(OUT / "reference.png")
    return {"clip.noise": noise, "clip.latents": latents}


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir()
    wan = Wan()
    pipe = wan.parts()
    torch.manual_seed(5)
    make = dict(num_attention_heads=2, attention_head_dim=6, in_channels=16, out_channels=16, text_dim=16, freq_dim=32, ffn_dim=16, num_layers=3, rope_max_seq_len=32,
                vace_layers=[0, 2], vace_in_channels=96)
    transformer = rounded(randomise(WanVACETransformer3DModel(**make), 0.7))
    copy.deepcopy(transformer).to(torch.bfloat16).save_pretrained(OUT / "transformer")  # which rounds its tables of places too
    write_alone(transformer)
    rows = [dict(row, vace_video=names[0], vace_video_mask=names[1], vace_reference_image=names[2])
            for row, names in zip(csv.DictReader(open(wan.PICTURES / "metadata.csv")), COLUMNS)]
    (OUT / "metadata.json").write_text(json.dumps(rows, indent=1) + "\n")
    samples = samples_of(wan, pipe, wan.PICTURES, rows)
    replay = training_loop.write_replay(OUT / "replay.safetensors", (16, 2, 6, 8), len(samples), wan.REPLAYED)
    expected = drawn(wan, pipe, transformer)
    original = {n: p.detach().clone() for n, p in transformer.named_parameters()}

    def train(parameters, name):
        losses, norms, _ = training_loop.train_velocity(lambda *given: predict(transformer, *given), samples, replay, parameters)
        expected.update({f"{name}.loss": losses, f"{name}.grad_norm": norms})

    of_module = lambda n: n.startswith("vace_")
    for n, p in transformer.named_parameters():
        p.requires_grad_(of_module(n))
    train([(n, p) for n, p in transformer.named_parameters() if of_module(n)], "vace")
    transformer.load_state_dict(original)
    adapter = training_loop.add_adapter(transformer, wan.TARGETS)
    state = training_loop.adapter_state("transformer", transformer)
    save_file({n: x for n, x in state.items() if ".vace_" in n}, OUT / "vace_lora.safetensors", metadata={"format": "pt"})
    save_file({n: x for n, x in state.items() if ".vace_" not in n}, OUT / "lora.safetensors", metadata={"format": "pt"})
    start = {n: p.detach().clone() for n, p in adapter}
    for name, wanted in (("lora", False), ("vace_lora", True)):
        transformer.load_state_dict(start, strict=False)
        with torch.no_grad():
            zeroed = {n: p.detach().clone() for n, p in adapter if of_module(n) != wanted and "lora_B" in n}
            for n, p in adapter:
                if n in zeroed:
                    p.zero_()
        for n, p in adapter:
            p.requires_grad_(of_module(n) == wanted)
        train([(n, p) for n, p in adapter if of_module(n) == wanted], name)
    save_file({n: x.contiguous() for n, x in expected.items()}, OUT / "expected.safetensors")
    for file in OUT.rglob("*"):
        file.chmod(0o755 if file.is_dir() else 0o644)
    print({n: x for n, x in expected.items() if n.endswith("loss")}, expected["clip.latents"].std())


if __name__ == "__main__":
    main()
