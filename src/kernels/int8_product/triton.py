"""Products of INT8 codes on GPUs, whole sums of which are scaled, added and rounded while they are in registers."""
import triton
import triton.language as tl


@triton.jit
def sums_of(a_ptr, b_ptr, row, column, num_rows, num_columns, width, ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr):
    """The sums a bᵀ, int32, of ROWS rows of a [num_rows, width] and COLUMNS of b [num_columns, width]. Rows behind the last are read as the last."""
    depth = tl.arange(0, DEPTH)
    a = a_ptr + tl.minimum(row, num_rows - 1).to(tl.int64)[:, None] * width + depth[None, :]
    b = b_ptr + tl.minimum(column, num_columns - 1).to(tl.int64)[None, :] * width + depth[:, None]
    sums = tl.zeros((ROWS, COLUMNS), tl.int32)
    for first in range(0, width, DEPTH):
        inside = first + depth < width
        of_a = tl.load(a + first, mask=inside[None, :], other=0)
        of_b = tl.load(b + first, mask=inside[:, None], other=0)
        sums = tl.dot(of_a, of_b, sums, out_dtype=tl.int32)
    return sums


@triton.jit
def tile_of(program, num_rows, num_columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """{first row, first column} of a program's tile: eight tiles below each other come first, which read the same rows of b."""
    TOGETHER: tl.constexpr = 8
    tall, wide = (num_rows + ROWS - 1) // ROWS, (num_columns + COLUMNS - 1) // COLUMNS
    first = program // (TOGETHER * wide) * TOGETHER
    together = tl.minimum(tall - first, TOGETHER)
    return (first + program % (TOGETHER * wide) % together) * ROWS, program % (TOGETHER * wide) // together * COLUMNS


@triton.jit
def scaled(a_ptr, b_ptr, y_ptr, rows_ptr, columns_ptr, bias_ptr, num_rows, num_columns, width, y_stride, WITH_COLUMNS: tl.constexpr,
           BIAS: tl.constexpr, ADDS: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr):
    """y = (a bᵀ) · scales of rows · scales of columns + bias, or with ADDS y += it. Grid: tiles of [ROWS, COLUMNS]."""
    first_row, first_column = tile_of(tl.program_id(0), num_rows, num_columns, ROWS, COLUMNS)
    row, column = first_row + tl.arange(0, ROWS), first_column + tl.arange(0, COLUMNS)
    value = sums_of(a_ptr, b_ptr, row, column, num_rows, num_columns, width, ROWS, COLUMNS, DEPTH).to(tl.float32)
    in_row, in_column = row < num_rows, column < num_columns
    value *= tl.load(rows_ptr + row, mask=in_row, other=0.0)[:, None]
    if WITH_COLUMNS:
        value *= tl.load(columns_ptr + column, mask=in_column, other=0.0)[None, :]
    if BIAS:
        value += tl.load(bias_ptr + column, mask=in_column, other=0.0)[None, :]
    place, inside = y_ptr + row.to(tl.int64)[:, None] * y_stride + column[None, :], in_row[:, None] & in_column[None, :]
    if ADDS:
        value += tl.load(place, mask=inside, other=0.0).to(tl.float32)
    tl.store(place, value.to(y_ptr.dtype.element_ty), mask=inside)


@triton.jit
def sums(a_ptr, b_ptr, sums_ptr, num_rows, num_columns, width, ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr):
    """The sums themselves, int32 [num_rows, num_columns]. Grid: tiles of [ROWS, COLUMNS]."""
    first_row, first_column = tile_of(tl.program_id(0), num_rows, num_columns, ROWS, COLUMNS)
    row, column = first_row + tl.arange(0, ROWS), first_column + tl.arange(0, COLUMNS)
    of_tile = sums_of(a_ptr, b_ptr, row, column, num_rows, num_columns, width, ROWS, COLUMNS, DEPTH)
    place = sums_ptr + row.to(tl.int64)[:, None] * num_columns + column[None, :]
    tl.store(place, of_tile, mask=(row < num_rows)[:, None] & (column < num_columns)[None, :])


def builds():
    """What is compiled: dtype, function, types of its arguments (a number: the constant), warps, stages of loads."""
    tile, warps, stages = "128, 128, 128", 4, 3  # of those tried the fastest on an H200, at 1030 to 1220 TOPS; 96 KiB of shared memory
    for columns, bias, adds in ((1, 0, 0), (1, 1, 0), (1, 0, 1), (0, 0, 0), (0, 0, 1)):
        yield ("bf16", scaled, f"*i8:16, *i8:16, *bf16:16, *fp32, *fp32:16, *fp32:16, i32, i32:16, i32:16, i32:16, {columns}, {bias}, {adds}, {tile}",
               warps, stages)
    yield "i8", sums, f"*i8:16, *i8:16, *i32:16, i32, i32:16, i32:16, {tile}", warps, stages
