from interpreter import DTYPES, KernelTest, golden_cases, memory, operator, unset

kernels = operator("qk_norm_rope")
EPS = 1e-6


class QkNormRope(KernelTest):
    def test_vectors_and_gradients(self):
        for name, case in golden_cases("qk_norm_rope").items():
            batch, rows, heads, width = case["x"].shape
            table_batch = rows * width // 2 if len(case["cos"]) == batch > 1 else 0
            for dtype in DTYPES:
                together = int(case["weight"].ndim == 2)
                for heads_each in (8,) if together else (1, 2, 8):
                    with self.subTest(name=name, dtype=dtype, heads_each=heads_each):
                        x, dy, weight = (memory(case[key], dtype) for key in ("x", "dy", "weight"))
                        cos, sin = memory(case["cos"]), memory(case["sin"])
                        y, dx = unset(dy.size(), dtype), unset(x.size(), dtype)
                        blocks = -(-heads // heads_each)
                        kernels.forward[(rows, blocks, batch)](x, weight, cos, sin, y, rows, heads, table_batch, EPS, heads_each, width, together)
                        self.expect_close(y, case["y"], dtype)
                        rows_each = 2
                        programs = -(-rows // rows_each)
                        sums = unset((batch * blocks * programs, *case["weight"].shape))
                        grid = (programs, blocks, batch)
                        kernels.backward[grid](x, weight, cos, sin, dy, dx, sums, rows, heads, table_batch, rows_each, EPS, heads_each, width, together, 1)
                        self.expect_close(dx, case["dx"], dtype)
                        self.expect_close(memory(sums.array.sum(0)), case["dweight"])
                        without = unset(x.size(), dtype)
                        kernels.backward[grid](x, weight, cos, sin, dy, without, None, rows, heads, table_batch, rows_each, EPS, heads_each, width,
                                               together, 0)
                        self.assertTrue((without.array == dx.array).all())
