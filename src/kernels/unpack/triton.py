"""Codes of weights to numbers on GPUs: value · scale for every code of rows that lie below each other."""
import triton
import triton.language as tl

E4M3, E5M2, INT8, NF4 = 0, 1, 2, 3  # in the order of CodeKind


@triton.jit
def of_8_bits(code, MANTISSA: tl.constexpr, BIAS: tl.constexpr, NAN: tl.constexpr):
    """Numbers of MANTISSA bits below a sign and an exponent of the given bias. Shifted to an fp32 number's place a code has but a wrong
    exponent; below the smallest exponent the mantissa is a plain integer. From NAN on a magnitude stands for no number."""
    magnitude = code & 0x7F
    normal = ((magnitude << (23 - MANTISSA)) + ((127 - BIAS) << 23)).to(tl.float32, bitcast=True)
    small = magnitude.to(tl.float32) * (2.0 / (1 << (BIAS + MANTISSA)))
    value = tl.where(magnitude < (1 << MANTISSA), small, normal)
    value = tl.where(magnitude >= NAN, float("nan"), value)
    return tl.where((code & 0x80) != 0, -value, value)


@triton.jit
def one_of(bit, low, high):
    return tl.where(bit != 0, high, low)


@triton.jit
def of_4_bits(code):
    """The values of NF4, found by the bits of the code: no table has to be in memory."""
    a, b, c, d = code & 1, code & 2, code & 4, code & 8
    v0, v1 = one_of(a, -1.0, -0.6961928009986877), one_of(a, -0.5250730514526367, -0.39491748809814453)
    v2, v3 = one_of(a, -0.28444138169288635, -0.18477343022823334), one_of(a, -0.09105003625154495, 0.0)
    v4, v5 = one_of(a, 0.07958029955625534, 0.16093020141124725), one_of(a, 0.24611230194568634, 0.33791524171829224)
    v6, v7 = one_of(a, 0.44070982933044434, 0.5626170039176941), one_of(a, 0.7229568362236023, 1.0)
    return one_of(d, one_of(c, one_of(b, v0, v1), one_of(b, v2, v3)), one_of(c, one_of(b, v4, v5), one_of(b, v6, v7)))


@triton.jit
def values(codes_ptr, scales_ptr, out_ptr, width, bytes_of_row, scale_stride, KIND: tl.constexpr, GROUP: tl.constexpr, BLOCK: tl.constexpr):
    """codes [rows, bytes_of_row], scales one for GROUP numbers of a row (0: for all) -> out [rows, width]. Grid: rows, width / BLOCK rounded
    up."""
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = column < width
    if KIND == 3:
        pair = tl.load(codes_ptr + row * bytes_of_row + column // 2, mask=inside, other=0).to(tl.int32)
        value = of_4_bits(tl.where(column % 2 == 0, pair >> 4, pair & 15))
    else:
        code = tl.load(codes_ptr + row * bytes_of_row + column, mask=inside, other=0).to(tl.int32)
        if KIND == 0:
            value = of_8_bits(code, 3, 7, 0x7F)
        elif KIND == 1:
            value = of_8_bits(code, 2, 15, 0x7C)
        else:
            value = tl.where(code > 127, code - 256, code).to(tl.float32)
    if GROUP == 0:
        scale = tl.load(scales_ptr + row * scale_stride)
    else:
        scale = tl.load(scales_ptr + row * scale_stride + column // GROUP, mask=inside, other=0.0)
    tl.store(out_ptr + row * width + column, (value * scale).to(out_ptr.dtype.element_ty), mask=inside)


def builds():
    """What is compiled: dtype, function, types of its arguments (a number: the constant), warps."""
    for t in ("bf16", "fp32"):
        for kind, group in ((E4M3, 0), (E4M3, 128), (E5M2, 0), (INT8, 0), (NF4, 64)):
            yield t, values, f"*u8:16, *fp32, *{t}:16, i32:16, i32:16, i32, {kind}, {group}, 1024", 4
