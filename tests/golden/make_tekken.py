#!/usr/bin/env python3
"""Golden files of Mistral's tokenizer, tekken, with a small vocabulary: tokenizers/tekken/ has it as Mistral's own tekken.json, tokenizers/tekken_json/ as
the tokenizer.json that transformers makes of that. tekken_ids.safetensors: the ids of transformers for the texts of qwen_strings.json; tekken_pairs of those
of tekken_strings.json, texts in which cases change.
"""
import base64, json, random, shutil
from safetensors.torch import save_file
from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast
from transformers.integrations.mistral.tokenizer import MistralConverter

from make_qwen import HERE, texts
from make_tokenizers import golden

OUT = HERE / "tokenizers"
PATTERN = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}|"
           r" ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
SPECIAL = ["<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_RESULTS]", "[/TOOL_RESULTS]", "[TOOL_CALLS]", "[IMG]", "<pad>",
           "[IMG_BREAK]", "[IMG_END]", "[PREFIX]", "[MIDDLE]", "[SUFFIX]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]"]
CASED = ["aB", "Ab", "AB", "ABc", "aBC", "abCD", "ABCd eF", "iPhone", "McDonald's", "HTMLParser", "\u01c5x", "X\u01c5", "\u02b0a", "a\u02b0B", "A\u0301b", "a\u0301B", "\u0301", " \u0301a", "!\u0301!", "1\u0301", "\u65e5A\u672c",
         "A\u65e5a", "\u05d0B\u05d1c", "\u1e9e\u00df", "\u0130i", "\u24b6\u24d0", "\u2160", "_aB", "__AB", "-Ab-", "/aB/", "x/\n/", "!/\r\n/", " /\n", "' 'S", "a\u200dB", "\ufeffAB", "\u0903A", "\ua7f8q", "[INST]aB[/INST]", "<s>x</s>"]


def cased():
    rng = random.Random(5)
    out = [text for text in CASED]
    while len(out) < 300:
        out.append(rng.choice(["", " ", "/", "\n"]).join(rng.choice(CASED) for _ in range(rng.choice([2, 3, 5, 8]))))
    return out


def write_tekken():
    """Merges of a part of the texts, so that the others fall into smaller pieces; a few ranks more than are used, as Mistral's files have."""
    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(PATTERN), behavior="isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    trained.train_from_iterator([t for t in texts()[::2] + cased()[::2] if "<" not in t] + ["red apple", "a cat face, smiling", "tree of the north"] * 4,
                                trainers.BpeTrainer(vocab_size=720, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()), show_progress=False))
    byte_of = symbols()
    ranks = [bytes([byte]) for byte in range(256)] + [bytes(byte_of[c] for c in a + b) for a, b in json.loads(trained.to_str())["model"]["merges"]]
    ranks = list(dict.fromkeys(ranks))
    used = len(ranks) - 8
    vocab = [{"rank": rank, "token_bytes": base64.b64encode(token).decode(), "token_str": None} for rank, token in enumerate(ranks)]
    special = [{"rank": rank, "token_str": token, "is_control": True} for rank, token in enumerate(SPECIAL)]
    config = {"pattern": PATTERN, "num_vocab_tokens": len(ranks), "default_vocab_size": used + 24, "default_num_special_tokens": 24, "version": "v13"}
    (OUT / "tekken/tekken.json").write_text(json.dumps({"config": config, "vocab": vocab, "special_tokens": special}))


def symbols():
    """The byte that each of GPT-2's printable characters stands for."""
    printable = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + i): byte for i, byte in enumerate(others)}


def main():
    for name in ("tekken", "tekken_json"):
        shutil.rmtree(OUT / name, ignore_errors=True)
        (OUT / name).mkdir()
    write_tekken()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=MistralConverter(str(OUT / "tekken/tekken.json")).converted(), pad_token="<pad>", bos_token="<s>", padding_side="right")
    (OUT / "tekken_json/tokenizer.json").write_text(tokenizer.backend_tokenizer.to_str())
    (OUT / "tekken_strings.json").write_text(json.dumps(cased(), ensure_ascii=True, indent=0))
    save_file(golden("tekken", tokenizer, texts(), 24) | golden("cased", tokenizer, cased(), 24), OUT / "tekken_ids.safetensors")
    print(len(tokenizer), tokenizer("a cat face").input_ids, tokenizer("").input_ids)


if __name__ == "__main__":
    main()
