import numpy as np
from interpreter import DTYPES, KernelTest, golden_cases, memory, operator, unset

kernels = operator("quantize_blocks")
BLOCK = 64


class QuantizeBlocks(KernelTest):
    def test_codes_and_scales_are_those_of_comfy_kitchen(self):
        for name, case in golden_cases("quantize_blocks").items():
            rows, width = case["x"].shape
            for dtype in DTYPES if rows == 1 else DTYPES[1:]:  # many rows take the interpreter long
                for e2m1, (kind, group) in enumerate((("mxfp8", 32), ("e2m1", 16))):
                    with self.subTest(name=name, dtype=dtype, kind=kind):
                        codes = unset(case[kind + "_codes"].shape, "uint8")
                        scales = memory(np.zeros(case[kind + "_scales"].shape), "uint8")
                        kernels.codes[(rows, -(-width // BLOCK))](memory(case["x"], dtype), memory(case["whole"]), codes, scales, width,
                                                                 scales.array.shape[1], e2m1, group, BLOCK)
                        self.assertTrue((scales.array == case[kind + "_scales"]).all())
                        self.assertTrue((codes.array == case[kind + "_codes"]).all())
