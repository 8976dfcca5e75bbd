from interpreter import DTYPES, KernelTest, golden_cases, memory, operator, unset

kernels = operator("group_norm_silu")
BLOCK, GROUP, EPS = 64, 8, 1e-5


class GroupNormSilu(KernelTest):
    def test_pictures_and_gradients(self):
        for name, case in golden_cases("group_norm_silu").items():
            batch, channels, pixels = case["x"].shape
            sizes = (channels, pixels, channels // int(case["groups"]), EPS, BLOCK, GROUP)
            each, parts = (batch * channels,), (batch * channels, -(-pixels // BLOCK))
            for dtype in DTYPES:
                with self.subTest(name=name, dtype=dtype):
                    x, dy, weight, bias = (memory(case[key], dtype) for key in ("x", "dy", "weight", "bias"))
                    y, dx = unset(x.size(), dtype), unset(x.size(), dtype)
                    statistics, sums = unset((batch, channels, 2)), unset((batch, channels, 2))
                    kernels.channel_statistics[each](x, statistics, pixels, BLOCK)
                    kernels.forward[parts](x, weight, bias, statistics, y, *sizes)
                    self.expect_close(y, case["y"], dtype)
                    kernels.channel_sums[each](x, dy, weight, bias, statistics, sums, *sizes)
                    self.expect_close(memory(sums.array[..., 0].sum(0)), case["dbias"])
                    self.expect_close(memory(sums.array[..., 1].sum(0)), case["dweight"])
                    kernels.backward[parts](x, dy, weight, bias, statistics, sums, dx, *sizes)
                    self.expect_close(dx, case["dx"], dtype)
