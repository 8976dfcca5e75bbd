"""Neighbours of rows rotated by the regular Hadamard matrix of ConvRot on GPUs, as rotate.h says."""
import triton
import triton.language as tl


@triton.jit
def rotated_digit(x, SIZE: tl.constexpr, STRIDE: tl.constexpr):
    """The digit of a number's place to the base 4 that counts STRIDE: of four numbers with the sum s the i-th becomes s / 2 - x(3 - i)."""
    four = tl.reshape(x, (SIZE // (4 * STRIDE), 4, STRIDE))
    return tl.reshape(0.5 * tl.sum(four, axis=1, keep_dims=True) - tl.flip(four, 1), (SIZE,))


@triton.jit
def rotated(x, SIZE: tl.constexpr, GROUP: tl.constexpr):
    """Of SIZE numbers in fp32 every GROUP neighbours, digit by digit."""
    for digit in tl.static_range(6):
        if 4**digit < GROUP:
            x = rotated_digit(x, SIZE, 4**digit)
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
