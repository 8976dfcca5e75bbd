"""What the peers of diffusers and peft share: their options, the adapter, and the training loop with its figures as JSON in --out."""
import json
import os
import time


def add_options(p):
    p.add_argument("--targets", default="", help="regular expression for the layers of the adapter")
    p.add_argument("--rank", type=int, default=16)
    p.add_argument("--batch_size", type=int, default=1)
    p.add_argument("--text_tokens", type=int, required=True)
    p.add_argument("--steps", type=int, required=True)
    p.add_argument("--device", default="cpu")
    p.add_argument("--checkpointing", action="store_true")
    p.add_argument("--no_cudnn_attention", action="store_true", help="torch may not take cuDNN's attention, which some releases fail in")
    p.add_argument("--processes", choices=["one", "ddp", "fsdp2"], default="one", help="of torchrun, by accelerate: gradients summed, or all divided")
    p.add_argument("--optimizer", choices=["adamw", "adamw8bit"], default="adamw", help="torch's, or bitsandbytes' with 8-bit states")
    p.add_argument("--threads", type=int, required=True)
    p.add_argument("--out", required=True)


def add_adapter(model, args, use_dora, dtype):
    from peft import LoraConfig
    model.add_adapter(LoraConfig(r=args.rank, lora_alpha=args.rank, target_modules=args.targets, use_dora=use_dora))
    for parameter in model.parameters():  # peft makes its matrices in fp32
        if parameter.requires_grad:
            parameter.data = parameter.data.to(dtype)


def accelerator_of(model, args):
    from accelerate import Accelerator, FullyShardedDataParallelPlugin
    if args.processes == "ddp":
        return Accelerator(cpu=args.device == "cpu")
    blocks = sorted({type(b).__name__ for m in model.children() if type(m).__name__ == "ModuleList" for b in m})
    plugin = FullyShardedDataParallelPlugin(fsdp_version=2, auto_wrap_policy="transformer_based_wrap", transformer_cls_names_to_wrap=blocks)
    return Accelerator(cpu=args.device == "cpu", fsdp_plugin=plugin)


class Loop:
    """Plain AdamW steps over `loss()`, which a peer gives."""

    def __init__(self, model, args):
        import torch
        torch.backends.cuda.enable_cudnn_sdp(not args.no_cudnn_attention)
        self.model = model
        self.trained = [p for p in model.parameters() if p.requires_grad]
        self.num_trained = sum(p.numel() for p in self.trained)
        if args.optimizer == "adamw8bit":
            import bitsandbytes
            self.optimizer = bitsandbytes.optim.AdamW8bit(self.trained, lr=1e-4, weight_decay=0.01)
        else:
            self.optimizer = torch.optim.AdamW(self.trained, lr=1e-4, weight_decay=0.01)
        self.backward = lambda loss: loss.backward()
        if args.processes != "one":
            accelerator = accelerator_of(model, args)
            self.model, self.optimizer = accelerator.prepare(self.model, self.optimizer)
            self.backward = accelerator.backward

    def step(self):
        loss = self.loss()
        self.backward(loss)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss.item()  # waits for a GPU

    def run(self, args):
        import diffusers
        import torch
        seconds, losses, first_step_end = [], [], None
        for _ in range(args.steps):
            begin = time.perf_counter()
            losses.append(self.step())
            seconds.append(time.perf_counter() - begin)
            first_step_end = first_step_end or time.time()
        if os.environ.get("RANK", "0") != "0":
            return
        with open(args.out, "w") as file:
            json.dump({"step_seconds": seconds, "losses": losses, "first_step_end": first_step_end,
                       "trained_parameters": self.num_trained,
                       "peak_device_bytes": torch.cuda.max_memory_allocated() if args.device.startswith("cuda") else 0,
                       "versions": {"torch": torch.__version__, "diffusers": diffusers.__version__}}, file)
