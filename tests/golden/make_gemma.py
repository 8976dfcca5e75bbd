#!/usr/bin/env python3
"""Golden files of Gemma's tokenizer and text encoders, from transformers and sentencepiece, with small vocabularies and random models.

tokenizers/gemma/ (tokenizer.model) and tokenizers/gemma_json/ (tokenizer.json) are one BPE; gemma_ids.safetensors its ids of the texts in
gemma_strings.json, by transformers. gemma_3.safetensors, gemma_4.safetensors: w.<parameter> in bf16 as the model that also sees names them, in.ids, and out.<number of layers>,
of a text that is shorter than the window; long.ids and long.<number of layers> of one that is longer. The metadata holds config.json.
"""
import io, json, pathlib, shutil, tempfile
import sentencepiece
import torch
from safetensors.torch import save_file
from transformers import AddedToken, Gemma3TextConfig, Gemma3TextModel, Gemma4UnifiedTextConfig, Gemma4UnifiedTextModel, GemmaTokenizer
from transformers.tokenization_utils_base import generate_merges

from make_encoders import randomise, rounded
from make_tokenizers import golden, strings

HERE = pathlib.Path(__file__).parent
# The root of the width is a number of bf16, in which published models round it.
SIZES = dict(vocab_size=40, hidden_size=36, intermediate_size=24, num_hidden_layers=6, num_attention_heads=4, num_key_value_heads=2, head_dim=8, sliding_window=8,
             layer_types=["sliding_attention", "sliding_attention", "full_attention"] * 2)


HARD = ["\n", "\n\n\n", "a\n\nb\n c", "   three", "a    b  ", "\t\tx", "<b>bold</b>", "<b><b", "<unused1> x", "<bos>a<eos>", "<pad><unk> <mask>", "1234 567", "\u2581x", "\U0010ffff\u0378", "x\u0000y", "<0x41>",
        "caf\u00e9 \u72ac", "the cat sat on the mat" * 40]
CONTROL, DEFINED = ["<mask>"], ["<unused0>", "<unused1>", "\n", "\n\n", "<b>", "</b>"]


def tokenizer():
    """Published models are trained so: pieces may begin with several blanks, digits stand alone, nothing is normalised."""
    texts, model = [t for t in strings(700) if "\0" not in t], io.BytesIO()
    lines = [line for t in texts[::2] for line in t.split("\n") if line] + ["the  cat   sat    on a mat"] * 30
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=model, model_type="bpe", vocab_size=900, byte_fallback=True, split_digits=True, allow_whitespace_only_pieces=True, add_dummy_prefix=False,
        remove_extra_whitespaces=False, normalization_rule_name="identity", pad_id=0, eos_id=1, bos_id=2, unk_id=3, pad_piece="<pad>", eos_piece="<eos>", bos_piece="<bos>", unk_piece="<unk>",
        control_symbols=CONTROL, user_defined_symbols=DEFINED, character_coverage=0.98, num_threads=1, minloglevel=2)
    pieces = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    vocab = {pieces.id_to_piece(i): i for i in range(len(pieces))}
    scores = {piece: pieces.get_score(i) for piece, i in vocab.items() if not (pieces.is_control(i) or pieces.is_byte(i) or pieces.is_unknown(i) or piece in DEFINED)}
    own = GemmaTokenizer(vocab=vocab, merges=generate_merges(vocab, scores), add_bos_token=True)
    own.add_tokens([AddedToken(t, normalized=False) for t in DEFINED])
    return model.getvalue(), own, pieces


def tokenizers():
    out = HERE / "tokenizers"
    model, own, pieces = tokenizer()
    for name in ("gemma", "gemma_json"):
        shutil.rmtree(out / name, ignore_errors=True)
        (out / name).mkdir()
    (out / "gemma/tokenizer.model").write_bytes(model)
    with tempfile.TemporaryDirectory() as folder:
        own.save_pretrained(folder)
        shutil.copy(pathlib.Path(folder) / "tokenizer.json", out / "gemma_json")
    texts = strings(282)[1:] + HARD
    save_file(golden("gemma", own, texts, 24), out / "gemma_ids.safetensors")
    (out / "gemma_strings.json").write_text(json.dumps(texts, ensure_ascii=True, indent=0))
    others = [t for t in texts if [2] + pieces.encode(t) != own(t).input_ids]
    print(len(pieces), "pieces,", len(others), "texts that SentencePiece cuts otherwise:", others[:8])


@torch.no_grad()
def encoder(kind, seed, model, prefix):
    torch.manual_seed(seed)
    rounded(randomise(model, 1.5))
    for layer in model.layers:
        if kind == "4":
            layer.layer_scalar.fill_(0.75)
        else:  # multiplied by 1 + weight
            for name, p in layer.named_parameters():
                if "norm" in name:
                    p.sub_(1)
    if kind == "3":
        model.norm.weight.sub_(1)
    rounded(model)
    tensors = {f"w.{prefix}{k}": v.to(torch.bfloat16).contiguous().clone() for k, v in model.state_dict().items()}
    for name, length in (("in", 7), ("long", 13)):
        ids = torch.randint(0, 40, (2, length))
        states = model(input_ids=ids, output_hidden_states=True).hidden_states
        tensors[f"{name}.ids"] = ids
        tensors |= {f"{'out' if name == 'in' else name}.{i}": s.contiguous() for i, s in enumerate(states)}
    save_file(tensors, HERE / f"gemma_{kind}.safetensors", metadata={"config": json.dumps(model.config.to_dict())})


if __name__ == "__main__":
    tokenizers()
    ropes = {"sliding_attention": {"rope_type": "default", "rope_theta": 1e4}, "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6}}
    encoder("3", 1, Gemma3TextModel(Gemma3TextConfig(query_pre_attn_scalar=16, rope_parameters=ropes, **SIZES)), "language_model.model.")
    encoder("4", 2, Gemma4UnifiedTextModel(Gemma4UnifiedTextConfig(global_head_dim=16, num_global_key_value_heads=1, attention_k_eq_v=True, **SIZES)), "model.language_model.")
