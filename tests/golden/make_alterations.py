"""torchvision's changes of a picture -> alterations.safetensors.

"picture": uint8 [22, 30, 3]. "case.<i>": what its functions make of it in fp32, one after the other, rounded to 8 bits once; "numbers.<i>": angle,
brightness, contrast, saturation, hue. "mask.<i>" is the turned picture of one channel whose pixels are those of the first.
"""
import pathlib

import torch
from safetensors.torch import save_file
from torchvision.transforms import InterpolationMode
from torchvision.transforms import functional as F

CASES = [(0, 1.3, 1, 1, 0), (0, 0.4, 1, 1, 0), (0, 1, 1.6, 1, 0), (0, 1, 0.2, 1, 0), (0, 1, 1, 1.9, 0), (0, 1, 1, 0, 0), (0, 1, 1, 1, 0.31),
         (0, 1, 1, 1, -0.5), (17, 1, 1, 1, 0), (-90, 1, 1, 1, 0), (200.5, 0.9, 1.2, 1.1, -0.07), (-3.25, 1.25, 0.8, 0.7, 0.45)]


def picture():
    generator = torch.Generator().manual_seed(4)
    coarse = torch.rand(1, 3, 6, 8, generator=generator)
    smooth = torch.nn.functional.interpolate(coarse, size=(22, 30), mode="bicubic").clamp(0, 1)[0]
    smooth[:, :4, :5] = 0.5  # gray, black and pure colours as well
    smooth[:, :4, 5:9] = 0
    smooth[:, :4, 9:13] = torch.tensor([1.0, 0, 0])[:, None, None]
    return (smooth * 255).round().to(torch.uint8)


def altered(x, angle, brightness, contrast, saturation, hue):
    """Only what is asked for: hue's way to HSV and back changes last digits."""
    if angle:
        x = F.rotate(x, angle, interpolation=InterpolationMode.BILINEAR)
    for change, number, none in ((F.adjust_brightness, brightness, 1), (F.adjust_contrast, contrast, 1), (F.adjust_saturation, saturation, 1),
                                 (F.adjust_hue, hue, 0)):
        if x.shape[0] == 3 and number != none:
            x = change(x, number)
    return (x * 255).round().clamp(0, 255).to(torch.uint8).permute(1, 2, 0).contiguous()


def main():
    chw = picture()
    tensors = {"picture": chw.permute(1, 2, 0).contiguous()}
    for i, numbers in enumerate(CASES):
        tensors[f"numbers.{i}"] = torch.tensor(numbers, dtype=torch.float64)
        tensors[f"case.{i}"] = altered(chw.float() / 255, *numbers)
        tensors[f"mask.{i}"] = altered(chw[:1].float() / 255, *numbers)
    save_file(tensors, str(pathlib.Path(__file__).with_name("alterations.safetensors")))


main()
