"""How trained values are rounded on GPUs, on flat tensors: stochastically to bf16 or E4M3, or split into bf16 and what its bits lack."""
import triton
import triton.language as tl


@triton.jit
def random_bits(place, key):
    """The finalizer of MurmurHash3 of an element's number and the key."""
    x = place.to(tl.uint32) * 0x9E3779B9 + key.to(tl.uint32)
    x = (x ^ (x >> 16)) * 0x85EBCA6B
    x = (x ^ (x >> 13)) * 0xC2B2AE35
    return x ^ (x >> 16)


@triton.jit
def to_bf16(from_ptr, to_ptr, count, key, BLOCK: tl.constexpr):
    """Bits of fp32 to those of bf16: random bits below those that stay carry as often as they should. Grid: count / BLOCK rounded up."""
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = place < count
    bits = tl.load(from_ptr + place, mask=inside, other=0)
    below = tl.where((bits & 0x7F800000) != 0x7F800000, random_bits(place, key) >> 16, 0)
    tl.store(to_ptr + place, ((bits + below) >> 16).to(tl.uint16), mask=inside)


@triton.jit
def to_e4m3(from_ptr, to_ptr, count, key, BLOCK: tl.constexpr):
    """Bits of fp32 to codes, in steps of 2^(e-3), e the exponent and -6 at least: the number of steps is the code's lower bits, and carries
    into the exponent as it should. Grid as to_bf16."""
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = place < count
    bits = tl.load(from_ptr + place, mask=inside, other=0)
    size_bits = bits & 0x7FFFFFFF
    fits = size_bits <= 0x43E00000  # 448
    e = tl.maximum((size_bits >> 23).to(tl.int32), 121) - 127
    steps = tl.where(fits, size_bits.to(tl.float32, bitcast=True) * ((130 - e) << 23).to(tl.float32, bitcast=True), 0.0)
    whole = steps.to(tl.int32)
    random = (random_bits(place, key) >> 8).to(tl.float32) * 5.9604644775390625e-08  # 2^-24
    code = ((e + 6) << 3) + whole + tl.where(random < steps - whole.to(tl.float32), 1, 0)
    code = tl.where(fits, code, 0x7F) | ((bits >> 24) & 0x80).to(tl.int32)
    tl.store(to_ptr + place, code.to(tl.uint8), mask=inside)


@triton.jit
def split(exact_ptr, rounded_ptr, remainder_ptr, count, BLOCK: tl.constexpr):
    """Bits of fp32 to those of the nearest bf16, halves away from zero, and their difference. Grid as to_bf16."""
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = place < count
    bits = tl.load(exact_ptr + place, mask=inside, other=0)
    upper = (bits + 0x8000) >> 16
    tl.store(rounded_ptr + place, upper.to(tl.uint16), mask=inside)
    tl.store(remainder_ptr + place, (bits - (upper << 16)).to(tl.uint16), mask=inside)


@triton.jit
def join(rounded_ptr, remainder_ptr, exact_ptr, count, BLOCK: tl.constexpr):
    """The fp32 bits again. Grid as to_bf16."""
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = place < count
    upper = tl.load(rounded_ptr + place, mask=inside, other=0).to(tl.uint32)
    below = tl.load(remainder_ptr + place, mask=inside, other=0).to(tl.int16, bitcast=True).to(tl.int32).to(tl.uint32, bitcast=True)
    tl.store(exact_ptr + place, (upper << 16) + below, mask=inside)


def builds():
    """What is compiled: dtype (of what is exact), function, types of its arguments (a number: the constant), warps."""
    yield "fp32", to_bf16, "*u32:16, *u16:16, i32:16, u32, 1024", 4
    yield "fp32", to_e4m3, "*u32:16, *u8:16, i32:16, u32, 1024", 4
    yield "fp32", split, "*u32:16, *u16:16, *u16:16, i32:16, 1024", 4
    yield "fp32", join, "*u16:16, *u16:16, *u32:16, i32:16, 1024", 4
