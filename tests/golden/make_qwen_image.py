#!/usr/bin/env python3
"""A whole small Qwen-Image pipeline with random weights, and what diffusers + peft do with it, in qwen_image_pipeline/:

model/                a diffusers folder, its components in bf16, with the tokenizer of tokenizers/qwen_json (make_qwen.py makes it)
lora.safetensors      an adapter as diffusers' save_lora_weights writes it, rank 4, alpha 2
replay.safetensors    step.{i}.noise, step.{i}.sigma, step.{i}.sample of ten steps; pictures and captions are those of pipeline/
expected.safetensors  {lora,full}.{loss,grad_norm} of ten steps, initial noise and the latents after 4 sampling steps: plain, with the
                      LoRA, with guidance; the captions differ in length
batch.safetensors     the transformer alone on a batch whose captions differ in length: in.<input>, out, out_weight, and
                      grad.<parameter>: the digest of the gradient of sum(out * out_weight)
vae.safetensors       the autoencoder alone: image, and the mean and log-variance of its latents, normalised; latents, and what is decoded
text.safetensors      the text encoder alone: ids, and the states after the final norm
"""
import csv, pathlib, shutil
import numpy as np
import torch
import torch.nn.functional as F
from diffusers import AutoencoderKLQwenImage, FlowMatchEulerDiscreteScheduler, QwenImagePipeline, QwenImageTransformer2DModel
from PIL import Image
from safetensors.torch import save_file
from transformers import PreTrainedTokenizerFast, Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration

import training_loop
from digest import digest
from make_encoders import randomise, rounded

HERE = pathlib.Path(__file__).parent
OUT = HERE / "qwen_image_pipeline"
PICTURES = HERE / "pipeline/pictures"
STEPS = 10
TARGETS = ["to_q", "to_k", "to_v", "add_q_proj", "add_k_proj", "add_v_proj", "to_out.0", "to_add_out", "img_mlp.net.2", "img_mod.1", "txt_mlp.net.2", "txt_mod.1"]
PROMPTS = ["red apple", "tree of the north, a cat face, smiling, a red apple on the tree, and a cat on it"]
TEXT = dict(hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1, max_position_embeddings=2048, tie_word_embeddings=True,
            rope_parameters={"rope_type": "default", "type": "default", "rope_theta": 1e6, "mrope_section": [2, 1, 1]})
VISION = dict(depth=1, hidden_size=8, intermediate_size=8, num_heads=1, patch_size=2, spatial_merge_size=2, out_hidden_size=16)


def parts():
    torch.manual_seed(0)
    tokens = PreTrainedTokenizerFast(tokenizer_file=str(HERE / "tokenizers/qwen_json/tokenizer.json"), pad_token="<|endoftext|>", padding_side="right")
    text = randomise(Qwen2_5_VLForConditionalGeneration(Qwen2_5_VLConfig(text_config=TEXT | {"vocab_size": len(tokens) + 1}, vision_config=VISION, tie_word_embeddings=True)), 1.5)
    vae = randomise(AutoencoderKLQwenImage(base_dim=4, z_dim=16, num_res_blocks=1), 1.5)
    for name, p in vae.named_parameters():
        if name.endswith("gamma"):
            p.data = 1 + 0.2 * torch.randn_like(p)
    transformer = randomise(QwenImageTransformer2DModel(in_channels=64, out_channels=16, num_layers=3, attention_head_dim=16, num_attention_heads=2, joint_attention_dim=16,
                                                        axes_dims_rope=(4, 6, 6)), 0.7)
    scheduler = FlowMatchEulerDiscreteScheduler(base_image_seq_len=256, base_shift=0.5, max_image_seq_len=8192, max_shift=0.9, shift_terminal=0.02, use_dynamic_shifting=True)
    pipe = QwenImagePipeline(scheduler=scheduler, vae=rounded(vae), text_encoder=rounded(text), tokenizer=tokens, transformer=rounded(transformer))
    # The template has other tokens in the small vocabulary than the 34 of the real one.
    pipe.prompt_template_encode_start_idx = len(tokens(pipe.prompt_template_encode.split("{}")[0]).input_ids)
    return pipe


def scale(vae):
    return [torch.tensor(v)[None, :, None, None, None] for v in (vae.config.latents_mean, vae.config.latents_std)]


@torch.no_grad()
def encode(pipe):
    mean, std = scale(pipe.vae)
    samples = []
    for row in csv.DictReader(open(PICTURES / "metadata.csv")):
        x = torch.from_numpy(np.array(Image.open(PICTURES / row["image"]))).permute(2, 0, 1)[None, :, None].float() / 127.5 - 1
        latents = (pipe.vae.encode(x).latent_dist.mode() - mean) / std
        samples.append((latents[0, :, 0], pipe.encode_prompt(row["prompt"])[0][0]))
    return samples


def pack(x):
    return QwenImagePipeline._pack_latents(x, *x.shape)


def unpack(x, rows, columns):
    return QwenImagePipeline._unpack_latents(x, rows * 8, columns * 8, 8)[:, :, 0]


def predict(model, noisy, sigma, captions):
    """Velocities of a batch [B, C, H, W]."""
    longest = max(len(c) for c in captions)
    text = torch.stack([F.pad(c, (0, 0, 0, longest - len(c))) for c in captions])
    mask = torch.stack([torch.arange(longest) < len(c) for c in captions])
    h, w = noisy.shape[2:]
    out = model(pack(noisy), encoder_hidden_states=text, encoder_hidden_states_mask=None if mask.all() else mask, timestep=sigma,
                img_shapes=[[(1, h // 2, w // 2)]] * len(noisy), return_dict=False)[0]
    return unpack(out, h, w)


def train(pipe, samples, replay, parameters):
    def loss_of(step):
        latents, caption = samples[int(replay[f"step.{step}.sample"])]
        noise, sigma = replay[f"step.{step}.noise"], replay[f"step.{step}.sigma"]
        prediction = predict(pipe.transformer, ((1 - sigma) * latents + sigma * noise)[None], sigma.reshape(1), [caption])
        return F.mse_loss(prediction[0], noise - latents)

    return training_loop.train(parameters, STEPS, loss_of)


@torch.no_grad()
def sampled(pipe, noise, **options):
    h, w = noise.shape[2:]
    images = pipe(prompt=list(PROMPTS), latents=pack(noise), height=h * 8, width=w * 8, num_inference_steps=4, output_type="latent", **{"true_cfg_scale": 1.0, **options}).images
    return unpack(images, h, w)


def batch(model):
    torch.manual_seed(3)
    captions = [torch.randn(5, 16), torch.randn(9, 16)]
    noisy, sigma = torch.randn(2, 16, 6, 10), torch.tensor([0.83, 0.21])
    out = predict(model, noisy, sigma, captions)
    out_weight = torch.randn_like(out)
    (out * out_weight).sum().backward()
    tensors = {"in.noisy": noisy, "in.sigma": sigma, "in.caption.0": captions[0], "in.caption.1": captions[1], "out": out.detach(), "out_weight": out_weight}
    grads = {f"grad.{n}": digest(p.grad) for n, p in model.named_parameters() if p.grad is not None}
    save_file(tensors | grads, OUT / "batch.safetensors")
    model.zero_grad()


@torch.no_grad()
def components(pipe):
    torch.manual_seed(5)
    mean, std = scale(pipe.vae)
    image, latents = torch.rand(2, 3, 1, 24, 40) * 2 - 1, torch.randn(1, 16, 1, 3, 5)
    moments = pipe.vae.encode(image).latent_dist
    save_file({"image": image[:, :, 0].contiguous(), "mean": ((moments.mean - mean) / std)[:, :, 0].contiguous(), "logvar": (moments.logvar - 2 * std.log())[:, :, 0].contiguous(),
               "latents": latents[:, :, 0].contiguous(), "decoded": pipe.vae.decode(latents * std + mean).sample[:, :, 0].contiguous()}, OUT / "vae.safetensors")
    ids = torch.randint(0, 200, (2, 11))
    save_file({"ids": ids, "states": pipe.text_encoder(input_ids=ids, output_hidden_states=True).hidden_states[-1].contiguous()}, OUT / "text.safetensors")


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir()
    parts().to(torch.bfloat16).save_pretrained(OUT / "model")
    pipe = parts()  # of which nothing was rounded but the parameters
    pipe.set_progress_bar_config(disable=True)
    batch(pipe.transformer)
    components(pipe)
    samples = encode(pipe)

    torch.manual_seed(7)
    replay = {}
    for i in range(STEPS):
        replay |= {f"step.{i}.noise": torch.randn(16, 6, 8), f"step.{i}.sigma": torch.rand(()) * 0.9 + 0.05, f"step.{i}.sample": torch.tensor(i * 3 % len(samples))}
    save_file(replay, OUT / "replay.safetensors")

    noise = torch.randn(2, 16, 6, 8)
    expected = {"noise": noise, "latents.plain": sampled(pipe, noise),
                "latents.cfg": sampled(pipe, noise, true_cfg_scale=2.5, negative_prompt=["cat", "cat"]),
                "latents.cfg_empty": sampled(pipe, noise, true_cfg_scale=2.5, negative_prompt=["", ""])}
    original = {n: p.detach().clone() for n, p in pipe.transformer.named_parameters()}
    losses, norms, _ = train(pipe, samples, replay, list(pipe.transformer.named_parameters()))
    expected |= {"full.loss": losses, "full.grad_norm": norms}
    pipe.transformer.load_state_dict(original)

    adapter = training_loop.add_adapter(pipe.transformer, TARGETS)
    save_file(training_loop.adapter_state("transformer", pipe.transformer), OUT / "lora.safetensors", metadata={"format": "pt"})
    expected["latents.lora"] = sampled(pipe, noise)
    losses, norms, _ = train(pipe, samples, replay, adapter)
    expected |= {"lora.loss": losses, "lora.grad_norm": norms}
    save_file({k: v.contiguous() for k, v in expected.items()}, OUT / "expected.safetensors")
    print(expected["full.loss"], expected["lora.loss"], [(k, v.std()) for k, v in expected.items() if k.startswith("latents")], [len(c) for _, c in samples],
          [(x.std(), x.abs().max()) for x, _ in samples])


if __name__ == "__main__":
    main()
