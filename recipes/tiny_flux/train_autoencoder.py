#!/usr/bin/env python3
"""Trains assets/tiny-flux/vae: an autoencoder with the latents of the small one of train_parts.py, but for pictures of four times the side.

    train_autoencoder.py encoder --steps 500 --base build/demo/small/vae --out build/demo/encoder.pt
    train_autoencoder.py decoder --steps 2400 --base build/demo/small/vae --out build/demo/decoder.pt
    train_autoencoder.py join --base build/demo/small/vae --parts build/demo/encoder.pt build/demo/decoder.pt --out assets/tiny-flux/vae

A picture of 192 x 192 takes 36 tokens.
Latents of a picture are those that the small autoencoder has of it at a quarter of its side. The encoder learns them, and the decoder learns to
draw the whole picture from them, with noise on them, so that it mends what a small transformer leaves uneven. Both start from the small one,
with two levels more. Needs diffusers and make_pictures.py's packages.
"""
import argparse, pathlib
import numpy as np
import torch
import torch.nn.functional as F
from diffusers import AutoencoderKL
from PIL import Image
import make_pictures

SCALE, CHANNELS, MORE = 4, (16, 16, 24, 48, 96), 2  # times the base's side; of all levels; levels more than the base's
STYLES = {"colour": 4, "pixel": 5, "square": 2, "block": 1, "crayon": 1, "silhouette": 1, "grey": 1}  # and how often each is seen
SQUARED = ("pixel", "square", "block")
NOISE, NOISE_OF_SQUARES = 0.35, 0.7  # in training, at most, in standard deviations of latents
SMOOTH = 0.4  # and the share, at most, that latents of squares have of those of the same picture in colour


def quarter(pixels):
    return np.asarray(Image.fromarray(pixels).resize((pixels.shape[1] // SCALE, pixels.shape[0] // SCALE), Image.LANCZOS))


def draw():
    """Every character in every style, and what the base is to see of it, both uint8 [n, 3, s, s]; how often each is seen; which is the same in
    colour, and whether it is in squares."""
    large, small, often, coloured, squared = [], [], [], [], []
    for char in make_pictures.characters():
        glyph = make_pictures.glyph(char)
        for style, times in STYLES.items():
            if style in SQUARED and char in make_pictures.HELD_OUT:
                continue  # the demo asks for these, of which nothing has seen pixel art
            coloured.append(len(large) if style == "colour" else coloured[-1])
            squared.append(style in SQUARED)
            large.append((np.clip(make_pictures.STYLES[style](*glyph), 0, 1) * 255).astype(np.uint8))
            small.append(quarter(large[-1]))
            often.append(times)
    pictures = (torch.from_numpy(np.stack(p)).permute(0, 3, 1, 2).contiguous() for p in (large, small))
    return *pictures, torch.tensor(often, dtype=torch.float32), torch.tensor(coloured), torch.tensor(squared)


def pixels_of(bytes_NCHW):
    return bytes_NCHW.float() / 127.5 - 1


def grown(base):
    """The base with two levels more on the side of the pixels, which pass on the mean of four pixels, or each pixel four times."""
    config = {k: v for k, v in dict(base.config).items() if not k.startswith("_")}
    levels = len(CHANNELS)
    vae = AutoencoderKL(**{**config, "block_out_channels": CHANNELS, "sample_size": config["sample_size"] * SCALE,
                           "down_block_types": ("DownEncoderBlock2D",) * levels, "up_block_types": ("UpDecoderBlock2D",) * levels})
    new = vae.state_dict()
    for name, weight in base.state_dict().items():
        parts = name.split(".")
        if parts[1] == "down_blocks":
            parts[2] = str(int(parts[2]) + MORE)
        name = ".".join(parts)
        if name in new and new[name].shape == weight.shape:
            new[name] = weight
    for name, weight in new.items():
        parts = name.split(".")
        of_encoder = parts[1] == "down_blocks" and int(parts[2]) < MORE
        if of_encoder and parts[-1] == "bias":
            weight.zero_()
        if of_encoder and parts[3] == "resnets" and parts[5] == "conv2":
            weight.zero_()
        if of_encoder and parts[3] == "downsamplers" and parts[-1] == "weight":
            weight.zero_()
            weight[:, :, :2, :2] = torch.eye(len(weight))[:, :, None, None] / 4
        if of_encoder and parts[3] == "downsamplers" and parts[2] == str(MORE - 1) and parts[-1] == "weight":
            weight += 0.05 * torch.randn_like(weight)  # it learns more features of the pixels than their mean
    new["encoder.conv_in.weight"].zero_()
    new["encoder.conv_in.bias"].zero_()
    for channel in range(3):
        new["encoder.conv_in.weight"][channel, channel, 1, 1] = 1
    vae.load_state_dict(new)
    return vae


def encoded(vae, halves):
    """What the encoder finds, from pictures at half their side: all that comes before is their means."""
    encoder = vae.encoder
    x = F.pad(halves, (0, 0, 0, 0, 0, CHANNELS[0] - 3))
    x = encoder.down_blocks[MORE - 1].downsamplers[0](x)
    for block in encoder.down_blocks[MORE:]:
        x = block(x)
    x = encoder.conv_out(encoder.conv_act(encoder.conv_norm_out(encoder.mid_block(x))))
    return x.chunk(2, 1)[0]


def difference(y, x):
    edges = (y.diff(dim=3) - x.diff(dim=3)).abs().mean() + (y.diff(dim=2) - x.diff(dim=2)).abs().mean()
    return (y - x).abs().mean() + (y - x).pow(2).mean() + 0.5 * edges


def unevenness(y):
    """Of the squares of pixel art."""
    side = make_pictures.WORK // make_pictures.SQUARES
    return (y - F.interpolate(F.avg_pool2d(y, side), scale_factor=side)).abs()


def decibels(y, x):
    return -10 * torch.log10(((y - x) / 2).pow(2).mean()).item()


def train(args):
    torch.manual_seed(0)
    base = AutoencoderKL.from_pretrained(args.base, torch_dtype=torch.float32).eval()
    vae = grown(base)
    large, small, often, coloured, squared = draw()
    scale = base.config.scaling_factor
    with torch.no_grad():
        z_all = torch.cat([base.encode(pixels_of(p)).latent_dist.mode() for p in small.split(64)])
    part = vae.get_submodule(args.part)
    if args.go_on:
        part.load_state_dict(torch.load(args.go_on))
    averaged = {k: v.clone() for k, v in part.state_dict().items()}
    batch, rate = (16, 1.5e-3) if args.part == "encoder" else (4, 2e-3)
    opt = torch.optim.AdamW(part.parameters(), lr=rate, weight_decay=0.0, betas=(0.9, 0.98))
    said = []
    for step in range(args.steps):
        done = step / args.steps
        for group in opt.param_groups:
            group["lr"] = rate * min(1, (step + 1) / 50) * min(1, 1.6 * (1 - done)) + 1e-5
        at = torch.multinomial(often, batch)
        x, z = pixels_of(large[at]), z_all[at]
        if args.part == "encoder":
            loss = (scale * (encoded(vae, F.avg_pool2d(x, 2)) - z)).pow(2).mean()
            said.append([loss.item(), -10 * np.log10(loss.item())])
        else:
            of_squares = squared[at].float().view(-1, 1, 1, 1)
            z = z.lerp(z_all[coloured[at]], SMOOTH * of_squares * torch.rand(batch, 1, 1, 1))
            most = (NOISE + (NOISE_OF_SQUARES - NOISE) * of_squares) / scale
            y = vae.decode(z + most * torch.rand(batch, 1, 1, 1) * torch.randn_like(z)).sample
            loss = difference(y, x) + (of_squares * unevenness(y)).mean()
            said.append([loss.item(), decibels(y, x)])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(part.parameters(), 1.0)
        opt.step()
        opt.zero_grad(set_to_none=True)
        with torch.no_grad():
            for name, value in part.state_dict().items():
                averaged[name].lerp_(value, max(0.01, 1 / (step + 1)))
        if (step + 1) % 50 == 0:
            loss, ratio = np.mean(said[-50:], axis=0)
            print(f"step {step + 1}: loss {loss:.4f}, {ratio:.2f} dB", flush=True)
            torch.save(averaged, args.out)
    torch.save(averaged, args.out)


def join(args):
    base = AutoencoderKL.from_pretrained(args.base, torch_dtype=torch.float32)
    vae = grown(base)
    vae.encoder.load_state_dict(torch.load(args.parts[0]))
    vae.decoder.load_state_dict(torch.load(args.parts[1]))
    vae.eval().to(torch.float16).save_pretrained(args.out)
    print(f"{sum(p.numel() for p in vae.parameters())} parameters in {args.out}")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("part", choices=["encoder", "decoder", "join"])
    p.add_argument("--base", type=pathlib.Path, required=True)
    p.add_argument("--parts", type=pathlib.Path, nargs=2, help="of join: encoder and decoder")
    p.add_argument("--out", type=pathlib.Path, required=True)
    p.add_argument("--go_on", type=pathlib.Path, help="a part that was trained before, to start from")
    p.add_argument("--steps", type=int, default=1000)
    p.add_argument("--threads", type=int, default=2)
    args = p.parse_args()
    torch.set_num_threads(args.threads)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    (join if args.part == "join" else train)(args)


if __name__ == "__main__":
    main()
