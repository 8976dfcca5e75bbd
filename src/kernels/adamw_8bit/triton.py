"""One update of AdamW with both moments as bytes on GPUs: codes of a map's 256 values, with a scale for each block of 256 numbers."""
import triton
import triton.language as tl


@triton.jit
def nearest(fraction, borders_ptr):
    """How many of the 255 borders between values lie below."""
    code = (fraction * 0.0).to(tl.int32)
    for step in tl.static_range(8):
        half = 128 >> step
        code += tl.where(tl.load(borders_ptr + code + half - 1) < fraction, half, 0)
    return code


@triton.jit
def encode(exact, codes_ptr, scales_ptr, borders_ptr, block, place, inside, is_block):
    most = tl.max(tl.abs(exact), axis=1)
    tl.store(scales_ptr + block, most, mask=is_block)
    fraction = exact * (1.0 / tl.maximum(most, 1e-38))[:, None]  # a block of zeros has the code of zero and the scale 0
    tl.store(codes_ptr + place, nearest(fraction, borders_ptr).to(tl.uint8), mask=inside)


@triton.jit
def update(value_ptr, gradient_ptr, first_codes_ptr, first_scales_ptr, second_codes_ptr, second_scales_ptr, first_values_ptr, first_borders_ptr,
           second_values_ptr, second_borders_ptr, count, decay, beta1, rest1, beta2, rest2, step_size, root_correction, eps, BLOCKS: tl.constexpr):
    """value decay - step_size m / (sqrt(v) / root_correction + eps), m and v the moments after the gradient; rest1 is 1 - beta1. Grid: blocks
    of 256 numbers / BLOCKS rounded up."""
    block = tl.program_id(0) * BLOCKS + tl.arange(0, BLOCKS)
    place = block[:, None] * 256 + tl.arange(0, 256)[None, :]
    inside = place < count
    is_block = block * 256 < count
    gradient = tl.load(gradient_ptr + place, mask=inside, other=0.0)
    code = tl.load(first_codes_ptr + place, mask=inside, other=0).to(tl.int32)
    first = tl.load(first_values_ptr + code) * tl.load(first_scales_ptr + block, mask=is_block, other=0.0)[:, None]
    code = tl.load(second_codes_ptr + place, mask=inside, other=0).to(tl.int32)
    second = tl.load(second_values_ptr + code) * tl.load(second_scales_ptr + block, mask=is_block, other=0.0)[:, None]
    first = tl.where(inside, beta1 * first + rest1 * gradient, 0.0)
    second = tl.where(inside, beta2 * second + rest2 * gradient * gradient, 0.0)
    value = tl.load(value_ptr + place, mask=inside, other=0.0) * decay - step_size * first / (tl.sqrt(second) / root_correction + eps)
    tl.store(value_ptr + place, value, mask=inside)
    encode(first, first_codes_ptr, first_scales_ptr, first_borders_ptr, block, place, inside, is_block)
    encode(second, second_codes_ptr, second_scales_ptr, second_borders_ptr, block, place, inside, is_block)


def builds():
    """What is compiled: dtype, function, types of its arguments (a number: the constant), warps."""
    yield ("fp32", update, "*fp32:16, *fp32:16, *u8:16, *fp32, *u8:16, *fp32, *fp32, *fp32, *fp32, *fp32, i32:16, fp32, fp32, fp32, fp32, fp32, "
           "fp32, fp32, fp32, 4", 4)
