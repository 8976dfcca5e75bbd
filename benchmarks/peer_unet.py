"""The peer: diffusers' UNet with a peft LoRA or DoRA or whole, one process a case, its figures as JSON in --out.

Latents and text embeddings are random and ready, so the peer runs no encoder and writes no file: what is measured is its loop alone.
--dtype fp8 stores the frozen weights in FP8 and casts them at each use (diffusers' layerwise casting), computing in bf16.
"""
import argparse

import peer_loop


def arguments():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--unet", required=True, help="folder with config.json and weights")
    p.add_argument("--train", choices=["lora", "dora", "full"], required=True)
    p.add_argument("--dtype", choices=["fp32", "bf16", "fp8"], required=True)
    p.add_argument("--latent_side", type=int, required=True)
    p.add_argument("--compile", action="store_true", help="torch.compile")
    peer_loop.add_options(p)
    return p.parse_args()


args = arguments()
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from diffusers import UNet2DConditionModel  # noqa: E402

torch.set_num_threads(args.threads)
torch.manual_seed(0)
DTYPE = torch.float32 if args.dtype == "fp32" else torch.bfloat16


def load():
    model = UNet2DConditionModel.from_pretrained(args.unet, torch_dtype=DTYPE).to(args.device)
    if args.train != "full":
        model.requires_grad_(False)
        if args.dtype == "fp8":
            model.enable_layerwise_casting(storage_dtype=torch.float8_e4m3fn, compute_dtype=DTYPE)
        peer_loop.add_adapter(model, args, use_dora=args.train == "dora", dtype=DTYPE)
    if args.checkpointing:
        model.enable_gradient_checkpointing()
    return model.train()


class Loop(peer_loop.Loop):
    def __init__(self, model):
        super().__init__(model, args)
        c = model.config
        options, batch = {"dtype": DTYPE, "device": args.device}, args.batch_size
        self.latents = torch.randn(batch, c.in_channels, args.latent_side, args.latent_side, **options)
        self.text = torch.randn(batch, args.text_tokens, c.cross_attention_dim, **options)
        pooled = c.projection_class_embeddings_input_dim - 6 * c.addition_time_embed_dim
        side = 8.0 * args.latent_side
        self.added = {"text_embeds": torch.randn(batch, pooled, **options),
                      "time_ids": torch.tensor([[side, side, 0, 0, side, side]] * batch, device=args.device)}
        betas = torch.linspace(0.00085**0.5, 0.012**0.5, 1000, device=args.device) ** 2
        self.kept = torch.cumprod(1 - betas, 0)
        self.forward = torch.compile(model) if args.compile else model

    def loss(self):
        timestep = torch.randint(0, 1000, (args.batch_size,), device=args.device)
        noise = torch.randn_like(self.latents)
        a = self.kept[timestep].to(DTYPE)[:, None, None, None]
        predicted = self.forward(a.sqrt() * self.latents + (1 - a).sqrt() * noise, timestep, self.text, added_cond_kwargs=self.added).sample
        return F.mse_loss(predicted.float(), noise.float())


Loop(load()).run(args)
