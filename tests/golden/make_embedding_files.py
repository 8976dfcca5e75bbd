#!/usr/bin/env python3
"""Files of textual inversion that torch.save wrote, as programs write them -> embedding_files/: vectors [2, 4] 0, 1/8 ... 7/8.

web_ui.pt    AUTOMATIC1111's WebUI (modules/textual_inversion/textual_inversion.py)
first.pt     the first program of it (ldm/modules/embedding_manager.py), whose vectors are a module of parameters, and whose tokens are tensors
kohya.pt     sd-scripts (train_textual_inversion.py)
kohya_xl.pt  sd-scripts (sdxl_train_textual_inversion.py)
"""
import pathlib
import torch

OUT = pathlib.Path(__file__).parent / "embedding_files"

if __name__ == "__main__":
    OUT.mkdir(exist_ok=True)
    vectors = torch.arange(8, dtype=torch.float32).view(2, 4) / 8
    torch.save({"string_to_token": {"*": 265}, "string_to_param": {"*": vectors}, "name": "cat", "step": 3, "sd_checkpoint": None, "sd_checkpoint_name": None},
               OUT / "web_ui.pt")
    parameters = torch.nn.ParameterDict()
    parameters["*"] = torch.nn.Parameter(vectors)
    torch.save({"string_to_token": {"*": torch.tensor(265)}, "string_to_param": parameters}, OUT / "first.pt")
    torch.save({"emb_params": vectors}, OUT / "kohya.pt")
    torch.save({"clip_l": vectors, "clip_g": vectors}, OUT / "kohya_xl.pt")
