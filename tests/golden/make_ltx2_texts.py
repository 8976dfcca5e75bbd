#!/usr/bin/env python3
"""Golden file of LTX-2.5's texts: a small Gemma 4 of transformers and connectors of diffusers in the names of the published files.

ltx2_texts_25.safetensors: text.<tensor> of the text encoder's file, which has the projection too, and connector.<tensor> of the transformer's,
in bf16; <caption's number>.{video,audio}, digests of what the streams read of the two captions of pipeline/ that the metadata names.
"""
import json, pathlib
import torch
from diffusers.pipelines.ltx2.connectors import LTX2TextConnectors
from safetensors.torch import save_file
from transformers import Gemma4UnifiedTextConfig, Gemma4UnifiedTextModel, PreTrainedTokenizerFast

from digest import digest
from make_encoders import randomise, rounded
from make_ltx2_connectors import original

HERE = pathlib.Path(__file__).parent
CAPTIONS = ["red apple", "a cat face, smiling"]


@torch.no_grad()
def main():
    torch.manual_seed(0)
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(HERE / "tokenizers/gemma_json/tokenizer.json"), bos_token="<bos>", pad_token="<pad>", eos_token="<eos>", unk_token="<unk>", padding_side="left")
    text = randomise(Gemma4UnifiedTextModel(Gemma4UnifiedTextConfig(vocab_size=len(tokenizer), hidden_size=36, intermediate_size=24, num_hidden_layers=6, num_attention_heads=2, num_key_value_heads=1,
                                                                    head_dim=8, global_head_dim=16, num_global_key_value_heads=1, attention_k_eq_v=True)), 1.5)
    for layer in text.layers:
        layer.layer_scalar.fill_(0.75)
    connectors = randomise(LTX2TextConnectors(caption_channels=36, text_proj_in_factor=7, video_connector_num_attention_heads=2, video_connector_attention_head_dim=8, video_gated_attn=True,
                                              audio_connector_num_attention_heads=2, audio_connector_attention_head_dim=4, audio_gated_attn=True, rope_type="split", per_modality_projections=True,
                                              video_hidden_dim=16, audio_hidden_dim=8, proj_bias=True), 0.7)
    rounded(text), rounded(connectors)
    tensors = {f"text.model.{k}": v.to(torch.bfloat16).clone() for k, v in text.state_dict().items()}
    for name, value in connectors.state_dict().items():
        theirs = original(name)
        tensors[("connector." if theirs.startswith("model.") else "text.") + theirs] = value.to(torch.bfloat16).clone()
    for i, caption in enumerate(CAPTIONS):
        given = tokenizer([caption], padding="max_length", max_length=1024, truncation=True, return_tensors="pt")
        states = text(input_ids=given.input_ids, attention_mask=given.attention_mask, output_hidden_states=True).hidden_states
        video, audio, _ = connectors(torch.stack(states, -1).flatten(2), given.attention_mask)
        tensors |= {f"{i}.video": digest(video), f"{i}.audio": digest(audio)}
    save_file(tensors, HERE / "ltx2_texts_25.safetensors", metadata={"captions": json.dumps(CAPTIONS)})


if __name__ == "__main__":
    main()
