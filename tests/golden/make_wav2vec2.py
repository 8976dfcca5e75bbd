#!/usr/bin/env python3
"""A small random wav2vec 2.0 of the kind whose norms stand before its layers, and what transformers makes of a sound with it, in wav2vec2/:

config.json, model.safetensors  a Wav2Vec2ForCTC in bf16, with strides of the published models
sound.safetensors  samples [2, 2400] at 16 kHz; heard, as Wav2Vec2FeatureExtractor makes them; states [2, layers + 1, steps, width]
"""
import copy, shutil
import torch
from safetensors.torch import save_file
from transformers import Wav2Vec2Config, Wav2Vec2FeatureExtractor, Wav2Vec2ForCTC

import family
from make_encoders import randomise, rounded

OUT = family.HERE / "wav2vec2"


def small():
    torch.manual_seed(51)
    config = Wav2Vec2Config(vocab_size=5, hidden_size=16, num_hidden_layers=3, num_attention_heads=2, intermediate_size=24, conv_dim=(8,) * 7, conv_bias=True,
                            feat_extract_norm="layer", do_stable_layer_norm=True, num_conv_pos_embeddings=8, num_conv_pos_embedding_groups=4)
    return rounded(randomise(Wav2Vec2ForCTC(config)))


def heard(samples):
    """As the pipelines of Wan-S2V give a sound to the model."""
    return Wav2Vec2FeatureExtractor()(list(samples.numpy()), sampling_rate=16000, return_tensors="pt").input_values


def states_of(model, values):
    """All states [B, layers + 1, steps, width]. The last is that behind the norm, as transformers 4 lists it, by which Wan-S2V was made; 5 lists it before the norm."""
    out = model.wav2vec2(values, output_hidden_states=True)
    return torch.stack([*out.hidden_states[:-1], out.last_hidden_state], 1)


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    model = small()
    copy.deepcopy(model).to(torch.bfloat16).save_pretrained(OUT)
    torch.manual_seed(52)
    samples = 0.1 + 0.3 * torch.randn(2, 2400) * torch.linspace(0, 1, 2400)
    values = heard(samples)
    with torch.no_grad():
        states = states_of(model, values)
    save_file({"samples": samples, "heard": values, "states": states.contiguous()}, OUT / "sound.safetensors")
    for file in OUT.rglob("*"):
        file.chmod(0o644)
    print(states.shape, states.std((0, 2, 3)), sorted(model.state_dict())[:6])


if __name__ == "__main__":
    main()
