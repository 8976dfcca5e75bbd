from interpreter import DTYPES, KernelTest, golden_cases, memory, operator, unset

kernels = operator("quantize_rows")
BLOCK = 64


class QuantizeRows(KernelTest):
    def test_codes_are_those_of_torch(self):
        for name, case in golden_cases("quantize_rows").items():
            rows, width = case["x"].shape
            for dtype in DTYPES:
                with self.subTest(name=name, dtype=dtype):
                    codes, scales = unset((rows, width), "uint8"), unset((rows,))
                    gain = memory(case["gain"]) if name.endswith("gained") else None
                    kernels.codes[(rows,)](memory(case["x"], dtype), gain, codes, scales, width, int(gain is not None), BLOCK)
                    self.assertTrue((scales.array == case["scales"]).all())
                    self.assertTrue((codes.array == case["codes"]).all())
