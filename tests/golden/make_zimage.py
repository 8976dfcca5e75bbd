#!/usr/bin/env python3
"""A whole small Z-Image pipeline with random weights, and what diffusers + peft do with it, in zimage_pipeline/:

model/                a diffusers folder, its transformer in bf16, with the tokenizer of tokenizers/qwen_json (make_qwen.py makes it)
lora.safetensors      an adapter as diffusers' save_lora_weights writes it, rank 4, alpha 2
replay.safetensors    step.{i}.noise, step.{i}.sigma, step.{i}.sample of ten steps; pictures and captions are those of pipeline/
expected.safetensors  {lora,full}.{loss,grad_norm} of ten steps, initial noise and the latents after 4 sampling steps: plain, with the
                      LoRA, with guidance; the captions differ in length
batch.safetensors     the transformer alone on a batch whose captions differ in length: in.<input>, out, out_weight, and
                      grad.<parameter>: the digest of the gradient of sum(out * out_weight)
"""
import csv, pathlib, shutil
import numpy as np
import torch
import torch.nn.functional as F
from diffusers import AutoencoderKL, FlowMatchEulerDiscreteScheduler, ZImagePipeline, ZImageTransformer2DModel
from PIL import Image
from safetensors.torch import save_file
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

import training_loop
from digest import digest
from make_encoders import randomise

HERE = pathlib.Path(__file__).parent
OUT = HERE / "zimage_pipeline"
PICTURES = HERE / "pipeline/pictures"
STEPS = 10
TARGETS = ["to_q", "to_k", "to_v", "to_out.0", "w1", "w2", "w3"]
PROMPTS = ["red apple", "tree of the north, a cat face, smiling, a red apple on the tree, and a cat on it"]
# As Qwen3's own for one turn; the line end behind the last word belongs to it.
CHAT = "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}{{ '<|im_start|>assistant\n' }}"


def parts():
    torch.manual_seed(0)
    tokens = PreTrainedTokenizerFast(tokenizer_file=str(HERE / "tokenizers/qwen_json/tokenizer.json"), pad_token="<|endoftext|>", padding_side="right", chat_template=CHAT)
    text = randomise(Qwen3ForCausalLM(Qwen3Config(vocab_size=len(tokens) + 1, hidden_size=16, intermediate_size=24, num_hidden_layers=3, num_attention_heads=2,
                                                  num_key_value_heads=1, head_dim=8, rope_theta=1e6, tie_word_embeddings=True)), 1.5)
    vae = randomise(AutoencoderKL(in_channels=3, out_channels=3, down_block_types=("DownEncoderBlock2D",) * 4, up_block_types=("UpDecoderBlock2D",) * 4,
                                  block_out_channels=(8, 8, 16, 16), layers_per_block=1, latent_channels=16, norm_num_groups=4, use_quant_conv=False,
                                  use_post_quant_conv=False, shift_factor=0.1, scaling_factor=0.6, force_upcast=False))
    transformer = randomise(ZImageTransformer2DModel(in_channels=16, dim=32, n_layers=3, n_refiner_layers=1, n_heads=2, n_kv_heads=2, cap_feat_dim=16,
                                                     axes_dims=[4, 6, 6]), 0.7)
    for block in [*transformer.layers, *transformer.noise_refiner]:  # gates of which tanh leaves something
        block.adaLN_modulation[0].weight.data *= 0.5
    transformer = transformer.to(torch.bfloat16)
    scheduler = FlowMatchEulerDiscreteScheduler(shift=3.0)
    return ZImagePipeline(scheduler=scheduler, vae=vae, text_encoder=text, tokenizer=tokens, transformer=transformer)


@torch.no_grad()
def encode(pipe):
    samples = []
    for row in csv.DictReader(open(PICTURES / "metadata.csv")):
        x = torch.from_numpy(np.asarray(Image.open(PICTURES / row["image"]))).permute(2, 0, 1)[None].float() / 127.5 - 1
        latents = (pipe.vae.encode(x).latent_dist.mode() - pipe.vae.config.shift_factor) * pipe.vae.config.scaling_factor
        samples.append((latents[0], pipe.encode_prompt(row["prompt"], do_classifier_free_guidance=False)[0][0]))
    return samples


def predict(model, noisy, sigma, captions):
    """Velocities of a batch [B, C, H, W], the negative of what the model gives."""
    out = model([x[:, None] for x in noisy], 1 - sigma, captions, return_dict=False)[0]
    return -torch.stack(out)[:, :, 0]


def train(pipe, samples, replay, parameters):
    def loss_of(step):
        latents, caption = samples[int(replay[f"step.{step}.sample"])]
        noise, sigma = replay[f"step.{step}.noise"], replay[f"step.{step}.sigma"]
        prediction = predict(pipe.transformer, [(1 - sigma) * latents + sigma * noise], sigma.reshape(1), [caption])
        return F.mse_loss(prediction[0], noise - latents)

    return training_loop.train(parameters, STEPS, loss_of)


@torch.no_grad()
def sampled(pipe, noise, **options):
    return pipe(prompt=list(PROMPTS), latents=noise, height=noise.shape[2] * 8, width=noise.shape[3] * 8, num_inference_steps=4,
                output_type="latent", **{"guidance_scale": 0.0, **options}).images


def batch(model):
    """Captions of less and of more than 32 tokens; 12 tokens of picture, which are filled up to 32."""
    torch.manual_seed(3)
    captions = [torch.randn(5, 16), torch.randn(37, 16)]
    noisy, sigma = torch.randn(2, 16, 6, 8), torch.tensor([0.83, 0.21])
    out = predict(model, noisy, sigma, captions)
    out_weight = torch.randn_like(out)
    (out * out_weight).sum().backward()
    tensors = {"in.noisy": noisy, "in.sigma": sigma, "in.caption.0": captions[0], "in.caption.1": captions[1], "out": out.detach(), "out_weight": out_weight}
    save_file(tensors | {f"grad.{n}": digest(p.grad) for n, p in model.named_parameters()}, OUT / "batch.safetensors")
    model.zero_grad()


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir()
    pipe = parts()
    pipe.set_progress_bar_config(disable=True)
    pipe.save_pretrained(OUT / "model")
    pipe.transformer.float()
    batch(pipe.transformer)
    samples = encode(pipe)

    torch.manual_seed(7)
    replay = {}
    for i in range(STEPS):
        replay |= {f"step.{i}.noise": torch.randn(16, 6, 8), f"step.{i}.sigma": torch.rand(()) * 0.9 + 0.05, f"step.{i}.sample": torch.tensor(i * 3 % len(samples))}
    save_file(replay, OUT / "replay.safetensors")

    noise = torch.randn(2, 16, 6, 8)
    expected = {"noise": noise, "latents.plain": sampled(pipe, noise),
                "latents.cfg": sampled(pipe, noise, guidance_scale=1.5, negative_prompt=["cat", "cat"]),
                "latents.cfg_empty": sampled(pipe, noise, guidance_scale=1.5)}
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
    print(expected["full.loss"], expected["lora.loss"], [(k, v.std()) for k, v in expected.items() if k.startswith("latents")], [len(c) for _, c in samples])


if __name__ == "__main__":
    main()
