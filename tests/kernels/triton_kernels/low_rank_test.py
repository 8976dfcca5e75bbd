import numpy as np

from interpreter import DTYPES, KernelTest, golden_cases, memory, operator, unset

kernels = operator("low_rank")
ROWS, COLUMNS = 16, 16


class LowRank(KernelTest):
    def test_gradients(self):
        for name, case in golden_cases("low_rank").items():
            (rows, width), rank = case["dy"].shape, case["b"].shape[1]
            block = 16 if rank <= 16 else 32
            for dtype in DTYPES:
                dy, b = memory(case["dy"], dtype), memory(case["b"], dtype)
                for beside in (0, 3):  # numbers of other layers, behind h in its rows
                    h = memory(np.pad(case["h"], ((0, 0), (0, beside)), constant_values=77), dtype)
                    for width_each in (16, 48, 16 * width):
                        with self.subTest(name=name, dtype=dtype, beside=beside, width_each=width_each):
                            tall, wide = -(-rows // ROWS), -(-width // width_each)
                            dh, db = unset((wide, rows, rank)), unset((tall, width, rank))
                            kernels.backward[(tall, wide)](dy, b, h, dh, db, rows, width, rank, rank + beside, width_each, ROWS, COLUMNS, block, 1)
                            self.expect_close(memory(dh.array.sum(0)), case["dh"])
                            self.expect_close(memory(db.array.sum(0)), case["db"])
                            for out_dtype in DTYPES:
                                joined = unset((width, rank), out_dtype)
                                kernels.joined[(-(-width * rank // 64),)](db, joined, width * rank, tall, 0.5, 64)
                                self.expect_close(joined, 0.5 * case["db"], out_dtype)
