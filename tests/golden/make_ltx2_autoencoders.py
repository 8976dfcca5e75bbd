#!/usr/bin/env python3
"""The autoencoders of LTX-2, small and with random weights, and what diffusers does with them, in ltx2_autoencoders/:

frames_{20,23}.safetensors  the autoencoder of frames, as LTX-2.0 and 2.3 have it: w.<tensor> in bf16, settings as metadata; moments of a picture and of clips, and digests
                            of what is decoded of latents, whole and in tiles of 64 pixels; pixels and latents are those of `counted`
sound.safetensors           the autoencoder of sound: w.<tensor> in bf16, settings as metadata; the strength of bands of a sound, as transformers weighs them, its latents, and
                            the digest of what is decoded of latents; the sound is that of `tone`
vocoder_{20,23}.safetensors the vocoders of LTX-2.0 and 2.3: w.<tensor> in bf16, settings as metadata; the sound that they make of bands
"""
import json
import torch
from diffusers import AutoencoderKLLTX2Audio, AutoencoderKLLTX2Video
from diffusers.pipelines.ltx2.vocoder import LTX2Vocoder, LTX2VocoderWithBWE
from safetensors.torch import save_file
from transformers.audio_utils import mel_filter_bank

from digest import digest
from make_encoders import HERE, randomise, rounded

OUT = HERE / "ltx2_autoencoders"


def counted(*sizes):
    """Whole numbers from 0 to 255 that any program can make again."""
    count = torch.arange(torch.tensor(sizes).prod().item())
    return ((count * 37 + count // 11 * 5 + count // 97) % 256).reshape(sizes)


def write(name, model, settings, tensors):
    weights = {f"w.{n}": p.to(torch.bfloat16) for n, p in model.state_dict().items()}
    save_file({n: t.contiguous() for n, t in (weights | tensors).items()}, OUT / f"{name}.safetensors", metadata={"config": json.dumps(settings)})


def with_statistics(model):
    """Means and deviations of latents that are neither 0 nor 1."""
    model.latents_mean.copy_((torch.randn_like(model.latents_mean) * 0.3).to(torch.bfloat16))
    model.latents_std.copy_((torch.rand_like(model.latents_std) + 0.5).to(torch.bfloat16))
    return model


FRAMES = dict(latent_channels=4, patch_size=2, block_out_channels=(8, 8, 8, 8), layers_per_block=(1, 2, 1, 1, 1), encoder_causal=True, decoder_causal=False)
FRAMES_20 = FRAMES | dict(decoder_block_out_channels=(8, 8, 8), decoder_layers_per_block=(2, 1, 1, 1), upsample_factor=(2, 1, 1), spatial_compression_ratio=16, temporal_compression_ratio=8)
FRAMES_23 = FRAMES | dict(decoder_block_out_channels=(2, 4, 4, 8), decoder_layers_per_block=(1, 2, 1, 1, 1), decoder_spatio_temporal_scaling=(True,) * 4, decoder_inject_noise=(False,) * 5,
                          upsample_type=("spatiotemporal", "spatiotemporal", "temporal", "spatial"), upsample_factor=(1, 2, 1, 2), upsample_residual=(False,) * 4,
                          decoder_spatial_padding_mode="zeros", spatial_compression_ratio=16, temporal_compression_ratio=8)


@torch.no_grad()
def write_frames(name, settings, seed):
    torch.manual_seed(seed)
    model = with_statistics(rounded(randomise(AutoencoderKLLTX2Video(**settings), 1.5)))
    tensors, mean, std = {}, model.latents_mean.view(-1, 1, 1, 1), model.latents_std.view(-1, 1, 1, 1)
    for tiling in ("whole", "tiled"):
        model.enable_tiling(64, 64, tile_sample_stride_height=48, tile_sample_stride_width=48)
        model.use_tiling = tiling == "tiled"
        for kind, sizes in (("picture", (1, 96, 128)), ("clip", (41, 32, 48))):
            moments = model.encode(counted(1, 3, *sizes) / 127.5 - 1).latent_dist
            tensors |= {f"{kind}.{tiling}.mean": (moments.mean - mean) / std, f"{kind}.{tiling}.logvar": moments.logvar[:, :1].contiguous()}
        for kind, sizes in (("picture", (1, 6, 8)), ("clip", (6, 2, 3))):
            latents = counted(1, 4, *sizes) / 64 - 2
            tensors[f"{kind}.{tiling}.decoded"] = digest(model.decode(latents * std + mean).sample.clamp(-1, 1))
    write(name, model, settings, tensors)


SOUND = dict(base_channels=8, ch_mult=(1, 2, 1), num_res_blocks=1, latent_channels=2, mel_bins=16)


def tone(count):
    """Samples [1, 2, count] of a rising tone, and of two others."""
    time = torch.arange(count, dtype=torch.float64) / 16000
    return torch.stack([torch.sin(1500 * time * (1 + 8 * time)) * 0.5, torch.sin(900 * time) * 0.3 + torch.sin(20000 * time) * 0.2])[None]


def log_bands(samples, num_bands):
    """The logarithm of the strength of bands [1, S, T, bands], fp64."""
    weights = torch.from_numpy(mel_filter_bank(513, num_bands, 0.0, 8000.0, 16000, norm="slaney", mel_scale="slaney"))
    windows = torch.stft(samples[0], 1024, 160, window=torch.hann_window(1024, dtype=torch.float64), center=True, pad_mode="reflect", return_complex=True).abs()
    return (windows.transpose(1, 2) @ weights).clamp_min(1e-5).log()[None]


@torch.no_grad()
def write_sound():
    torch.manual_seed(31)
    model = with_statistics(rounded(randomise(AutoencoderKLLTX2Audio(**SOUND), 1.5)))
    pack = lambda x: x.permute(0, 2, 1, 3).flatten(2)  # [B, C, T, bands] to [B, T, C * bands], as the pipeline does before it normalises
    samples = tone(4800)
    bands = log_bands(samples, 16)
    latents = (pack(model.encode(bands.float()).latent_dist.mode()) - model.latents_mean) / model.latents_std
    given = counted(1, 8, 5) / 64 - 2
    raw = given.transpose(1, 2) * model.latents_std + model.latents_mean
    decoded = model.decode(raw.unflatten(2, (2, 4)).transpose(1, 2)).sample
    write("sound", model, SOUND, {"bands": bands.float(), "bands_of_64": digest(log_bands(samples, 64)), "latents": latents.transpose(1, 2), "decoded": digest(decoded)})


BLOCKS = dict(resnet_kernel_sizes=(3, 5), resnet_dilations=((1, 3), (1, 2)))
VOCODER_20 = dict(in_channels=32, hidden_channels=16, upsample_kernel_sizes=(7, 4), upsample_factors=(3, 2), output_sampling_rate=600) | BLOCKS
VOCODER_23 = dict(in_channels=32, hidden_channels=16, upsample_kernel_sizes=(6, 4), upsample_factors=(2, 2), bwe_in_channels=8, bwe_hidden_channels=8, bwe_upsample_kernel_sizes=(5, 4),
                  bwe_upsample_factors=(3, 2), filter_length=8, hop_length=2, window_length=8, num_mel_channels=4, input_sampling_rate=400, output_sampling_rate=1200,
                  bwe_resnet_kernel_sizes=(3,), bwe_resnet_dilations=((1, 3, 5),)) | BLOCKS


@torch.no_grad()
def write_vocoder(name, kind, settings, seed, quiet):
    torch.manual_seed(seed)
    model = randomise(kind(**settings), 1.2)
    for part, parameter in model.named_parameters():
        if "conv_out" in part:
            parameter.mul_(quiet)  # so that few samples reach the bounds
    rounded(model)
    for part, buffer in model.named_buffers():
        if part.endswith("_basis"):
            buffer.copy_(torch.rand_like(buffer) if "mel" in part.split(".")[-1] else torch.randn_like(buffer) * 0.3)
        if "resampler" not in part:  # which no file holds
            buffer.copy_(buffer.to(torch.bfloat16))
    write(name, model, settings, {"sound": model(counted(1, 2, 9, 16) / 64 - 2)})


if __name__ == "__main__":
    OUT.mkdir(exist_ok=True)
    write_frames("frames_20", FRAMES_20, 20)
    write_frames("frames_23", FRAMES_23, 23)
    write_sound()
    write_vocoder("vocoder_20", LTX2Vocoder, VOCODER_20, 41, 0.2)
    write_vocoder("vocoder_23", LTX2VocoderWithBWE, VOCODER_23, 42, 0.01)
