#!/usr/bin/env python3
"""A small random wav2vec 2.0 of the kind of wav2vec2-base, whose norms stand behind its layers, and what transformers makes of a sound with it, in wav2vec2_base/:

config.json, model.safetensors  a Wav2Vec2ForPreTraining in bf16, with strides of the published models
sound.safetensors  the sound of wav2vec2/: states [2, layers + 1, steps, width], and by_frame of ten steps, to which what the convolutions make is brought
"""
import copy, shutil
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from transformers import Wav2Vec2Config, Wav2Vec2ForPreTraining

import family
from make_encoders import randomise, rounded

OUT = family.HERE / "wav2vec2_base"


def small():
    torch.manual_seed(53)
    config = Wav2Vec2Config(hidden_size=16, num_hidden_layers=3, num_attention_heads=2, intermediate_size=24, conv_dim=(8,) * 7, conv_bias=False, feat_extract_norm="group",
                            do_stable_layer_norm=False, num_conv_pos_embeddings=8, num_conv_pos_embedding_groups=4, codevector_dim=4, proj_codevector_dim=4, num_codevectors_per_group=4)
    return rounded(randomise(Wav2Vec2ForPreTraining(config)).eval())


class ByFrame(torch.nn.Module):
    """Brings what the convolutions make to so many steps, as InfiniteTalk's authors and SimpleTuner do."""
    def __init__(self, convolutions, num_steps):
        super().__init__()
        self.convolutions, self.num_steps = convolutions, num_steps

    def forward(self, values):
        return F.interpolate(self.convolutions(values), size=self.num_steps, mode="linear", align_corners=True)


@torch.no_grad()
def states_of(model, values, num_steps=None):
    """All states [B, layers + 1, steps, width] of samples that were heard."""
    wav2vec2 = model.wav2vec2
    convolutions = wav2vec2.feature_extractor
    if num_steps is not None:
        wav2vec2.feature_extractor = ByFrame(convolutions, num_steps)
    states = wav2vec2(values, output_hidden_states=True).hidden_states
    wav2vec2.feature_extractor = convolutions
    return torch.stack(states, 1)


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    model = small()
    copy.deepcopy(model).to(torch.bfloat16).save_pretrained(OUT)
    values = load_file(family.HERE / "wav2vec2/sound.safetensors")["heard"]
    states, by_frame = states_of(model, values), states_of(model, values, 10)
    save_file({"states": states.contiguous(), "by_frame": by_frame.contiguous()}, OUT / "sound.safetensors")
    for file in OUT.rglob("*"):
        file.chmod(0o644)
    print(states.shape, states.std((0, 2, 3)), sorted(model.state_dict())[:6])


if __name__ == "__main__":
    main()
