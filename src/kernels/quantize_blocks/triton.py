"""Rows to MXFP8 or NVFP4 on GPUs, with scales where products of such codes read them."""
import triton
import triton.language as tl
from quantize_rows.triton import e4m3_code


@triton.jit
def e4m3_value(code):
    """The number of a code that is not negative and no NaN, by its bits."""
    normal = ((code + (120 << 3)) << 20).to(tl.float32, bitcast=True)
    return tl.where(code < 8, code.to(tl.float32) * 0.001953125, normal)


@triton.jit
def e2m1_code(value):
    """To nearest, ties to an even code, of fp32 numbers in [-6, 6]: as many of the halves between magnitudes as lie below."""
    size = tl.abs(value)
    code = (size > 0.25).to(tl.int32) + (size >= 0.75).to(tl.int32) + (size > 1.25).to(tl.int32) + (size >= 1.75).to(tl.int32)
    code += (size > 2.5).to(tl.int32) + (size >= 3.5).to(tl.int32) + (size > 5.0).to(tl.int32)
    return code | ((value.to(tl.int32, bitcast=True) >> 28) & 8)


@triton.jit
def codes(x_ptr, whole_ptr, codes_ptr, scales_ptr, width, groups, E2M1: tl.constexpr, GROUP: tl.constexpr, BLOCK: tl.constexpr):
    """x [rows, width] -> codes, scales of a byte in blocks of 128 rows by 4 of `groups`, which is a multiple of 4; with E2M1 over *whole.
    Grid: rows, blocks of a row."""
    row = tl.program_id(0).to(tl.int64)
    first = tl.program_id(1) * BLOCK
    column = first + tl.arange(0, BLOCK)
    inside = column < width
    x = tl.reshape(tl.load(x_ptr + row * width + column, mask=inside, other=0.0).to(tl.float32), (BLOCK // GROUP, GROUP))
    most = tl.max(x.to(tl.int32, bitcast=True) & 0x7FFFFFFF, axis=1)  # magnitudes as whole numbers, of which NaN is the largest
    if E2M1:
        whole = tl.load(whole_ptr)
        scale = tl.div_rn(tl.div_rn(most.to(tl.float32, bitcast=True), 6.0), whole)
        byte = e4m3_code(tl.where(scale > 448.0, 448.0, scale))
        scale = e4m3_value(byte) * whole
    else:
        byte = (most >> 23) - 8 + ((most & 0x7FFFFF) > 0x600000).to(tl.int32)
        byte = tl.minimum(tl.maximum(byte, 0), 254)
        scale = tl.where(byte == 0, 1 << 22, byte << 23).to(tl.float32, bitcast=True)
    group = first // GROUP + tl.arange(0, BLOCK // GROUP)
    place = ((row // 128) * (groups // 4) + group // 4) * 512 + (row % 32) * 16 + ((row % 128) // 32) * 4 + group % 4
    tl.store(scales_ptr + place, byte.to(tl.uint8), mask=group * GROUP < width)
    each = tl.broadcast_to(tl.expand_dims(scale, 1), (BLOCK // GROUP, GROUP))
    if E2M1:
        value = tl.where(each == 0.0, 0.0, tl.div_rn(x, tl.where(each == 0.0, 1.0, each)))
        value = tl.where(value > 6.0, 6.0, tl.where(value < -6.0, -6.0, value))
        high, low = tl.split(tl.reshape(e2m1_code(value), (BLOCK // 2, 2)))
        pair = first // 2 + tl.arange(0, BLOCK // 2)
        tl.store(codes_ptr + row * (width // 2) + pair, (high * 16 + low).to(tl.uint8), mask=pair * 2 < width)
    else:
        code = tl.reshape(e4m3_code(tl.div_rn(x, each)), (BLOCK,))
        tl.store(codes_ptr + row * width + column, code.to(tl.uint8), mask=inside)


def builds():
    """What is compiled: dtype, function, types of its arguments (a number: the constant), warps."""
    for t in ("bf16", "fp32"):
        for e2m1, group in ((0, 32), (1, 16)):
            yield t, codes, f"*{t}:16, *fp32, *u8:16, *u8:16, i32:16, i32, {e2m1}, {group}, 1024", 4
