import numpy as np
from interpreter import DTYPES, KernelTest, golden_cases, memory, operator, rotated, unset

kernels = operator("quantize_rows")
BLOCK = 64


class QuantizeRows(KernelTest):
    def test_codes_are_those_of_torch(self):
        for name, case in golden_cases("quantize_rows").items():
            rows, width = case["x"].shape
            for dtype in DTYPES:
                for int8, kind in enumerate(("", "int8_")):
                    with self.subTest(name=name, dtype=dtype, kind=kind):
                        codes, scales = unset((rows, width), "uint8"), unset((rows,))
                        gain = memory(case["gain"]) if name.endswith("gained") else None
                        kernels.codes[(rows,)](memory(case["x"], dtype), gain, codes, scales, width, int(gain is not None), int8, 0, BLOCK)
                        self.assertTrue((scales.array == case[kind + "scales"]).all())
                        self.assertTrue((codes.array == case[kind + "codes"].view("uint8")).all())

    def test_neighbours_are_rotated_first(self):
        x = np.random.default_rng(0).standard_normal((3, 192), dtype=np.float32)
        for group in (16, 64):
            codes, scales = unset((3, 192), "uint8"), unset((3,))
            kernels.codes[(3,)](memory(x), None, codes, scales, 192, 0, 1, group, BLOCK)
            expected = rotated(x, group)
            self.assertLess(abs(scales.array - abs(expected).max(1) / 127).max(), 1e-7)
            self.assertLessEqual(abs(codes.array.view("int8") - expected / scales.array[:, None]).max(), 0.501)

    def test_what_is_no_number_reaches_the_scale(self):
        x = np.ones((2, 100))
        x[1, 70] = np.nan
        for int8 in (0, 1):
            scales = unset((2,))
            kernels.codes[(2,)](memory(x), None, unset((2, 100), "uint8"), scales, 100, 0, int8, 0, BLOCK)
            self.assertTrue(np.isfinite(scales.array[0]) and np.isnan(scales.array[1]))
