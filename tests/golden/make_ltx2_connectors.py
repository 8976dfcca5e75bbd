#!/usr/bin/env python3
"""Golden files of what stands between LTX-2's text encoder and its transformer: small random connectors of diffusers.

ltx2_connectors_20.safetensors, in diffusers' names, and ltx2_connectors_23.safetensors, in those of original single files: w.<parameter>
in bf16; in.states.<number> [2, L, C] of two texts, the second one shorter and filled up in front, and in.lengths; out.features.<stream>
of the first text alone and of the second one's own tokens, out.<stream>, and grad.<parameter>, digests of the gradients of
sum(out · wave) over both streams. The metadata holds config.json.
"""
import json, pathlib
import torch
from diffusers.pipelines.ltx2.connectors import LTX2TextConnectors
from safetensors.torch import save_file

from digest import digest
from make_encoders import rounded

HERE = pathlib.Path(__file__).parent
STATES, TOKENS, LENGTHS = 11, 12, (7, 4)


def original(name):
    """A name of diffusers' as single files have it."""
    for ours, theirs in (("video_connector.", "model.diffusion_model.video_embeddings_connector."), ("audio_connector.", "model.diffusion_model.audio_embeddings_connector."),
                         ("transformer_blocks", "transformer_1d_blocks"), ("norm_q", "q_norm"), ("norm_k", "k_norm"), ("video_text_proj_in", "text_embedding_projection.video_aggregate_embed"),
                         ("audio_text_proj_in", "text_embedding_projection.audio_aggregate_embed")):
        name = name.replace(ours, theirs)
    return name


def connectors(kind, seed, names, **config):
    torch.manual_seed(seed)
    model = LTX2TextConnectors(text_proj_in_factor=STATES, video_connector_num_learnable_registers=4, audio_connector_num_learnable_registers=4, rope_type="split", video_connector_num_layers=2,
                               audio_connector_num_layers=2, **config)
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.copy_(torch.randn_like(p) / (p.shape[-1] ** 0.5 if p.dim() > 1 else 4) + (1 if "norm" in name else 0))
    rounded(model)
    kept = {}
    for stream in ("video", "audio"):
        getattr(model, f"{stream}_connector").register_forward_pre_hook(lambda _, given, stream=stream: kept.update({stream: given[0].detach()}))
    states = [torch.randn(2, TOKENS, model.config.caption_channels) * (1 + i) for i in range(STATES)]
    mask = torch.zeros(2, TOKENS)
    for row, length in enumerate(LENGTHS):
        mask[row, TOKENS - length:] = 1
    outs = dict(zip(("video", "audio"), model(torch.stack(states, -1).flatten(2), mask)))
    sum((out * torch.cos(torch.arange(out.numel()).view_as(out) * 0.7)).sum() for out in outs.values()).backward()
    tensors = {f"w.{names(k)}": v.detach().to(torch.bfloat16).clone() for k, v in model.named_parameters()}
    tensors |= {f"in.states.{i}": s for i, s in enumerate(states)} | {"in.lengths": torch.tensor(LENGTHS)}
    tensors |= {f"out.{k}": v.detach() for k, v in outs.items()}
    tensors |= {f"out.features.{k}.{row}": v[row, TOKENS - length:].clone() for k, v in kept.items() for row, length in enumerate(LENGTHS)}
    tensors |= {f"grad.{k}": digest(p.grad) for k, p in model.named_parameters() if "proj_in" not in k}
    save_file(tensors, HERE / f"ltx2_connectors_{kind}.safetensors", metadata={"config": json.dumps(dict(model.config))})


if __name__ == "__main__":
    heads = lambda video, audio: dict(video_connector_num_attention_heads=video[0], video_connector_attention_head_dim=video[1], audio_connector_num_attention_heads=audio[0],
                                      audio_connector_attention_head_dim=audio[1])
    connectors("20", 1, str, caption_channels=16, **heads((2, 8), (2, 8)))
    connectors("23", 2, original, caption_channels=12, per_modality_projections=True, proj_bias=True, video_hidden_dim=16, audio_hidden_dim=8, video_gated_attn=True, audio_gated_attn=True,
               **heads((2, 8), (2, 4)))
