#!/usr/bin/env python3
"""Golden token ids of CLIP-L and T5 for 2,000 strings, from transformers, with FLUX.1's real vocabularies.

    make_tokenizers.py [TOKENIZER_CONFIGS]

TOKENIZER_CONFIGS is the folder diffsynth/tokenizer_configs/flux of the package diffsynth==1.1.8; without it the vocabularies that
lie in tokenizers/clip and tokenizers/t5 are used. Writes tokenizers/strings.json and tokenizers/ids.safetensors
(<name>.ids flat, <name>.ends); and tokenizers/clip_json and t5_json, which transformers saves as a tokenizer.json with a part of the
vocabulary, with json_ids.safetensors: their ids of the first 400 strings.
"""
import base64, json, pathlib, random, shutil, sys, tempfile
import torch
from safetensors.torch import save_file
from tokenizers import Regex, normalizers, pre_tokenizers
from transformers import CLIPTokenizer, T5TokenizerFast

HERE = pathlib.Path(__file__).parent / "tokenizers"
WORDS = ("a an the of with in on cat dog castle portrait photo style cinematic lighting highly detailed oil painting sunset mountains can't I'll we've "
         "it's they'd you're Let's ISN'T 4k 8K 1920s 3.14 1,000 --ar 16:9 (masterpiece:1.2) [blue|red] <lora:x:0.8> e-mail user@example.com "
         "https://example.com/a?b=c#d &amp; &#39; C++ foo_bar under_score semi;colon x/y \\back 'quoted' \"double\" naïve café Straße ĞİŞ ΣΊΣΥΦΟΣ ὈΔΥΣΣΕΎΣ").split()
SCRIPTS = ["日本語の城", "中国山水画", "서울의 밤", "Привет мир", "مرحبا بالعالم", "שלום", "नमस्ते दुनिया", "สวัสดี", "ಕನ್ನಡ", "Ελληνικά", "Tiếng Việt", "ﬁﬂ ligature", "Ⅷ ½ ² ①", "𝔘𝔫𝔦𝔠𝔬𝔡𝔢", "ｆｕｌｌ　ｗｉｄｔｈ"]
EMOJI = ["😀", "👩‍👩‍👧‍👦", "🇩🇪🇯🇵", "👍🏽", "❤️", "🏴󠁧󠁢󠁥󠁮󠁧󠁿", "🧑🏿‍🚀", "☂", "🤷‍♀️", "🅰️"]
MARKS = ["e\u0301", "o\u0308\u0323", "Z\u0334\u0351a\u0489", "n\u0303", "\u0915\u093c", "a\u200db", "x\u200by", "A\u030a", "\u1100\u1161\u11a8", "\ufeff"]
BLANKS = ["  ", "\n", "\t", "\r\n", "\u00a0", "\u3000", "\n\n  ", "\u2028", "\x0b", "\x85"]
CONTROL = ["\x00", "\x01", "\x1f", "\x7f", "\u200e", "\ufffd", "\U0010ffff"]
SPECIAL = ["<|startoftext|>", "<|endoftext|>", "</s>", "<pad>", "<unk>", "<extra_id_0>", "<extra_id_99>", "<extra_id_100>"]


def strings(n=2000):
    rng = random.Random(7)
    fixed = ["", " ", "\n", "a", "A", ".", "'", "''s", "1234567890", "a" * 400, "word " * 300, "😀" * 60, "猫" * 600, "\u0301", "hello\n", " lead", "trail "]
    out = list(fixed)
    while len(out) < n:
        parts = []
        for _ in range(rng.choice([1, 2, 3, 5, 8, 13, 21] if len(out) % 40 else [130])):
            pool = rng.choices([WORDS, SCRIPTS, EMOJI, MARKS, BLANKS, CONTROL, SPECIAL], [60, 8, 8, 6, 6, 1, 1])[0]
            parts.append(rng.choice(pool))
            if rng.random() < 0.1:
                parts.append(chr(rng.choice([rng.randrange(0x20, 0x2FF), rng.randrange(0x300, 0x1FFF), rng.randrange(0x2000, 0xD7FF), rng.randrange(0x1F000, 0x1FFFF)])))
            if rng.random() < 0.85:
                parts.append(rng.choice([" ", " ", " ", ", ", "-", ". ", "! "]))
        out.append("".join(parts))
    return out


def golden(name, tokenizer, texts, length):
    """What the test compares: all ids, and the ids cut and padded to a length."""
    ids = [tokenizer(t).input_ids for t in texts]
    padded = tokenizer(texts, padding="max_length", truncation=True, max_length=length).input_ids
    for i, (full, cut) in enumerate(zip(ids, padded)):
        assert tokenizer.padding_side == "left" or cut[:min(len(full), len(cut)) - 1] == full[:min(len(full), len(cut)) - 1], (name, i)
    return {f"{name}.ids": torch.tensor([x for row in ids for x in row], dtype=torch.int32),
            f"{name}.ends": torch.tensor([len(row) for row in ids]).cumsum(0).to(torch.int32),
            f"{name}.last": torch.tensor([row[-1] for row in padded], dtype=torch.int32),
            f"{name}.padded_sum": torch.tensor([sum(x * (i + 1) for i, x in enumerate(row)) for row in padded])}


def save_json(tokenizer, name):
    """Keeps the tokenizer.json alone of what transformers saves."""
    with tempfile.TemporaryDirectory() as folder:
        tokenizer.save_pretrained(folder)
        (HERE / name).mkdir(exist_ok=True)
        shutil.copy(pathlib.Path(folder) / "tokenizer.json", HERE / name / "tokenizer.json")


def clip_json(num_merges=3000):
    merges = [line.split() for line in (HERE / "clip/merges.txt").read_text().split("\n")[1:num_merges + 1]]
    whole = json.loads((HERE / "clip/vocab.json").read_text())
    keep = {a + b for a, b in merges} | {t for t in whole if len(t.removesuffix("</w>")) == 1}
    vocab = {t: i for i, t in enumerate(sorted(keep, key=whole.get))}
    for token in ("<|startoftext|>", "<|endoftext|>"):
        vocab[token] = len(vocab)
    return CLIPTokenizer(vocab=vocab, merges=[tuple(m) for m in merges])


def t5_json(texts):
    whole = T5TokenizerFast.from_pretrained(HERE / "t5")
    state = json.loads(whole._tokenizer.to_str())
    used = {i for t in texts[::2] for i in whole(t).input_ids}  # what only the others use falls into smaller pieces
    vocab = [(piece, score) for i, (piece, score) in enumerate(state["model"]["vocab"][:32000]) if i < 3 or i in used or len(piece) == 1]
    vocab += [(f"<extra_id_{i}>", 0.0) for i in reversed(range(100))]
    charsmap = base64.b64decode(state["normalizer"]["precompiled_charsmap"])
    return T5TokenizerFast(vocab=vocab, _spm_precompiled_charsmap=charsmap)


def json_alone(texts):
    clip, t5 = clip_json(), t5_json(texts)
    save_json(clip, "clip_json")
    save_json(t5, "t5_json")
    tensors = golden("clip_json", clip, texts, 77) | golden("t5_json", t5, texts, 512)
    # The steps that transformers 4 wrote, and none.
    charsmap = t5._tokenizer.normalizer
    t5._tokenizer.normalizer = normalizers.Sequence(
        [charsmap, normalizers.Strip(left=False, right=True), normalizers.Replace(Regex(" {2,}"), "\u2581")])
    t5._tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement="\u2581", prepend_scheme="always")
    tensors |= golden("t5_blanks", t5, texts, 512)
    t5._tokenizer.normalizer = None
    t5._tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(replacement="\u2581", prepend_scheme="always")])
    tensors |= golden("t5_plain", t5, texts, 512)
    save_file(tensors, HERE / "json_ids.safetensors")


def main():
    if len(sys.argv) > 1:
        source = pathlib.Path(sys.argv[1])
        for folder, name, files in (("tokenizer_1", "clip", ("vocab.json", "merges.txt", "tokenizer_config.json", "special_tokens_map.json")),
                                    ("tokenizer_2", "t5", ("spiece.model", "tokenizer_config.json", "special_tokens_map.json"))):
            (HERE / name).mkdir(parents=True, exist_ok=True)
            for file in files:
                shutil.copy(source / folder / file, HERE / name / file)
    texts = strings()
    tensors = golden("clip", CLIPTokenizer.from_pretrained(HERE / "clip"), texts, 77)
    tensors |= golden("t5", T5TokenizerFast.from_pretrained(HERE / "t5"), texts, 512)
    save_file(tensors, HERE / "ids.safetensors")
    (HERE / "strings.json").write_text(json.dumps(texts, ensure_ascii=True, indent=0))
    json_alone(texts[:400])


if __name__ == "__main__":
    main()
