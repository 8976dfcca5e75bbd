#!/usr/bin/env python3
"""Trains the frozen parts of assets/tiny-wan: the autoencoder on clips of all motions, then the umT5 encoder.

    make_clips.py --split known --takes 4 --motion ... --out P/known and P/new (README.md)
    train_parts.py --clips P/known P/new --out assets/tiny-wan [--minutes 17]

The text encoder learns to tell captions apart by matching them to a summary of their clip; it sees the first folder alone. Needs diffusers and
transformers.
"""
import argparse, csv, json, pathlib, shutil, time
import numpy as np
import torch
import torch.nn.functional as F
from diffusers import AutoencoderKLWan, FlowMatchEulerDiscreteScheduler
from diffusers.models.autoencoders.autoencoder_kl_wan import unpatchify
from PIL import Image, ImageSequence
from transformers import T5Tokenizer, UMT5Config, UMT5EncoderModel

CHANNELS = 32
VAE = dict(base_dim=16, decoder_base_dim=24, z_dim=CHANNELS, dim_mult=[1, 2, 2], num_res_blocks=1, temperal_downsample=[True, True], is_residual=True,
           in_channels=12, out_channels=12, patch_size=2, scale_factor_spatial=8)


def read_clips(folder):
    """Bytes [N, 3, F, H, W], captions."""
    clips, captions = [], []
    for row in csv.DictReader(open(folder / "metadata.csv")):
        frames = []
        for frame in ImageSequence.Iterator(Image.open(folder / row["video"])):
            picture = np.asarray(frame.convert("RGB"))
            frames += [picture] * round(frame.info["duration"] / 62.5)  # equal frames are one that lasts longer
        clips.append(np.stack(frames))
        captions.append(row["prompt"])
    return torch.from_numpy(np.stack(clips)).permute(0, 4, 1, 2, 3).contiguous(), captions


def pixels(clips):
    return clips.float() / 127.5 - 1


def decoded(vae, latents):
    """What vae.decode gives before it is cut to [-1, 1], where gradients end: white is 1."""
    vae.clear_cache()
    x = vae.post_quant_conv(latents)
    frames = []
    for i in range(x.shape[2]):
        vae._conv_idx = [0]
        frames.append(vae.decoder(x[:, :, i:i + 1], feat_cache=vae._feat_map, feat_idx=vae._conv_idx, first_chunk=i == 0))
    vae.clear_cache()
    return unpatchify(torch.cat(frames, 2), patch_size=vae.config.patch_size)


def drawn(clips):
    """A batch: pictures, short and whole clips."""
    frames = (1, 5, 9, 17)[int(torch.randint(4, ()))]
    at = torch.randint(len(clips), (max(2, 24 // frames),))
    start = torch.randint(clips.shape[2] - frames + 1, ())
    x = pixels(clips[at, :, start:start + frames])
    return x.flip(4) if torch.rand(()) < 0.5 else x


class Projection:
    """The latents that are asked of the encoder: the main components of what each is made of, 8 x 8 pixels of four frames (of the first frame
    four times the same). Those that vary more have a larger scale, by the root of their deviation."""

    def __init__(self, clips):
        x = self.blocks(pixels(clips))[:, 1:].flatten(0, 3)
        self.mean = x.mean(0)
        _, deviations, self.basis = torch.pca_lowrank(x - self.mean, q=CHANNELS, niter=4, center=False)
        deviations /= len(x) ** 0.5
        self.basis = self.basis / deviations.sqrt() / deviations.mean().sqrt()

    @staticmethod
    def blocks(x):
        """[N, latent frames, rows, columns, numbers of a block]"""
        x = torch.cat([x[:, :, :1].repeat(1, 1, 4, 1, 1), x[:, :, 1:]], 2)
        return x.unflatten(4, (-1, 8)).unflatten(3, (-1, 8)).unflatten(2, (-1, 4)).permute(0, 2, 4, 6, 1, 3, 5, 7).flatten(4)

    def __call__(self, x):
        return ((self.blocks(x) - self.mean) @ self.basis).permute(0, 4, 1, 2, 3)


def train_autoencoder(clips, minutes):
    """Trains the encoder to give the projection, and the decoder on the projection, later on what the encoder gives: by itself a small autoencoder
    learns shapes and no colours."""
    torch.manual_seed(0)
    vae = AutoencoderKLWan(**VAE, latents_mean=[0.0] * CHANNELS, latents_std=[1.0] * CHANNELS)
    projection = Projection(clips[::4])
    opt = torch.optim.AdamW(vae.parameters(), lr=2e-3, weight_decay=0.0, betas=(0.9, 0.98))
    start, step = time.process_time(), 0
    while (done := (time.process_time() - start) / (minutes * 60)) < 1:
        for group in opt.param_groups:
            group["lr"] = 2e-3 * min(1, (step + 1) / 50) * (1 - done) + 2e-5
        x = drawn(clips)
        with torch.no_grad():
            wanted = projection(x)
        given = vae.encode(x).latent_dist.mode()
        latents = given.detach() if torch.rand(()) < done else wanted
        y = decoded(vae, latents + 0.05 * torch.randn_like(latents))
        edges = (y.diff(dim=4) - x.diff(dim=4)).abs().mean() + (y.diff(dim=3) - x.diff(dim=3)).abs().mean()
        of_latents = (given - wanted).pow(2).mean()
        loss = (y - x).abs().mean() + (y - x).pow(2).mean() + 0.25 * edges + of_latents
        loss.backward()
        torch.nn.utils.clip_grad_norm_(vae.parameters(), 1.0)
        opt.step()
        opt.zero_grad(set_to_none=True)
        if step % 100 == 0:
            noise = -10 * torch.log10(((y - x) / 2).pow(2).mean()).item()
            print(f"autoencoder step {step}, {x.shape[2]} frames, latents {of_latents.item() / wanted.var().item():.4f}, {noise:.2f} dB ({done:.0%})", flush=True)
        step += 1
    return vae.eval()


@torch.no_grad()
def encoded(vae, clips):
    return torch.cat([vae.encode(pixels(some)).latent_dist.mode() for some in clips.split(16)])


def state_latents(vae, latents):
    """Into the configuration, what latents are normalised by."""
    of_channel = latents.transpose(0, 1).flatten(1)
    vae.register_to_config(latents_mean=[round(v, 4) for v in of_channel.mean(1).tolist()], latents_std=[round(v, 4) for v in of_channel.std(1).tolist()])
    view = (1, -1, 1, 1, 1)
    return (latents - torch.tensor(vae.config.latents_mean).view(view)) / torch.tensor(vae.config.latents_std).view(view)


def train_encoder(latents, captions, tokenizer, steps):
    torch.manual_seed(1)
    umt5 = UMT5EncoderModel(UMT5Config(vocab_size=len(tokenizer), d_model=128, d_kv=32, d_ff=256, num_layers=2, num_heads=4, feed_forward_proj="gated-gelu"))
    ids = tokenizer(captions, padding="max_length", truncation=True, max_length=24, return_tensors="pt")
    see = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(latents[0].numel(), 256), torch.nn.GELU(), torch.nn.Linear(256, 96))
    read = torch.nn.Linear(128, 96)
    trained = [p for m in (umt5, see, read) for p in m.parameters()]
    opt = torch.optim.AdamW(trained, lr=5e-4)
    for step in range(steps):
        at = torch.randperm(len(captions))[:128]
        mask = ids.attention_mask[at].unsqueeze(2).float()
        states = umt5(ids.input_ids[at], attention_mask=ids.attention_mask[at]).last_hidden_state
        words = read((states * mask).sum(1) / mask.sum(1))
        clip = see(latents[at] + 0.1 * torch.randn_like(latents[at]))
        loss = F.cross_entropy(15 * F.normalize(words, dim=1) @ F.normalize(clip, dim=1).T, torch.arange(len(at)))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        opt.step()
        opt.zero_grad(set_to_none=True)
        if step % 100 == 0 or step + 1 == steps:
            print(f"umT5 step {step} loss {loss.item():.3f}", flush=True)
    return umt5


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--clips", type=pathlib.Path, nargs="+", required=True, help="folders of clips; the text encoder learns on the first")
    p.add_argument("--out", type=pathlib.Path, required=True)
    p.add_argument("--tokenizer", type=pathlib.Path, default=pathlib.Path("assets/tiny-flux/tokenizer_2"))
    p.add_argument("--minutes", type=float, default=17, help="of one core, for the autoencoder")
    p.add_argument("--encoder_steps", type=int, default=600)
    p.add_argument("--threads", type=int, default=2)
    args = p.parse_args()
    torch.set_num_threads(args.threads)
    read = [read_clips(folder) for folder in args.clips]
    vae = train_autoencoder(torch.cat([clips for clips, _ in read]), args.minutes)
    clips, captions = read[0]
    latents = state_latents(vae, encoded(vae, clips))
    with torch.no_grad():
        known = torch.cat([vae.decode(z).sample for z in encoded(vae, clips[::20]).split(16)])
    print(f"reconstruction of clips: {-10 * torch.log10(((known - pixels(clips[::20])) / 2).pow(2).mean()).item():.2f} dB", flush=True)
    shutil.copytree(args.tokenizer, args.out / "tokenizer", dirs_exist_ok=True)
    umt5 = train_encoder(latents, captions, T5Tokenizer.from_pretrained(args.tokenizer), args.encoder_steps)
    vae.to(torch.float16).save_pretrained(args.out / "vae")  # half the size; burnish computes autoencoders in fp32 all the same
    umt5.to(torch.bfloat16).save_pretrained(args.out / "text_encoder")
    FlowMatchEulerDiscreteScheduler(shift=1.0).save_pretrained(args.out / "scheduler")
    (args.out / "transformer").mkdir(exist_ok=True)
    (args.out / "transformer/config.json").write_text(json.dumps(dict(
        _class_name="WanTransformer3DModel", patch_size=[1, 2, 2], num_attention_heads=6, attention_head_dim=32, in_channels=CHANNELS, out_channels=CHANNELS,
        text_dim=128, freq_dim=64, ffn_dim=768, num_layers=4, cross_attn_norm=True, qk_norm="rms_norm_across_heads", eps=1e-6, rope_max_seq_len=64), indent=2) + "\n")
    (args.out / "model_index.json").write_text(json.dumps({
        "_class_name": "WanPipeline", "_diffusers_version": "0.42.1", "scheduler": ["diffusers", "FlowMatchEulerDiscreteScheduler"],
        "text_encoder": ["transformers", "UMT5EncoderModel"], "tokenizer": ["transformers", "T5TokenizerFast"],
        "transformer": ["diffusers", "WanTransformer3DModel"], "vae": ["diffusers", "AutoencoderKLWan"]}, indent=2) + "\n")


if __name__ == "__main__":
    main()
