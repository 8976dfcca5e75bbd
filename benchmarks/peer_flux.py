"""The peer: diffusers' FLUX transformer with a peft LoRA or whole, one process a case, its figures as JSON in --out.

Latents and text embeddings are random and ready, so the peer runs no encoder and writes no file: what is measured is its loop alone.
"""
import argparse

import peer_loop


def arguments():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--transformer", required=True, help="folder with config.json and weights")
    p.add_argument("--train", choices=["lora", "full"], required=True)
    p.add_argument("--dtype", choices=["fp32", "bf16"], required=True, help="of every tensor")
    p.add_argument("--dora", action="store_true", help="peft's use_dora")
    p.add_argument("--fp8", action="store_true", help="hold linear weights in E4M3 without scales and cast them at each use, as trainers with FP8 models do")
    p.add_argument("--image_side", type=int, required=True, help="the picture is this many tokens high and wide")
    peer_loop.add_options(p)
    return p.parse_args()


args = arguments()
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from diffusers import FluxTransformer2DModel  # noqa: E402

torch.set_num_threads(args.threads)
torch.manual_seed(0)
DTYPE = {"fp32": torch.float32, "bf16": torch.bfloat16}[args.dtype]


def load():
    model = FluxTransformer2DModel.from_pretrained(args.transformer, torch_dtype=DTYPE).to(args.device)
    if args.train == "lora":
        model.requires_grad_(False)
        peer_loop.add_adapter(model, args, use_dora=args.dora, dtype=DTYPE)
    if args.fp8:
        for name, module in model.named_modules():
            if isinstance(module, torch.nn.Linear) and "lora_" not in name and "blocks" in name and ".norm" not in name:
                module.weight.data = module.weight.data.to(torch.float8_e4m3fn)
                module.forward = lambda x, m=module: F.linear(x, m.weight.to(x.dtype), m.bias)
    if args.checkpointing:
        model.enable_gradient_checkpointing()
    return model.train()


class Loop(peer_loop.Loop):
    def __init__(self, model):
        super().__init__(model, args)
        c = model.config
        options = {"dtype": DTYPE, "device": args.device}
        batch, side = args.batch_size, args.image_side
        self.latents = torch.randn(batch, side * side, c.in_channels, **options)
        self.fixed = {"encoder_hidden_states": torch.randn(batch, args.text_tokens, c.joint_attention_dim, **options),
                      "pooled_projections": torch.randn(batch, c.pooled_projection_dim, **options),
                      "txt_ids": torch.zeros(args.text_tokens, 3, device=args.device), "img_ids": self.image_ids(side),
                      "guidance": torch.ones(batch, device=args.device) if c.guidance_embeds else None}

    @staticmethod
    def image_ids(side):
        ids = torch.zeros(side, side, 3, device=args.device)
        ids[..., 1] = torch.arange(side, device=args.device)[:, None]
        ids[..., 2] = torch.arange(side, device=args.device)[None, :]
        return ids.reshape(-1, 3)

    def loss(self):
        sigma = torch.rand(args.batch_size, device=args.device)
        noise = torch.randn_like(self.latents)
        s = sigma.to(DTYPE)[:, None, None]
        predicted = self.model(hidden_states=(1 - s) * self.latents + s * noise, timestep=sigma, return_dict=False, **self.fixed)[0]
        return F.mse_loss(predicted.float(), (noise - self.latents).float())


Loop(load()).run(args)
