import numpy as np
from interpreter import DTYPES, KernelTest, golden_cases, memory, operator, rotated

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
                                                                   memory(case["bias"]) if bias else None, width, width, columns, bias, adds, 0, BLOCK)
                        self.expect_close(y, case[what], dtype)

    def test_neighbours_are_rotated_before_they_are_added(self):
        sums = np.random.default_rng(0).integers(-1000, 1000, (3, 192))
        y, rows = memory(np.ones((3, 192))), memory([0.5, 0.25, 2])
        kernels.scaled[(3, 3)](y, memory(sums, "int32"), rows, None, None, 192, 192, 0, 0, 1, 64, BLOCK)
        self.expect_close(y, 1 + rotated(sums * rows.array[:, None].astype(float), 64), "fp32")
