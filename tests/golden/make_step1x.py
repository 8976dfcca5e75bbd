#!/usr/bin/env python3
"""A small Step1X-Edit with random weights over the pipeline of make_pipeline.py, and what DiffSynth-Studio trains with it, in step1x/:

qwen/                 a folder of Qwen2.5-VL with its tokenizer beside the weights
step1x.safetensors    transformer and connector in one file, the transformer under BFL's names and without guidance
metadata.json         the pictures of make_pipeline.py with a reference picture each, prompts with quotes among them
text.safetensors      of each row: {i}.ids, the tokens that the text encoder reads, and {i}.count, of how many of them the connector is given states;
                      0.states, these of the first row
expected.safetensors  connector.text, connector.pooled of the first row's at sigma 0.3; loss: the first steps of make_diffsynth.py's replay and LoRA

Of its embedder the numbers of published tokens, and how many of the first are dropped, are replaced by those of the small vocabulary.
"""
import copy
import inspect
import json
import shutil
import types

import torch
from diffsynth.models import step1x_connector, step1x_text_encoder
from diffsynth.utils.state_dict_converters.flux_dit import FluxDiTStateDictConverter
from PIL import Image
from safetensors.torch import save_file
from transformers import AddedToken, Qwen2_5_VLConfig, Qwen2VLProcessor, Qwen2VLVideoProcessor
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

import make_diffsynth
import make_flux_extras as extras
import make_pipeline
import make_qwen_edit as edit
from make_encoders import randomise, rounded
from make_qwen_image import FAMILY as qwen
from make_wild import open_pipe

OUT = make_pipeline.OUT.parent / "step1x"
PROMPTS = ["red apple", "a sign that says \u201cthe cat, 9\u201d in red", "it's a tree", 'a cat "face" of "north']
# That of Qwen2.5-VL-Instruct, for one picture in a turn.
CHAT = ("<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n{% for m in messages %}<|im_start|>{{ m.role }}\n{% for c in m.content %}{% if c.type == 'image' %}"
        "Picture 1: <|vision_start|><|image_pad|><|vision_end|>{% else %}{{ c.text }}{% endif %}{% endfor %}<|im_end|>\n{% endfor %}{{ '<|im_start|>assistant\n' }}")


class Processor(Qwen2VLProcessor):
    """transformers 5 takes no text with a picture's token without its picture."""

    def __call__(self, images=None, text=None, videos=None, **options):
        if images is None:
            return self.tokenizer([text], return_tensors="pt")
        return super().__call__(images=images, text=text, **options)


def write_data():
    rows = [{"image": f"../pipeline/pictures/{i}.png", "prompt": prompt, "step1x_reference_image": f"../pipeline/pictures/{(i + 1) % 4}.png"} for i, prompt in enumerate(PROMPTS)]
    (OUT / "metadata.json").write_text(json.dumps(rows, indent=1) + "\n")
    return rows


def language_model():
    tokens = qwen.parts().tokenizer
    torch.manual_seed(31)
    tokens.add_tokens([AddedToken(t, special=True) for t in ("<|vision_end|>", "<|image_pad|>", "<|video_pad|>")])
    tokens.add_tokens([AddedToken(t, special=False, normalized=False) for t in ("\u201c", "\u201d")])
    config = Qwen2_5_VLConfig(text_config=qwen.TEXT | {"vocab_size": len(tokens) + 1}, vision_config=edit.VISION, tie_word_embeddings=True,
                              image_token_id=tokens.convert_tokens_to_ids("<|image_pad|>"), video_token_id=tokens.convert_tokens_to_ids("<|video_pad|>"),
                              vision_start_token_id=tokens.convert_tokens_to_ids("<|vision_start|>"), vision_end_token_id=tokens.convert_tokens_to_ids("<|vision_end|>"))
    model = rounded(randomise(edit.TextEncoder(config), 1.5))
    copy.deepcopy(model).to(torch.bfloat16).save_pretrained(OUT / "qwen")
    tokens.save_pretrained(OUT / "qwen")
    for name in ("generation_config.json", "special_tokens_map.json"):
        (OUT / "qwen" / name).unlink(missing_ok=True)
    processor = Processor(Qwen2VLImageProcessorPil(min_pixels=256 * 28 * 28, max_pixels=324 * 28 * 28), tokens, Qwen2VLVideoProcessor(), chat_template=CHAT)
    return model, processor


class Encoder(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.inner, self.config = model, types.SimpleNamespace(hidden_size=qwen.TEXT["hidden_size"], output_attentions=False, output_hidden_states=True)
        self.seen = []

    def model(self, input_ids=None, pixel_values=None, image_grid_thw=None, **_):
        self.seen.append(input_ids[0])
        return self.inner(input_ids=input_ids, pixel_values=pixel_values, image_grid_thw=image_grid_thw, output_hidden_states=True)


def embedder(model, processor):
    tokens = processor.tokenizer
    source = inspect.getsource(step1x_text_encoder)
    prefix = source.split("PREFIX = '''")[1].split("'''")[0].replace("\\n", "\n")
    before = "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\n" + prefix
    numbers = {"217": len(tokens(before[:-1]).input_ids), "2073": tokens.convert_tokens_to_ids("\u201c"), "854": tokens.convert_tokens_to_ids("\u201d"),
               "151653": tokens.convert_tokens_to_ids("<|vision_end|>"), "dtype=torch.bfloat16": "dtype=torch.float32", "get_torch_device().current_device()": '"cpu"'}
    for theirs, ours in numbers.items():
        assert theirs in source
        source = source.replace(theirs, str(ours))
    module = types.ModuleType("diffsynth.models.small_step1x")
    module.__package__ = "diffsynth.models"
    exec(source, module.__dict__)
    return module.Step1xEditEmbedder(Encoder(model), processor, device="cpu"), numbers["217"]


def connector():
    model = step1x_connector.Qwen2Connector(in_channels=16, hidden_size=extras.TEXT, heads_num=1, depth=2, dtype=torch.float32)
    model.global_proj_out = torch.nn.Linear(16, extras.POOLED)
    return extras.drawn(model, 1.0)


def bfl(dit):
    """Its transformer's weights under BFL's names."""
    source = inspect.getsource(FluxDiTStateDictConverter)
    namespace = {}
    exec("def tables():\n    " + source[source.index("rename_dict = {"):source.index("state_dict_ = {}\n    for name in state_dict:\n        original")] + "return rename_dict, suffix_rename_dict", namespace)
    outer, suffixes = namespace["tables"]()
    single = ("linear", "modulation", "norm.")
    state, out = dit.state_dict(), {}
    for theirs, ours in outer.items():
        if ours in state:
            out[theirs] = state[ours]
    for theirs, ours in suffixes.items():
        for kind in ("blocks", "single_blocks"):
            if theirs.startswith(single) == (kind == "single_blocks"):
                out |= {("single_blocks." if kind == "single_blocks" else "double_blocks.") + name.split(".")[1] + "." + theirs: value
                        for name, value in state.items() if name.startswith(kind + ".") and name.split(".", 2)[2] == ours}
    assert len(out) == len(state), set(state) - set(out)
    return out


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir()
    rows, pipe = write_data(), open_pipe()
    model, processor = language_model()
    embed, dropped = embedder(model, processor)
    torch.manual_seed(19)
    connect, dit = connector(), rounded(make_diffsynth.small_dit())
    dit.guidance_embedder = None
    save_file({n: v.bfloat16().contiguous() for n, v in (bfl(dit) | {"connector." + n: v for n, v in connect.state_dict().items()}).items()}, OUT / "step1x.safetensors")

    texts, values = {}, []
    with torch.no_grad():
        for i, row in enumerate(rows):
            picture = Image.open(OUT / row["step1x_reference_image"]).convert("RGB")
            states, mask = embed([row["prompt"]], [picture])
            values.append((states, mask, picture))
            texts |= {f"{i}.ids": embed.model.seen[-1].int(), f"{i}.count": mask.sum()}
            if i == 0:
                texts["0.states"] = states[0, :int(mask.sum())].clone()
        text, pooled = connect(values[0][0], torch.tensor([0.3]), values[0][1])
    save_file(texts, OUT / "text.safetensors")
    expected = {"connector.text": text, "connector.pooled": pooled}

    samples = make_pipeline.encode(pipe, [(f"{i}.png", row["prompt"]) for i, row in enumerate(rows)])
    case = extras.Case(samples, pipe)
    module = case.module(dit)
    module.pipe.step1x_connector = connect
    module.pipe.in_iteration_models = ("dit", "step1x_connector")

    def inputs(which, _):
        states, mask, picture = values[which]
        return {"step1x_llm_embedding": states, "step1x_mask": mask, "step1x_reference_latents": module.pipe.vae_encoder(module.pipe.preprocess_image(picture))}

    expected["loss"] = case.run(module, inputs)
    save_file({k: v.contiguous() for k, v in expected.items()}, OUT / "expected.safetensors")
    for file in OUT.rglob("*.*"):
        file.chmod(0o644)
    print(expected["loss"], dropped, [int(v[1].sum()) for v in values], sum(f.stat().st_size for f in OUT.rglob("*.*")))


if __name__ == "__main__":
    main()
