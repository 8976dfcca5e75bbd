#!/usr/bin/env python3
"""Trains the frozen parts of assets/tiny-flux: a small autoencoder on pictures of both styles, which train_autoencoder.py makes the model's own
of, then the two text encoders.

    make_pictures.py --style colour --out P/colour; make_pictures.py --style pixel --split lora --out P/pixel
    train_parts.py --pictures P/colour P/pixel --out assets/tiny-flux [--vae_minutes 15]

The text encoders learn to tell captions apart by matching them to a summary of their picture. Needs diffusers and transformers.
"""
import argparse, csv, json, pathlib, time
import numpy as np
import torch
import torch.nn.functional as F
from diffusers import AutoencoderKL, FlowMatchEulerDiscreteScheduler
from PIL import Image
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTokenizer, T5Config, T5EncoderModel, T5Tokenizer

VAE = dict(in_channels=3, out_channels=3, down_block_types=("DownEncoderBlock2D",) * 3, up_block_types=("UpDecoderBlock2D",) * 3,
           block_out_channels=(24, 48, 96), layers_per_block=1, latent_channels=16, norm_num_groups=8, sample_size=48,
           use_quant_conv=False, use_post_quant_conv=False, force_upcast=False)


def read_pictures(folders):
    pictures, captions = [], []
    for folder in folders:
        for row in csv.DictReader(open(folder / "metadata.csv")):
            pictures.append(np.asarray(Image.open(folder / row["image"]).convert("RGB")))
            captions.append(row["prompt"])
    return torch.from_numpy(np.stack(pictures)).permute(0, 3, 1, 2).float() / 127.5 - 1, captions


def augment(x):
    """Mirror, and shift by up to 2 pixels (the border is white)."""
    if torch.rand(()) < 0.5:
        x = x.flip(3)
    dy, dx = torch.randint(0, 5, (2,))
    return F.pad(x, (2, 2, 2, 2), value=1.0)[:, :, dy:dy + x.shape[2], dx:dx + x.shape[3]]


def train_vae(pictures, minutes):
    torch.manual_seed(0)
    vae = AutoencoderKL(**VAE)
    opt = torch.optim.AdamW(vae.parameters(), lr=1.5e-3, weight_decay=0.0, betas=(0.9, 0.98))
    start, step, batch = time.time(), 0, 8
    while (done := (time.time() - start) / (minutes * 60)) < 1:
        for group in opt.param_groups:
            group["lr"] = 1.5e-3 * min(1, (step + 1) / 50) * (1 - done) + 2e-5
        x = augment(pictures[torch.randint(len(pictures), (batch,))])
        posterior = vae.encode(x).latent_dist
        y = vae.decode(posterior.mode() + 0.02 * torch.randn_like(posterior.mean)).sample
        edges = (y.diff(dim=3) - x.diff(dim=3)).abs().mean() + (y.diff(dim=2) - x.diff(dim=2)).abs().mean()
        loss = (y - x).abs().mean() + (y - x).pow(2).mean() + 0.25 * edges + 1e-4 * posterior.mean.pow(2).mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(vae.parameters(), 1.0)
        opt.step()
        opt.zero_grad(set_to_none=True)
        if step % 200 == 0:
            print(f"vae step {step} loss {loss.item():.4f} psnr {-10 * torch.log10(((y - x) / 2).pow(2).mean()).item():.2f} ({done:.0%})", flush=True)
        step += 1
    vae.eval()
    with torch.no_grad():
        latents = torch.cat([vae.encode(p).latent_dist.mode() for p in pictures.split(64)])
        psnr = [-10 * torch.log10(((vae.decode(z).sample - p) / 2).pow(2).mean()).item() for z, p in zip(latents.split(64), pictures.split(64))]
    vae.register_to_config(shift_factor=round(latents.mean().item(), 4), scaling_factor=round(1 / latents.std().item(), 4))
    print(f"vae: {sum(p.numel() for p in vae.parameters())} parameters, {step} steps, reconstruction {sum(psnr) / len(psnr):.2f} dB, {vae.config.shift_factor=} {vae.config.scaling_factor=}")
    return vae, (latents - vae.config.shift_factor) * vae.config.scaling_factor


def train_encoders(latents, captions, out, steps):
    torch.manual_seed(1)
    clip_tokens, t5_tokens = CLIPTokenizer.from_pretrained(out / "tokenizer"), T5Tokenizer.from_pretrained(out / "tokenizer_2")
    eos = len(clip_tokens) - 1
    clip = CLIPTextModel(CLIPTextConfig(vocab_size=len(clip_tokens), hidden_size=96, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4,
                                        max_position_embeddings=clip_tokens.model_max_length, bos_token_id=eos - 1, eos_token_id=eos, pad_token_id=eos))
    t5 = T5EncoderModel(T5Config(vocab_size=len(t5_tokens), d_model=128, d_kv=32, d_ff=256, num_layers=2, num_heads=4, feed_forward_proj="gated-gelu"))
    ids = clip_tokens(captions, padding="max_length", truncation=True, return_tensors="pt").input_ids
    ids_2 = t5_tokens(captions, padding="max_length", truncation=True, max_length=t5_tokens.model_max_length, return_tensors="pt").input_ids
    see = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(latents[0].numel(), 256), torch.nn.GELU(), torch.nn.Linear(256, 96))
    read = torch.nn.Linear(128, 96)
    trained = [p for m in (clip, t5, see, read) for p in m.parameters()]
    opt = torch.optim.AdamW(trained, lr=5e-4)
    for step in range(steps):
        at = torch.randperm(len(captions))[:128]
        picture = F.normalize(see(latents[at] + 0.1 * torch.randn_like(latents[at])), dim=1)
        words = [clip(ids[at]).pooler_output, read(t5(ids_2[at]).last_hidden_state.mean(1))]
        loss = sum(F.cross_entropy(15 * F.normalize(w, dim=1) @ picture.T, torch.arange(len(at))) for w in words)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        opt.step()
        opt.zero_grad(set_to_none=True)
        if step % 100 == 0 or step + 1 == steps:
            print(f"encoders step {step} loss {loss.item():.3f}", flush=True)
    with torch.no_grad():
        print(f"T5 output std {t5(ids_2).last_hidden_state.std().item():.3f}, CLIP pooled std {clip(ids).pooler_output.std().item():.3f}")
    return clip, t5


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--pictures", type=pathlib.Path, nargs="+", required=True, help="picture folders; the text encoders learn on the first")
    p.add_argument("--out", type=pathlib.Path, required=True)
    p.add_argument("--vae_minutes", type=float, default=15)
    p.add_argument("--encoder_steps", type=int, default=600)
    p.add_argument("--threads", type=int, default=2)
    args = p.parse_args()
    torch.set_num_threads(args.threads)
    pictures, _ = read_pictures(args.pictures)
    first, captions = read_pictures(args.pictures[:1])
    vae, latents = train_vae(pictures, args.vae_minutes)
    vae.to(torch.float16).save_pretrained(args.out / "vae")  # half the size; burnish computes autoencoders in fp32 all the same
    vae.float()
    clip, t5 = train_encoders(latents[:len(captions)], captions, args.out, args.encoder_steps)
    clip.to(torch.bfloat16).save_pretrained(args.out / "text_encoder")
    t5.to(torch.bfloat16).save_pretrained(args.out / "text_encoder_2")
    FlowMatchEulerDiscreteScheduler(shift=1.0).save_pretrained(args.out / "scheduler")
    (args.out / "transformer").mkdir(exist_ok=True)
    (args.out / "transformer/config.json").write_text(json.dumps(dict(
        _class_name="FluxTransformer2DModel", patch_size=1, in_channels=64, num_layers=2, num_single_layers=4, attention_head_dim=32, num_attention_heads=8,
        joint_attention_dim=128, pooled_projection_dim=96, guidance_embeds=False, axes_dims_rope=[8, 12, 12]), indent=2) + "\n")
    (args.out / "model_index.json").write_text(json.dumps({
        "_class_name": "FluxPipeline", "_diffusers_version": "0.42.1", "scheduler": ["diffusers", "FlowMatchEulerDiscreteScheduler"],
        "text_encoder": ["transformers", "CLIPTextModel"], "text_encoder_2": ["transformers", "T5EncoderModel"],
        "tokenizer": ["transformers", "CLIPTokenizer"], "tokenizer_2": ["transformers", "T5TokenizerFast"],
        "transformer": ["diffusers", "FluxTransformer2DModel"], "vae": ["diffusers", "AutoencoderKL"]}, indent=2) + "\n")


if __name__ == "__main__":
    main()
