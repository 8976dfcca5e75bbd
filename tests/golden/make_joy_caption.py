#!/usr/bin/env python3
"""What transformers makes of a small random JoyCaption (a LLaVA of SigLIP and Llama 3.1), and Llama 3's tokenizer with a small vocabulary.

tokenizers/llama3_json/  tokenizer.json as Llama 3's: its words, a vocabulary that holds words whole, its special tokens; llama3_ids.safetensors: the
                         ids of the texts of qwen_strings.json
joy_caption/model/       the model as a hub's checkout has it, in bf16, with that tokenizer and a processor
joy_caption/captions.json  cases as in captions/captions.json, with pictures of captions/
joy_caption/seen.safetensors  in.pixels of a picture as the processor makes them, and out.tokens, what the projector makes of what the tower sees
"""
import json
import shutil

import torch
from PIL import Image
from safetensors.torch import save_file
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlavaConfig, LlavaForConditionalGeneration, PreTrainedTokenizerFast, SiglipVisionConfig
from transformers.models.siglip.image_processing_pil_siglip import SiglipImageProcessorPil

from make_encoders import HERE, randomise, rounded
from make_qwen import texts
from make_tokenizers import golden, save_json

OUT, PICTURES, TOKENS = HERE / "joy_caption", HERE / "captions/pictures", HERE / "tokenizers"
PATTERN = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
SPECIAL = ["<|begin_of_text|>", "<|end_of_text|>", "<|finetune_right_pad_id|>", "<|start_header_id|>", "<|end_header_id|>", "<|eom_id|>", "<|eot_id|>", "<|python_tag|>",
           "<|reserved_special_token_69|>", "<|reserved_special_token_70|>", "<|reserved_special_token_71|>"]
WHOLE = ["\u0120apple", "\u0120caption", "image", "\u0120descriptive"]  # tokens that no merges make
SYSTEM = "Cutting Knowledge Date: December 2023\nToday Date: 26 July 2024\n\nYou are a helpful image captioner."
PROMPT, NEW = "Write a long descriptive caption for this image in a formal tone.", 20


def steps(tokenizer):
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(PATTERN), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def tokenizer():
    trained = steps(Tokenizer(models.BPE()))
    trained.train_from_iterator([t for t in texts()[::2] if "<" not in t] + ["1234 567 89", "a cat face, smiling", "tree of the north", SYSTEM] * 4,
                                trainers.BpeTrainer(vocab_size=640, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()), show_progress=False))
    model = json.loads(trained.to_str())["model"]
    vocab = model["vocab"]
    for word in WHOLE:
        vocab.setdefault(word, len(vocab))
    whole = steps(Tokenizer(models.BPE(vocab=vocab, merges=[tuple(m) for m in model["merges"]], ignore_merges=True)))
    whole.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in SPECIAL])
    fast = PreTrainedTokenizerFast(tokenizer_object=whole, pad_token="<|end_of_text|>", eos_token="<|eot_id|>", padding_side="right")
    save_json(fast, "llama3_json")
    save_file(golden("llama3", fast, texts(), 24), TOKENS / "llama3_ids.safetensors")
    return fast


def small_model(tokens):
    torch.manual_seed(41)
    # Texts are longer than those of the first training, so that all three kinds of rotated pairs are there.
    rope = {"rope_type": "llama3", "rope_theta": 500.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64}
    text = LlamaConfig(vocab_size=len(tokens) + 1, hidden_size=32, intermediate_size=48, num_hidden_layers=4, num_attention_heads=2, num_key_value_heads=1, rope_parameters=rope,
                       max_position_embeddings=512, rms_norm_eps=1e-5, tie_word_embeddings=False)
    vision = SiglipVisionConfig(hidden_size=16, intermediate_size=24, num_hidden_layers=3, num_attention_heads=2, image_size=24, patch_size=4)
    config = LlavaConfig(text_config=text, vision_config=vision, image_token_id=tokens.convert_tokens_to_ids("<|reserved_special_token_69|>"), vision_feature_layer=-2,
                         vision_feature_select_strategy="full", image_seq_length=36, projector_hidden_act="gelu", tie_word_embeddings=False)
    model = rounded(randomise(LlavaForConditionalGeneration(config), 1.5))
    shutil.rmtree(OUT, ignore_errors=True)
    model.to(torch.bfloat16).save_pretrained(OUT / "model")
    shutil.copy(TOKENS / "llama3_json/tokenizer.json", OUT / "model")
    process = SiglipImageProcessorPil(size={"height": 24, "width": 24}, resample=Image.BICUBIC)
    process.save_pretrained(OUT / "model")
    return LlavaForConditionalGeneration.from_pretrained(OUT / "model", dtype=torch.float32).eval(), process


def ids_of(tokens, model, prompt):
    image = model.config.image_token_id
    text = (f"<|start_header_id|>system<|end_header_id|>\n\n{SYSTEM}<|eot_id|><|start_header_id|>user<|end_header_id|>\n\n<|reserved_special_token_70|><|reserved_special_token_69|>"
            f"<|reserved_special_token_71|>{prompt}<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n")
    return [i for token in tokens(text, add_special_tokens=False).input_ids for i in ([token] * 36 if token == image else [token])]


@torch.no_grad()
def cases(tokens, model, process):
    out = []
    for names, penalty in ((["a"], 1.0), (["b"], 1.0), (["a"], 1.3), (["a", "b", "c"], 1.1)):
        pixels = process([Image.open(PICTURES / f"{n}.png").convert("RGB") for n in names], return_tensors="pt")["pixel_values"]
        ids = torch.tensor([ids_of(tokens, model, PROMPT)] * len(names))
        end = tokens.convert_tokens_to_ids(["<|eot_id|>", "<|end_of_text|>", "<|eom_id|>"])
        made = model.generate(input_ids=ids, attention_mask=torch.ones_like(ids), pixel_values=pixels, max_new_tokens=NEW, do_sample=False, repetition_penalty=penalty,
                              eos_token_id=end, pad_token_id=tokens.pad_token_id, output_scores=True, return_dict_in_generate=True)
        rows = made.sequences[:, ids.shape[1]:].tolist()
        rows = [row[:next((i for i, t in enumerate(row) if t in end), len(row))] for row in rows]
        gap = torch.stack([torch.diff(s.topk(2).values).abs() for s in made.scores]).min()
        written = [tokens.decode(row, skip_special_tokens=True) for row in rows]
        print(names, penalty, "least gap", float(gap), rows, written)
        out.append({"pictures": [f"pictures/{n}.png" for n in names], "prompt": PROMPT, "penalty": penalty, "max_new_tokens": NEW, "ids": rows, "texts": written})
    return out


def main():
    tokens = tokenizer()
    model, process = small_model(tokens)
    (OUT / "captions.json").write_text(json.dumps({"joy_caption/model": cases(tokens, model, process)}) + "\n")
    pixels = process(Image.open(PICTURES / "b.png").convert("RGB"), return_tensors="pt")["pixel_values"]
    with torch.no_grad():
        seen = model.model.get_image_features(pixels, return_dict=True).pooler_output
    save_file({"in.pixels": pixels.contiguous(), "out.tokens": torch.cat(list(seen)).contiguous()}, OUT / "seen.safetensors")
    for file in OUT.rglob("*"):
        file.chmod(0o755 if file.is_dir() else 0o644)


if __name__ == "__main__":
    main()
