"""Rows to E4M3 or INT8 on GPUs: codes of x / scale, scale the row's largest magnitude over 448 or 127."""
import triton
import triton.language as tl
from rotate.triton import rotated


@triton.jit
def e4m3_code(value):
    """To nearest, ties to even, of fp32 numbers in [-448, 448]; NaN has a code of its own. Bits are moved by hand because GPUs before 8.9
    have no such conversion."""
    bits = value.to(tl.int32, bitcast=True)
    size_bits = bits & 0x7FFFFFFF
    size = size_bits.to(tl.float32, bitcast=True)
    normal = ((size_bits + 0x7FFFF + ((size_bits >> 20) & 1)) >> 20) - (120 << 3)  # exponents differ by 127 - 7
    # Below 2^-6 codes are evenly spaced by 2^-9, as fp32 numbers are from 2^14 on: the sum rounds.
    small = (size + 16384.0).to(tl.int32, bitcast=True) - 0x46800000
    code = tl.where(size < 0.015625, small, normal)
    code = tl.where(size_bits > 0x7F800000, 0x7F, code)
    return code | ((bits >> 24) & 0x80)


@triton.jit
def int8_code(value):
    """To nearest, ties to even, of fp32 numbers in [-127, 127], as a byte of two's complement."""
    return (value + 12582912.0).to(tl.int32, bitcast=True) & 0xFF  # 1.5 * 2^23: the sum's low bits hold the rounded integer


@triton.jit
def codes(x_ptr, gain_ptr, codes_ptr, scales_ptr, width, GAIN: tl.constexpr, INT8: tl.constexpr, ROTATION: tl.constexpr,
          BLOCK: tl.constexpr):
    """x [rows, width], with GAIN times gain [width] in fp32, ROTATION neighbours rotated -> codes, scales [rows]. Grid: rows."""
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    most = tl.zeros((BLOCK,), tl.int32)  # magnitudes as whole numbers, of which NaN is the largest
    for first in range(0, width, BLOCK):
        inside = first + column < width
        x = tl.load(x_ptr + row * width + first + column, mask=inside, other=0.0).to(tl.float32)
        if GAIN:
            x *= tl.load(gain_ptr + first + column, mask=inside, other=0.0)
        if ROTATION:
            x = rotated(x, BLOCK, ROTATION)
        most = tl.maximum(most, x.to(tl.int32, bitcast=True) & 0x7FFFFFFF)
    largest = 127.0 if INT8 else 448.0
    least = 0x2B8CBCCC  # 1e-12
    scale = tl.div_rn(tl.maximum(tl.max(most, axis=0), least).to(tl.float32, bitcast=True), largest)
    tl.store(scales_ptr + row, scale)
    for first in range(0, width, BLOCK):
        inside = first + column < width
        x = tl.load(x_ptr + row * width + first + column, mask=inside, other=0.0).to(tl.float32)
        if GAIN:
            x *= tl.load(gain_ptr + first + column, mask=inside, other=0.0)
        if ROTATION:
            x = rotated(x, BLOCK, ROTATION)
        x = tl.div_rn(x, scale)
        x = tl.where(x > largest, largest, tl.where(x < -largest, -largest, x))
        code = int8_code(x) if INT8 else e4m3_code(x)
        tl.store(codes_ptr + row * width + first + column, code.to(tl.uint8), mask=inside)


def builds():
    """What is compiled: dtype, function, types of its arguments (a number: the constant), warps."""
    for t in ("bf16", "fp32"):
        for gain, int8, rotation in ((0, 0, 0), (1, 0, 0), (0, 1, 0), (1, 1, 0), (0, 1, 16), (0, 1, 64), (0, 1, 256)):
            yield t, codes, f"*{t}:16, *fp32:16, *u8:16, *fp32, i32:16, {gain}, {int8}, {rotation}, 2048", 4
