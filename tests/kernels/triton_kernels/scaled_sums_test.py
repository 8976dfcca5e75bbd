from interpreter import DTYPES, KernelTest, golden_cases, memory, operator

kernels = operator("scaled_sums")
BLOCK = 64


class ScaledSums(KernelTest):
    def test_sums_are_scaled_and_added(self):
        for name, case in golden_cases("scaled_sums").items():
            rows, width = case["sums"].shape
            for dtype in DTYPES:
                for what, (columns, bias, adds) in {"plain": (0, 0, 0), "added": (0, 0, 1), "with_columns": (1, 0, 0), "biased": (1, 1, 0),
                                                    "columns_added": (1, 0, 1)}.items():
                    with self.subTest(name=name, dtype=dtype, what=what):
                        y = memory(case["before"], dtype)
                        kernels.scaled[(rows, -(-width // BLOCK))](y, memory(case["sums"], "int32"), memory(case["rows"]),
                                                                   memory(case["columns"]) if columns else None,
                                                                   memory(case["bias"]) if bias else None, width, width, columns, bias, adds, BLOCK)
                        self.expect_close(y, case[what], dtype)
