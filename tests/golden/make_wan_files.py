#!/usr/bin/env python3
"""The small model of wan_pipeline/ in the files and names that Wan itself publishes, in wan_original/ (its tokenizer is that of
wan_pipeline/): config.json of the transformer, and names.json, the original names of the tensors of
transformer, text encoder and autoencoder, each with diffusers' name behind it.
And wan_residual_vae.json: the original names of a small autoencoder as Wan 2.2's (causal_video_residual.safetensors), each with
diffusers' name behind it.
"""
import json, pathlib, re, shutil
from safetensors.torch import load_file

HERE = pathlib.Path(__file__).parent
MODEL, OUT = HERE / "wan_pipeline/model", HERE / "wan_original"

TRANSFORMER = [
    (r"^condition_embedder\.text_embedder\.linear_1", "text_embedding.0"), (r"^condition_embedder\.text_embedder\.linear_2", "text_embedding.2"),
    (r"^condition_embedder\.time_embedder\.linear_1", "time_embedding.0"), (r"^condition_embedder\.time_embedder\.linear_2", "time_embedding.2"),
    (r"^condition_embedder\.time_proj", "time_projection.1"), (r"^scale_shift_table", "head.modulation"), (r"^proj_out", "head.head"),
    (r"\.scale_shift_table", ".modulation"), (r"\.norm2\.", ".norm3."), (r"\.attn1\.", ".self_attn."), (r"\.attn2\.", ".cross_attn."),
    (r"\.to_([qkv])\.", r".\1."), (r"\.to_out\.0\.", ".o."), (r"\.ffn\.net\.0\.proj", ".ffn.0"), (r"\.ffn\.net\.2", ".ffn.2")]
TEXT = [
    (r"^shared\.", "token_embedding."), (r"^encoder\.final_layer_norm", "norm"), (r"^encoder\.block\.", "blocks."),
    (r"layer\.0\.layer_norm", "norm1"), (r"layer\.1\.layer_norm", "norm2"), (r"layer\.0\.SelfAttention\.relative_attention_bias", "pos_embedding.embedding"),
    (r"layer\.0\.SelfAttention", "attn"), (r"layer\.1\.DenseReluDense\.wi_0", "ffn.gate.0"), (r"layer\.1\.DenseReluDense\.wi_1", "ffn.fc1"),
    (r"layer\.1\.DenseReluDense\.wo", "ffn.fc2")]
RESNET = [("norm1.gamma", "residual.0.gamma"), ("conv1", "residual.2"), ("norm2.gamma", "residual.3.gamma"), ("conv2", "residual.6"), ("conv_shortcut", "shortcut")]
VAE = [(r"^quant_conv", "conv1"), (r"^post_quant_conv", "conv2"), (r"conv_in", "conv1"), (r"norm_out", "head.0"), (r"conv_out", "head.2"),
       (r"mid_block\.resnets\.0", "middle.0"), (r"mid_block\.resnets\.1", "middle.2"), (r"mid_block\.attentions\.0", "middle.1")]


def renamed(name, rules):
    for pattern, new in rules:
        name = re.sub(pattern, new, name)
    return name


def resnet(name):
    for ours, theirs in RESNET:
        name = name.replace("." + ours, "." + theirs)
    return name


def original_vae(name, blocks, by_level=False):
    """`blocks`: residual blocks of a level of the encoder; the decoder's have one more."""
    name = renamed(resnet(name), VAE)
    if by_level:
        name = re.sub(r"down_blocks\.(\d+)\.resnets\.", r"downsamples.\1.downsamples.", name)
        name = re.sub(r"up_blocks\.(\d+)\.resnets\.", r"upsamples.\1.upsamples.", name)
        name = re.sub(r"down_blocks\.(\d+)\.downsampler", rf"downsamples.\g<1>.downsamples.{blocks}", name)
        name = re.sub(r"up_blocks\.(\d+)\.upsampler", rf"upsamples.\g<1>.upsamples.{blocks + 1}", name)
        return name
    name = name.replace("encoder.down_blocks.", "encoder.downsamples.")
    at = lambda m: f"upsamples.{int(m[1]) * (blocks + 2) + int(m[2])}"
    name = re.sub(r"up_blocks\.(\d+)\.resnets\.(\d+)", at, name)
    name = re.sub(r"up_blocks\.(\d+)\.upsamplers\.0", lambda m: f"upsamples.{int(m[1]) * (blocks + 2) + blocks + 1}", name)
    return name


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir()
    text = sorted(load_file(MODEL / "text_encoder/model.safetensors"))
    transformer, vae = (sorted(load_file(MODEL / part / "diffusion_pytorch_model.safetensors")) for part in ("transformer", "vae"))
    names = {"transformer": {renamed(n, TRANSFORMER): n for n in transformer}, "vae": {original_vae(n, 1): n for n in vae},
             "text_encoder": {renamed(n, TEXT): n for n in text if n != "encoder.embed_tokens.weight"}}
    (OUT / "names.json").write_text(json.dumps(names, indent=0) + "\n")
    config = {"_class_name": "WanModel", "_diffusers_version": "0.30.0", "dim": 24, "eps": 1e-06, "ffn_dim": 32, "freq_dim": 32, "in_dim": 16, "model_type": "t2v",
              "num_heads": 2, "num_layers": 2, "out_dim": 16, "text_len": 512}
    (OUT / "config.json").write_text(json.dumps(config, indent=2) + "\n")

    ours = [n[2:] for n in load_file(HERE / "causal_video_residual.safetensors") if n.startswith("w.")]
    (HERE / "wan_residual_vae.json").write_text(json.dumps({original_vae(n, 1, by_level=True): n for n in sorted(ours)}, indent=0) + "\n")
    for file in OUT.iterdir():
        file.chmod(0o644)


if __name__ == "__main__":
    main()
