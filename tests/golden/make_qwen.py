#!/usr/bin/env python3
"""Golden files of Qwen's tokenizer and text encoder, from transformers, with a small vocabulary and small random models.

tokenizers/qwen/ (vocab.json, merges.txt, tokenizer_config.json) and tokenizers/qwen_json/ (tokenizer.json) are one byte-level BPE;
qwen_strings.json and qwen_ids.safetensors its ids; qwen35_json/ and qwen35_ids.safetensors are that vocabulary with Qwen3.5's words. qwen_<kind>.safetensors: w.<parameter>, in.ids, in.mask, out.<number of layers>;
of Qwen3-VL's text part, in bf16, in.places in time, row and column, and out.not_normed, the last state before the final norm; of Qwen3.5's, in
bf16, whose texts are longer than two chunks of linear attention, out_weight and grad.<parameter>: the digest of the gradient of
sum(last state * out_weight).
"""
import json, pathlib, random, shutil, tempfile
from unittest import mock
import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import Qwen2Config, Qwen2Model, Qwen2Tokenizer, Qwen3_5TextConfig, Qwen3_5TextModel, Qwen3_5Tokenizer, Qwen3Config, Qwen3Model, Qwen3VLTextConfig, Qwen3VLTextModel
from transformers.models.qwen3_5 import modeling_qwen3_5

from digest import digest
from make_encoders import randomise, rounded
from make_tokenizers import BLANKS, CONTROL, EMOJI, MARKS, SCRIPTS, WORDS, golden, save_json, strings

HERE = pathlib.Path(__file__).parent
OUT = HERE / "tokenizers"
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<think>", "</think>", "<tool_call>"]
HARD = ["'S 'Re 'LL 'vE 'D 'M 'T '\u017f 'x", "a'lls", "''re", "don\u2019t", "x1y22z333", "\u0661\u0662 \u00bd\u2167", "a  b   c    ", "  \n", " \n \n x", "\n\n\nx", "\t\tx\t", "\r\n\r\n", "a\r\n b",
        " \u3000x", "x\u00a0\u00a0y", "\u0085 y", "...\n\n...", " ...\n", "!!\r\n\r\n!", "#a $b _c", "e\u0301\u0302 \u1e69", "\u212b\u2126", "\uac00\u1100\u1161", "\ufb01 \u0130I\u0131", "a\u0300b \u0300", "\U0001d518x",
        "<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n", "<|im_start", "<|im_end|><|im_end|>", "<think>\n\n</think>\n\n", "a<think>b", "\U000e0001\u180e\u200b x\ufeff"]


def texts():
    rng = random.Random(11)
    out = strings(300)[1:] + HARD
    pools = [WORDS, SCRIPTS, EMOJI, MARKS, BLANKS, CONTROL, SPECIAL, HARD]
    while len(out) < 600:
        parts = [rng.choice(rng.choices(pools, [40, 10, 8, 8, 14, 1, 4, 15])[0]) for _ in range(rng.choice([1, 2, 3, 5, 8, 13]))]
        out.append(rng.choice(["", " ", "  ", "\n"]).join(parts))
    return out


def train():
    """Merges of a part of the texts, so that the others fall into smaller pieces."""
    empty = Qwen2Tokenizer()
    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = empty._tokenizer.pre_tokenizer
    trained.normalizer = empty._tokenizer.normalizer
    trained.train_from_iterator([t for t in texts()[::2] if "<" not in t] + ["red apple", "a cat face, smiling", "tree of the north", "user assistant system"] * 4,
                                trainers.BpeTrainer(vocab_size=700, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()), show_progress=False))
    model = json.loads(trained.to_str())["model"]
    tokenizer = Qwen2Tokenizer(vocab=model["vocab"], merges=[tuple(m) for m in model["merges"]])
    tokenizer.add_tokens([t for t in SPECIAL if t not in tokenizer.get_vocab()])
    tokenizer.padding_side = "right"
    return tokenizer, model


def tokenizers():
    tokenizer, model = train()
    for name in ("qwen", "qwen_json"):
        shutil.rmtree(OUT / name, ignore_errors=True)
        (OUT / name).mkdir()
    with tempfile.TemporaryDirectory() as folder:
        tokenizer.save_pretrained(folder)
        shutil.copy(pathlib.Path(folder) / "tokenizer.json", OUT / "qwen_json")
    # The three files of the published folders.
    (OUT / "qwen/vocab.json").write_text(json.dumps(model["vocab"], ensure_ascii=False))
    (OUT / "qwen/merges.txt").write_text("#version: 0.2\n" + "".join(" ".join(m) + "\n" for m in model["merges"]))
    added = {str(i): {"content": t, "special": True} for t, i in tokenizer.get_added_vocab().items()}
    (OUT / "qwen/tokenizer_config.json").write_text(json.dumps({"added_tokens_decoder": added, "model_max_length": 131072, "pad_token": "<|endoftext|>"}, indent=1))
    cases = texts()
    save_file(golden("qwen", tokenizer, cases, 24), OUT / "qwen_ids.safetensors")
    (OUT / "qwen_strings.json").write_text(json.dumps(cases, ensure_ascii=True, indent=0))
    print(len(model["vocab"]), len(model["merges"]), tokenizer.get_added_vocab())


def gated_tokenizer():
    """The vocabulary of tokenizers/qwen_json, with other words."""
    whole = json.loads((OUT / "qwen_json/tokenizer.json").read_text())
    tokenizer = Qwen3_5Tokenizer(vocab=whole["model"]["vocab"], merges=[tuple(m) for m in whole["model"]["merges"]], pad_token="<|endoftext|>", padding_side="right")
    tokenizer.add_tokens([t for t in SPECIAL + ["<|vision_end|>", "<|image_pad|>", "<|video_pad|>"] if t not in tokenizer.get_vocab()])
    save_json(tokenizer, "qwen35_json")
    save_file(golden("qwen35", tokenizer, texts(), 24), OUT / "qwen35_ids.safetensors")


@torch.no_grad()
def encoder(kind, seed, model_class, config):
    torch.manual_seed(seed)
    model = randomise(model_class(config), 1.5)
    ids, mask = torch.randint(0, 60, (2, 9)), torch.ones(2, 9, dtype=torch.long)
    mask[1, 6:] = 0
    states = model(input_ids=ids, attention_mask=mask, output_hidden_states=True).hidden_states
    tensors = {f"w.{k}": v.contiguous().clone() for k, v in model.state_dict().items()}
    tensors |= {"in.ids": ids, "in.mask": mask} | {f"out.{i}": s.contiguous() for i, s in enumerate(states)}
    save_file(tensors, HERE / f"qwen_{kind}.safetensors", metadata={"config": json.dumps(model.config.to_dict())})


@torch.no_grad()
def vl_encoder():
    """Tokens of a text, of 2 x 3 cells of a picture, and of a text behind it."""
    torch.manual_seed(3)
    rope = {"rope_type": "default", "rope_theta": 1e5, "mrope_section": [4, 2, 2]}
    model = rounded(randomise(Qwen3VLTextModel(Qwen3VLTextConfig(vocab_size=40, hidden_size=16, intermediate_size=24, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2,
                                                                 head_dim=16, rope_parameters=rope)), 1.5))
    places = torch.cat([torch.arange(4).expand(3, 4), torch.tensor([[4] * 6, [4, 4, 4, 5, 5, 5], [4, 5, 6] * 2]), torch.arange(7, 10).expand(3, 3)], 1)
    ids, last = torch.randint(0, 40, (2, places.shape[1])), []
    model.norm.register_forward_pre_hook(lambda _, given: last.append(given[0]))
    states = model(input_ids=ids, position_ids=places[:, None].expand(3, 2, -1), output_hidden_states=True).hidden_states
    tensors = {f"w.{k}": v.to(torch.bfloat16) for k, v in model.state_dict().items()}
    tensors |= {"in.ids": ids, "in.places": places, "out.not_normed": last[0]} | {f"out.{i}": s.contiguous() for i, s in enumerate(states)}
    save_file(tensors, HERE / "qwen_3_vl.safetensors", metadata={"config": json.dumps(model.config.to_dict())})


def small_gated(**changes):
    """A small text part of Qwen3.5: three layers of linear attention and one of attention."""
    rope = {"rope_type": "default", "rope_theta": 1e7, "partial_rotary_factor": 0.5, "mrope_section": [2, 1, 1], "mrope_interleaved": True}
    sizes = dict(vocab_size=40, hidden_size=16, intermediate_size=24, num_hidden_layers=4, num_attention_heads=2, num_key_value_heads=1, head_dim=16, rope_parameters=rope,
                 linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=16, linear_value_head_dim=12)
    return Qwen3_5TextConfig(**sizes | changes)


def randomise_gated(model, gain=1.0):
    """Norms that multiply by about 1, and states that fade in a few tokens or in many."""
    randomise(model, gain)
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, modeling_qwen3_5.Qwen3_5RMSNorm):
                module.weight.sub_(1)
        for name, p in model.named_parameters():
            if name.endswith("A_log"):
                p.copy_(torch.empty_like(p).uniform_(0.01, 2).log())
            if name.endswith("dt_bias"):
                p.copy_(torch.randn_like(p))
    return rounded(model)


class Wide:
    """torch, where what would be computed in fp32 is in fp64."""
    float32 = torch.float64

    def __getattr__(self, name):
        return getattr(torch, name)


def gated_encoder():
    """In fp64: rounding in fp32 moves the last state by 1e-5 in transformers, whose rule divides by lengths of keys and of what is read."""
    torch.manual_seed(4)
    model = randomise_gated(Qwen3_5TextModel(small_gated())).double()
    ids = torch.randint(0, 40, (2, 150))
    with mock.patch.object(modeling_qwen3_5, "torch", Wide()), mock.patch.object(torch.Tensor, "float", torch.Tensor.double):
        out = model(input_ids=ids, output_hidden_states=True)
    out_weight = torch.randn_like(out.last_hidden_state).float().double()
    (out.last_hidden_state * out_weight).sum().backward()
    tensors = {f"w.{k}": v.to(torch.bfloat16) for k, v in model.state_dict().items()} | {"in.ids": ids, "out_weight": out_weight.float()}
    tensors |= {f"out.{i}": s.detach().float().contiguous() for i, s in enumerate(out.hidden_states)}
    tensors |= {f"grad.{n}": digest(p.grad) for n, p in model.named_parameters()}
    save_file(tensors, HERE / "qwen_3_5.safetensors", metadata={"config": json.dumps(model.config.to_dict())})


if __name__ == "__main__":
    vl_encoder()
    gated_encoder()
    tokenizers()
    gated_tokenizer()
    sizes = dict(vocab_size=60, hidden_size=24, intermediate_size=40, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2)
    encoder("3", 1, Qwen3Model, Qwen3Config(head_dim=8, rope_theta=1e6, **sizes))
    encoder("2", 2, Qwen2Model, Qwen2Config(rope_theta=1e4, rms_norm_eps=1e-5, **sizes))
