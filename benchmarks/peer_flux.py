"""The peer: diffusers' FLUX transformer with a peft LoRA or whole, one process a case, its figures as JSON in --out.

Latents and text embeddings are random and ready, so the peer runs no encoder and writes no file: what is measured is its loop alone.
"""
import argparse
import json
import time


def arguments():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--transformer", required=True, help="folder with config.json and weights")
    p.add_argument("--train", choices=["lora", "full"], required=True)
    p.add_argument("--dtype", choices=["fp32", "bf16"], required=True, help="of every tensor")
    p.add_argument("--targets", default="", help="regular expression for the layers of the LoRA")
    p.add_argument("--rank", type=int, default=16)
    p.add_argument("--dora", action="store_true", help="peft's use_dora")
    p.add_argument("--fp8", action="store_true", help="hold linear weights in E4M3 without scales and cast them at each use, as trainers with FP8 models do")
    p.add_argument("--batch_size", type=int, default=1)
    p.add_argument("--image_side", type=int, required=True, help="the picture is this many tokens high and wide")
    p.add_argument("--text_tokens", type=int, required=True)
    p.add_argument("--steps", type=int, required=True)
    p.add_argument("--device", default="cpu")
    p.add_argument("--checkpointing", action="store_true")
    p.add_argument("--threads", type=int, required=True)
    p.add_argument("--out", required=True)
    return p.parse_args()


args = arguments()
import diffusers  # noqa: E402
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from diffusers import FluxTransformer2DModel  # noqa: E402

torch.set_num_threads(args.threads)
torch.manual_seed(0)
DTYPE = {"fp32": torch.float32, "bf16": torch.bfloat16}[args.dtype]


def load():
    model = FluxTransformer2DModel.from_pretrained(args.transformer, torch_dtype=DTYPE).to(args.device)
    if args.train == "lora":
        from peft import LoraConfig
        model.requires_grad_(False)
        model.add_adapter(LoraConfig(r=args.rank, lora_alpha=args.rank, target_modules=args.targets, use_dora=args.dora))
        for parameter in model.parameters():  # peft makes its matrices in fp32
            if parameter.requires_grad:
                parameter.data = parameter.data.to(DTYPE)
    if args.fp8:
        for name, module in model.named_modules():
            if isinstance(module, torch.nn.Linear) and "lora_" not in name and "blocks" in name and ".norm" not in name:
                module.weight.data = module.weight.data.to(torch.float8_e4m3fn)
                module.forward = lambda x, m=module: F.linear(x, m.weight.to(x.dtype), m.bias)
    if args.checkpointing:
        model.enable_gradient_checkpointing()
    return model.train()


class Loop:
    def __init__(self, model):
        self.model, c = model, model.config
        options = {"dtype": DTYPE, "device": args.device}
        batch, side = args.batch_size, args.image_side
        self.latents = torch.randn(batch, side * side, c.in_channels, **options)
        self.fixed = {"encoder_hidden_states": torch.randn(batch, args.text_tokens, c.joint_attention_dim, **options),
                      "pooled_projections": torch.randn(batch, c.pooled_projection_dim, **options),
                      "txt_ids": torch.zeros(args.text_tokens, 3, device=args.device), "img_ids": self.image_ids(side),
                      "guidance": torch.ones(batch, device=args.device) if c.guidance_embeds else None}
        self.trained = [p for p in model.parameters() if p.requires_grad]
        self.optimizer = torch.optim.AdamW(self.trained, lr=1e-4, weight_decay=0.01)

    @staticmethod
    def image_ids(side):
        ids = torch.zeros(side, side, 3, device=args.device)
        ids[..., 1] = torch.arange(side, device=args.device)[:, None]
        ids[..., 2] = torch.arange(side, device=args.device)[None, :]
        return ids.reshape(-1, 3)

    def step(self):
        sigma = torch.rand(args.batch_size, device=args.device)
        noise = torch.randn_like(self.latents)
        s = sigma.to(DTYPE)[:, None, None]
        predicted = self.model(hidden_states=(1 - s) * self.latents + s * noise, timestep=sigma, return_dict=False, **self.fixed)[0]
        loss = F.mse_loss(predicted.float(), (noise - self.latents).float())
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss.item()  # waits for a GPU


loop = Loop(load())
seconds, losses, first_step_end = [], [], None
for _ in range(args.steps):
    begin = time.perf_counter()
    losses.append(loop.step())
    seconds.append(time.perf_counter() - begin)
    first_step_end = first_step_end or time.time()
on_cuda = args.device.startswith("cuda")
with open(args.out, "w") as file:
    json.dump({"step_seconds": seconds, "losses": losses, "first_step_end": first_step_end,
               "trained_parameters": sum(p.numel() for p in loop.trained),
               "peak_device_bytes": torch.cuda.max_memory_allocated() if on_cuda else 0,
               "versions": {"torch": torch.__version__, "diffusers": diffusers.__version__}}, file)
