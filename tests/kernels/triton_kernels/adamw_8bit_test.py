import numpy as np

from interpreter import KernelTest, golden_cases, memory, operator

kernels = operator("adamw_8bit")
LR, BETA1, BETA2, EPS, DECAY = 1e-2, 0.9, 0.99, 1e-6, 0.1


class AdamW8bit(KernelTest):
    def expect_nearest(self, codes, scales, map_, exact):
        """Each code has to stand for the nearest of the map's numbers, or one as near but for fp32's rounding."""
        blocks = np.arange(len(exact)) // 256
        most = np.array([np.abs(exact[blocks == b]).max() for b in range(blocks[-1] + 1)])
        self.assertLessEqual(np.abs(scales.numbers() - most).max(), 1e-6 * most.max())
        fractions = exact / np.maximum(most, 1e-38)[blocks]
        away = np.abs(map_[codes.array].astype(np.float64) - fractions)
        least = np.abs(map_[None, :].astype(np.float64) - fractions[:, None]).min(1)
        self.assertLessEqual((away - least).max(), 2e-6)

    def test_update(self):
        for name, case in golden_cases("adamw_8bit").items():
            count, step = len(case["value"]), int(case["step"])
            for blocks_each in (1, 4):
                with self.subTest(name=name, blocks_each=blocks_each):
                    value, gradient = memory(case["value"]), memory(case["gradient"])
                    moments, maps = [], []
                    for moment in ("exp_avg", "exp_avg_sq"):
                        map_ = case[f"{moment}_map"]
                        moments += [memory(case[f"{moment}_codes"], "uint8"), memory(case[f"{moment}_scales"])]
                        maps += [memory(map_), memory((map_[1:] + map_[:-1]) / 2)]
                    programs = -(-count // (256 * blocks_each))
                    kernels.update[(programs,)](value, gradient, *moments, *maps, count, 1 - LR * DECAY, BETA1, 1 - BETA1, BETA2, 1 - BETA2,
                                                LR / (1 - BETA1**step), (1 - BETA2**step) ** 0.5, EPS, blocks_each)
                    self.expect_close(value, case["new_value"])
                    for i, moment in enumerate(("exp_avg", "exp_avg_sq")):
                        self.expect_nearest(moments[2 * i], moments[2 * i + 1], case[f"{moment}_map"], case[f"new_{moment}"])
