#!/usr/bin/env python3
"""Golden files of the encoders: small random CLIP, T5 and KL autoencoders of transformers and diffusers with inputs and outputs.

clip_<kind>.safetensors, t5_<kind>.safetensors, kl_<kind>.safetensors; names w.<parameter>, in.<input>, out.<output>; the metadata
holds config.json. Weights are stored as the libraries save them, so prefixes and tied tables are part of the test.
"""
import json, pathlib
import torch
from diffusers import AutoencoderKL
from safetensors.torch import save_file
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTextModelWithProjection, T5Config, T5EncoderModel, UMT5Config, UMT5EncoderModel

HERE = pathlib.Path(__file__).parent


def randomise(model, gain=1.0):
    with torch.no_grad():
        for name, p in model.named_parameters():
            fan_in = p[0].numel() if p.dim() > 1 else 1
            p.copy_(torch.randn_like(p) * (0.2 if p.dim() < 2 else gain / fan_in ** 0.5))
            if p.dim() == 1 and name.endswith("weight"):
                p.add_(1)
    return model.eval()


def rounded(model):
    """Its parameters as bf16 holds them."""
    for p in model.parameters():
        p.data = p.data.to(torch.bfloat16).float()
    return model


def write(name, model, config, inputs, outputs):
    tensors = {f"w.{k}": v.contiguous().clone() for k, v in model.state_dict().items()}
    tensors |= {f"in.{k}": v for k, v in inputs.items()} | {f"out.{k}": v.detach().contiguous() for k, v in outputs.items()}
    save_file(tensors, HERE / f"{name}.safetensors", metadata={"config": json.dumps(config)})


def clip(kind, seed, **config):
    torch.manual_seed(seed)
    model = randomise(CLIPTextModel(CLIPTextConfig(vocab_size=50, hidden_size=24, intermediate_size=40, num_hidden_layers=3, num_attention_heads=3,
                                                   max_position_embeddings=12, **config)))
    eos = config["eos_token_id"] if config["eos_token_id"] != 2 else 49
    ids = torch.randint(3, 48, (3, 12))
    for row, length in enumerate((4, 11, 7)):
        ids[row, length:] = eos
    out = model(ids)
    write(f"clip_{kind}", model, model.config.to_dict(), {"ids": ids}, {"hidden": out.last_hidden_state, "pooled": out.pooler_output})


def clip_projected(seed):
    """As SDXL's second encoder: projected pooled embedding, every hidden state."""
    torch.manual_seed(seed)
    model = randomise(CLIPTextModelWithProjection(CLIPTextConfig(vocab_size=50, hidden_size=24, intermediate_size=40, num_hidden_layers=3, num_attention_heads=3,
                                                                 max_position_embeddings=12, projection_dim=20, hidden_act="gelu", eos_token_id=2, pad_token_id=0)))
    ids = torch.randint(3, 48, (3, 12))
    for row, length in enumerate((4, 11, 7)):
        ids[row, length:] = 0
        ids[row, length] = 49
    out = model(ids, output_hidden_states=True)
    write("clip_projected", model, model.config.to_dict(), {"ids": ids},
          {"hidden": out.last_hidden_state, "projected": out.text_embeds} | {f"state.{i}": h for i, h in enumerate(out.hidden_states)})


def t5(kind, seed, of=(T5EncoderModel, T5Config), **config):
    torch.manual_seed(seed)
    model = of[0](of[1](vocab_size=60, d_model=24, d_kv=6, d_ff=40, num_layers=3, num_heads=4, **config))
    randomise(model, 1.0)
    ids = torch.randint(0, 60, (2, 140))  # longer than relative_attention_max_distance
    write(f"t5_{kind}", model, model.config.to_dict(), {"ids": ids}, {"hidden": model(ids).last_hidden_state})


def kl(kind, seed, gain=1.0, **config):
    """`gain` multiplies what enters both halves, so that their activations leave the range of fp16."""
    torch.manual_seed(seed)
    config = dict(in_channels=3, out_channels=3, layers_per_block=1, norm_num_groups=4, **config)
    levels = len(config["block_out_channels"])
    config |= dict(down_block_types=("DownEncoderBlock2D",) * levels, up_block_types=("UpDecoderBlock2D",) * levels)
    model = randomise(AutoencoderKL(**config))
    with torch.no_grad():
        for conv in (model.encoder.conv_in, model.decoder.conv_in):
            conv.weight *= gain
    image, latents = torch.rand(2, 3, 32, 48) * 2 - 1, torch.randn(2, config["latent_channels"], 8, 12)
    posterior = model.encode(image).latent_dist
    write(f"kl_{kind}", model, dict(model.config), {"image": image, "latents": latents},
          {"mean": posterior.mean, "logvar": posterior.logvar, "decoded": model.decode(latents).sample})


if __name__ == "__main__":
    with torch.no_grad():
        clip("l", 1, hidden_act="quick_gelu", bos_token_id=0, eos_token_id=2, pad_token_id=1)
        clip("other", 2, hidden_act="gelu", bos_token_id=0, eos_token_id=48, pad_token_id=1)
        clip_projected(7)
        t5("v1_1", 3, feed_forward_proj="gated-gelu")
        t5("plain", 4, feed_forward_proj="relu")
        t5("umt5", 9, of=(UMT5EncoderModel, UMT5Config))
        kl("shifted", 5, block_out_channels=(8, 16, 16), latent_channels=16, shift_factor=0.1159, scaling_factor=0.3611,
           use_quant_conv=False, use_post_quant_conv=False)
        kl("quant_conv", 6, block_out_channels=(8, 16, 8), latent_channels=4, scaling_factor=0.18215)
        kl("large", 8, gain=5.0e4, block_out_channels=(8, 16, 8), latent_channels=4, scaling_factor=0.13025)
