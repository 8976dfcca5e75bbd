"""The peer: diffusers' transformer of a family of family_folder.py with a peft LoRA or whole, one process a case, its figures as JSON in --out.

Latents and text embeddings are random and ready, so the peer runs no encoder and writes no file: what is measured is its loop alone.
"""
import argparse

import peer_loop
from family_folder import FAMILIES


def arguments():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--family", choices=FAMILIES, required=True)
    p.add_argument("--transformer", required=True, help="folder with config.json and weights")
    p.add_argument("--train", choices=["lora", "full"], required=True)
    p.add_argument("--dtype", choices=["fp32", "bf16"], required=True, help="of every tensor")
    p.add_argument("--latent_frames", type=int, default=1, help="of a clip's latents, or layers of a picture")
    p.add_argument("--program", choices=["diffusers", "diffsynth"], default="diffusers", help="diffsynth: DiffSynth-Studio's own model, of wan")
    p.add_argument("--latent_side", type=int, required=True, help="the latents are this high and wide")
    peer_loop.add_options(p)
    return p.parse_args()


args = arguments()
import diffusers  # noqa: E402
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402

torch.set_num_threads(args.threads)
torch.manual_seed(0)
DTYPE = {"fp32": torch.float32, "bf16": torch.bfloat16}[args.dtype]


class ZImage:
    def __init__(self, text):
        self.captions = list(text)

    def __call__(self, model, noisy, sigma):
        out = model([x[:, None] for x in noisy], 1 - sigma, self.captions, return_dict=False)[0]
        return -torch.stack(out)[:, :, 0]


class Packed:
    """Models that take latents as tokens of 2x2 points."""

    def __init__(self, text):
        self.text = text

    def __call__(self, model, noisy, sigma):
        b, c, h, w = noisy.shape
        tokens = noisy.view(b, c, h // 2, 2, w // 2, 2).permute(0, 2, 4, 1, 3, 5).reshape(b, h * w // 4, c * 4)
        out = model(hidden_states=tokens, encoder_hidden_states=self.text, timestep=sigma, return_dict=False, **self.places(b, h // 2, w // 2))[0]
        return out.view(b, h // 2, w // 2, c, 2, 2).permute(0, 3, 1, 4, 2, 5).reshape(b, c, h, w)


class QwenImage(Packed):
    def places(self, b, h, w):
        return {"encoder_hidden_states_mask": None, "img_shapes": [[(1, h, w)]] * b}


class QwenImageLayered(Packed):
    """Layers lie one behind the other, and behind them the whole picture without noise."""

    def __call__(self, model, noisy, sigma):
        b, c, f, h, w = noisy.shape
        pictures = torch.cat([noisy, torch.zeros_like(noisy[:, :, :1])], 2)
        tokens = pictures.view(b, c, f + 1, h // 2, 2, w // 2, 2).permute(0, 2, 3, 5, 1, 4, 6).reshape(b, (f + 1) * h * w // 4, c * 4)
        out = model(hidden_states=tokens, encoder_hidden_states=self.text, encoder_hidden_states_mask=None, timestep=sigma, img_shapes=[[(1, h // 2, w // 2)] * (f + 1)] * b,
                    additional_t_cond=torch.zeros(b, dtype=torch.long, device=noisy.device), return_dict=False)[0][:, :f * h * w // 4]
        return out.view(b, f, h // 2, w // 2, c, 2, 2).permute(0, 4, 1, 2, 5, 3, 6).reshape(b, c, f, h, w)


class Krea2(Packed):
    def __init__(self, text):
        """States of several layers for each token."""
        self.text = text[:, :, None].expand(-1, -1, FAMILIES["krea2"].config["num_text_layers"], -1)

    def places(self, b, h, w):
        from diffusers import Krea2Pipeline
        return {"encoder_attention_mask": None, "position_ids": Krea2Pipeline.prepare_position_ids(self.text.shape[1], h, w, self.text.device)}


class Chroma(Packed):
    def places(self, b, h, w):
        ids = torch.zeros(h, w, 3)
        ids[..., 1], ids[..., 2] = torch.arange(h)[:, None], torch.arange(w)[None]
        return {"img_ids": ids.view(-1, 3), "txt_ids": torch.zeros(self.text.shape[1], 3)}


class Flux2:
    def __init__(self, text):
        self.text = text

    def __call__(self, model, noisy, sigma):
        b, c, h, w = noisy.shape
        picture = torch.cartesian_prod(torch.arange(1), torch.arange(h), torch.arange(w), torch.arange(1))
        words = torch.cartesian_prod(torch.arange(1), torch.arange(1), torch.arange(1), torch.arange(self.text.shape[1]))
        out = model(hidden_states=noisy.flatten(2).transpose(1, 2), encoder_hidden_states=self.text, timestep=sigma, img_ids=picture, txt_ids=words,
                    guidance=torch.ones_like(sigma) if model.config.guidance_embeds else None, return_dict=False)[0]
        return out.transpose(1, 2).view(b, c, h, w)


class Flux3:
    def __init__(self, text):
        self.text = text

    def __call__(self, model, noisy, sigma):
        b, c, h, w = noisy.shape
        picture = torch.cartesian_prod(torch.arange(1), torch.arange(h), torch.arange(w), torch.arange(1)).float() / 2
        words = torch.cartesian_prod(torch.arange(1), torch.arange(1), torch.arange(1), torch.arange(self.text.shape[1])).float()
        out = model(hidden_states=noisy.flatten(2).transpose(1, 2), encoder_hidden_states=self.text, timestep=sigma, img_ids=picture, txt_ids=words, return_dict=False)[0]
        return out.transpose(1, 2).view(b, c, h, w)


class QwenImage21:
    def __init__(self, text):
        self.text = text

    def __call__(self, model, noisy, sigma):
        b, c, h, w = noisy.shape
        slots = torch.cat([torch.zeros(b, self.text.shape[1], dtype=torch.bool), torch.ones(b, h * w // 4, dtype=torch.bool)], 1)
        out = model(noisy.flatten(2).transpose(1, 2), self.text, sigma, [[(1, h, w)]] * b, slots.to(noisy.device), return_dict=False)[0]
        return out[:, -h * w:].transpose(1, 2).view(b, c, h, w)


class ErnieImage:
    def __init__(self, text):
        self.text, self.lengths = text, torch.full(text.shape[:1], text.shape[1], device=text.device)

    def __call__(self, model, noisy, sigma):
        return model(noisy, sigma * 1000, self.text, self.lengths, return_dict=False)[0]


class Ideogram4:
    def __init__(self, text):
        self.text = text

    def __call__(self, model, noisy, sigma):
        from diffusers import Ideogram4Pipeline
        b, c, h, w = noisy.shape
        length = self.text.shape[1]
        places, segments, indicator = Ideogram4Pipeline._prepare_ids([length] * b, h, w, length, noisy.device)
        out = model(F.pad(noisy.flatten(2).transpose(1, 2), (0, 0, length, 0)), 1 - sigma, F.pad(self.text, (0, 0, 0, h * w)), places, segments, indicator, return_dict=False)[0]
        return -out[:, length:].transpose(1, 2).reshape(b, c, h, w)


class Wan:
    def __init__(self, text):
        self.text = text

    def __call__(self, model, noisy, sigma):
        if args.program == "diffsynth":
            from diffsynth.pipelines.wan_video import model_fn_wan_video
            return model_fn_wan_video(dit=model, latents=noisy, timestep=sigma * 1000, context=self.text)
        return model(hidden_states=noisy, encoder_hidden_states=self.text, timestep=sigma * 1000, return_dict=False)[0]


class Anima:
    def __init__(self, text):
        from types import SimpleNamespace as Of

        from diffusers.models.transformers import transformer_cosmos
        # torchvision, with which diffusers resizes a mask of zeros, need not be there.
        transformer_cosmos.transforms = Of(InterpolationMode=Of(NEAREST="nearest"),
                                           functional=Of(resize=lambda x, size, interpolation: F.interpolate(x, size, mode=interpolation)))
        self.text = text

    def __call__(self, model, noisy, sigma):
        mask = noisy.new_zeros(1, 1, *noisy.shape[2:])
        return model(noisy[:, :, None], timestep=sigma.to(DTYPE), encoder_hidden_states=self.text, padding_mask=mask, return_dict=False)[0][:, :, 0]


PREDICTIONS = {"anima": Anima, "wan": Wan, "z-image": ZImage, "qwen-image": QwenImage, "qwen-image-layered": QwenImageLayered, "krea2": Krea2, "qwen-image-2.1": QwenImage21, "flux2": Flux2, "flux2-dev": Flux2, "flux3": Flux3, "ernie-image": ErnieImage, "ideogram4": Ideogram4, "chroma": Chroma}
TEXT_WIDTH = {"anima": "text_embed_dim", "z-image": "cap_feat_dim", "ernie-image": "text_in_dim", "qwen-image-2.1": "context_in_dim", "ideogram4": "llm_features_dim", "krea2": "text_hidden_dim", "wan": "text_dim"}
# Diffusers' names of layers, which targets are said in, by DiffSynth-Studio's.
OF_DIFFSYNTH = {"attn1": "self_attn", "attn2": "cross_attn", "to_q": "q", "to_k": "k", "to_v": "v", r"to_out\.0": "o", r"net\.(0\.proj|2)": "(0|2)"}


def load_diffsynth():
    """The model of diffsynth of the same sizes; its numbers are drawn, since only time and memory are compared."""
    from diffsynth.models.wan_video_dit import WanModel
    c = FAMILIES["wan"].config
    model = WanModel(dim=c["num_attention_heads"] * c["attention_head_dim"], in_dim=c["in_channels"], ffn_dim=c["ffn_dim"], out_dim=c["out_channels"],
                     text_dim=c["text_dim"], freq_dim=c["freq_dim"], eps=1e-6, patch_size=(1, 2, 2), num_heads=c["num_attention_heads"],
                     num_layers=c["num_layers"], has_image_input=False).to(DTYPE)
    if args.train == "full":
        return model.train()
    from peft import LoraConfig, inject_adapter_in_model
    targets = args.targets.replace("attn[12]", "(attn1|attn2)")
    for theirs, ours in OF_DIFFSYNTH.items():
        targets = targets.replace(theirs, ours)
    model.requires_grad_(False)
    model = inject_adapter_in_model(LoraConfig(r=args.rank, lora_alpha=args.rank, target_modules=targets), model)
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.data = parameter.data.to(DTYPE)
    return model.train()


def load():
    if args.program == "diffsynth":
        return load_diffsynth()
    model = getattr(diffusers, FAMILIES[args.family].transformer).from_pretrained(args.transformer, torch_dtype=DTYPE).to(args.device)
    if args.train == "lora":
        model.requires_grad_(False)
        peer_loop.add_adapter(model, args, use_dora=False, dtype=DTYPE)
    if args.checkpointing:
        model.enable_gradient_checkpointing()
    return model.train()


class Loop(peer_loop.Loop):
    def __init__(self, model):
        super().__init__(model, args)
        c = FAMILIES[args.family].config if args.program == "diffsynth" else model.config
        options = {"dtype": DTYPE, "device": args.device}
        # Tokens are 2x2 points but for FLUX.2, whose latents are packed already.
        channels = c["in_channels"] // (4 if issubclass(PREDICTIONS[args.family], Packed) else 1)
        frames = [args.latent_frames] if FAMILIES[args.family].frames > 1 or FAMILIES[args.family].layers > 0 else []
        self.latents = torch.randn(args.batch_size, channels, *frames, args.latent_side, args.latent_side, **options)
        text = torch.randn(args.batch_size, args.text_tokens, c[TEXT_WIDTH.get(args.family, "joint_attention_dim")], **options)
        self.predict = PREDICTIONS[args.family](text)

    def loss(self):
        sigma, noise = torch.rand(args.batch_size, device=args.device), torch.randn_like(self.latents)
        s = sigma.to(DTYPE).view(-1, *[1] * (self.latents.dim() - 1))
        predicted = self.predict(self.model, (1 - s) * self.latents + s * noise, sigma)
        return F.mse_loss(predicted.float(), (noise - self.latents).float())


Loop(load()).run(args)
