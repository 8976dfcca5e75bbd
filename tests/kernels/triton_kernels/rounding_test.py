import numpy as np

from interpreter import KernelTest, memory, operator, unset

kernels = operator("rounding")
BLOCK = 256
KEY = 0xF00DBEEF


def bits_of(values):
    return np.ascontiguousarray(values, np.float32).view(np.uint32)


def e4m3(codes):
    """The numbers that codes stand for."""
    exponent, mantissa, sign = (codes >> 3) & 15, (codes & 7).astype(np.float64), np.where(codes & 128, -1.0, 1.0)
    return sign * np.where(exponent == 0, mantissa * 2.0**-9, (1 + mantissa / 8) * 2.0 ** (exponent.astype(np.int64) - 7))


def draw_of_cpu(place):
    """What optim/rounding.cpp draws for an element: MurmurHash3's finalizer."""
    x = (place * 0x9E3779B9 + KEY) & 0xFFFFFFFF
    x = ((x ^ (x >> 16)) * 0x85EBCA6B) & 0xFFFFFFFF
    x = ((x ^ (x >> 13)) * 0xC2B2AE35) & 0xFFFFFFFF
    return x ^ (x >> 16)


class Rounding(KernelTest):
    def setUp(self):
        rng = np.random.default_rng(0)
        # Few programs do in an interpreter; odd counts, and sizes over many exponents.
        self.values = (rng.standard_normal(2001) * 10.0 ** rng.uniform(-4, 2, 2001)).astype(np.float32)
        self.values[:6] = [0, -0.0, np.inf, -np.inf, 1, 3.3895e38]
        self.grid = (-(-len(self.values) // BLOCK),)

    def test_mean_is_exact_in_bf16(self):
        values = np.full(8192, 1 + 0.3 * 2.0**-7, np.float32)
        out = unset(values.shape, "uint16")
        kernels.to_bf16[(32,)](memory(bits_of(values), "uint32"), out, len(values), KEY, BLOCK)
        found = (out.array.astype(np.uint32) << 16).view(np.float32)
        self.assertEqual(set(found), {np.float32(1), np.float32(1 + 2.0**-7)})
        self.assertAlmostEqual((found > 1).mean(), 0.3, delta=0.02)  # four times its deviation

    def test_neighbours_in_bf16(self):
        out = unset(self.values.shape, "uint16")
        kernels.to_bf16[self.grid](memory(bits_of(self.values), "uint32"), out, len(self.values), KEY, BLOCK)
        low = bits_of(self.values) >> 16
        self.assertTrue(((out.array == low) | (out.array == low + 1)).all())
        self.assertTrue((out.array[:5] == low[:5]).all())  # what bf16 holds stays, infinities too
        expected = [(int(bits) + (draw_of_cpu(i) >> 16)) >> 16 for i, bits in enumerate(bits_of(self.values))]
        self.assertEqual(out.array[4:].tolist(), expected[4:])

    def test_mean_is_exact_in_e4m3(self):
        for exact, neighbours in ((1.03, {1.0, 1.125}), (0.3 * 2.0**-9, {0.0, 2.0**-9}), (-300.0, {-288.0, -320.0})):
            out = unset((8192,), "uint8")
            kernels.to_e4m3[(32,)](memory(bits_of(np.full(8192, exact)), "uint32"), out, 8192, KEY, BLOCK)
            found = e4m3(out.array.astype(np.int64))
            self.assertEqual(set(found), neighbours)
            spacing = max(neighbours) - min(neighbours)
            self.assertAlmostEqual(found.mean(), exact, delta=0.02 * spacing)

    def test_neighbours_in_e4m3(self):
        out = unset(self.values.shape, "uint8")
        kernels.to_e4m3[self.grid](memory(bits_of(self.values), "uint32"), out, len(self.values), KEY, BLOCK)
        fits = np.abs(self.values) <= 448
        self.assertTrue((out.array[~fits] & 0x7F == 0x7F).all())
        found, exact = e4m3(out.array[fits].astype(np.int64)), self.values[fits].astype(np.float64)
        spacing = np.maximum(2.0 ** (np.floor(np.log2(np.maximum(np.abs(exact), 1e-30))) - 3), 2.0**-9)
        self.assertTrue((np.abs(found - exact) < spacing).all())

    def test_remainder_gives_the_number_back(self):
        bits, count = memory(bits_of(self.values), "uint32"), len(self.values)
        rounded, remainder, again = unset((count,), "uint16"), unset((count,), "uint16"), unset((count,), "uint32")
        kernels.split[self.grid](bits, rounded, remainder, count, BLOCK)
        kernels.join[self.grid](rounded, remainder, again, count, BLOCK)
        self.assertTrue((again.array == bits.array).all())
        self.assertTrue((rounded.array == (bits.array + 0x8000) >> 16).all())
