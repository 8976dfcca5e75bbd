"""Neighbours of rows rotated by the regular Hadamard matrix of ConvRot on GPUs, as rotate.h says."""
import triton
import triton.language as tl


@triton.jit
def rotated(x, SIZE: tl.constexpr, GROUP: tl.constexpr):
    """Of SIZE numbers in fp32 every GROUP neighbours, a digit of a number's place to the base 4 at a time: of four numbers with the sum s
    the i-th becomes s / 2 - x(3 - i)."""
    for digit in tl.static_range(6):
        STRIDE: tl.constexpr = 4**digit
        if STRIDE < GROUP:
            four = tl.reshape(x, (SIZE // (4 * STRIDE), 4, STRIDE))
            x = tl.reshape(0.5 * tl.sum(four, axis=1, keep_dims=True) - tl.flip(four, 1), (SIZE,))
    return x


@triton.jit
def rows(x_ptr, count, GROUP: tl.constexpr, BLOCK: tl.constexpr):
    """x [count] fp32 in place. Grid: count / BLOCK, rounded up."""
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + place, mask=place < count, other=0.0)
    tl.store(x_ptr + place, rotated(x, BLOCK, GROUP), mask=place < count)


def builds():
    """What is compiled: dtype, function, types of its arguments (a number: the constant), warps."""
    for group in (16, 64, 256):
        yield "fp32", rows, f"*fp32:16, i32:16, {group}, 1024", 4
