"""What the gradient dy [rows, width] of h Bᵀ gives h and B on GPUs, in one pass over dy: dh = dy B and dB = dyᵀ h."""
import triton
import triton.language as tl


@triton.jit
def backward(dy_ptr, b_ptr, h_ptr, dh_ptr, db_ptr, rows, width, rank, h_stride, width_each, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
             RANK: tl.constexpr, WIDEN: tl.constexpr):
    """B [width, rank]; a row of h starts h_stride numbers behind the one before. Each program leaves the part that its columns have in dh
    and its rows have in dB, in dh [programs, rows, rank] and dB [programs, width, rank], fp32. Grid: programs of ROWS rows, programs of
    width_each columns. WIDEN: operands are multiplied as fp32, for Triton's interpreter, which cannot multiply bf16."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    rank_of = tl.arange(0, RANK)
    in_row, in_rank = (row < rows)[:, None], (rank_of < rank)[None, :]
    h = tl.load(h_ptr + row.to(tl.int64)[:, None] * h_stride + rank_of[None, :], mask=in_row & in_rank, other=0.0)
    dh = tl.zeros((ROWS, RANK), tl.float32)
    first = tl.program_id(1) * width_each
    db_of = db_ptr + tl.program_id(0).to(tl.int64) * width * rank
    for start in range(first, tl.minimum(first + width_each, width), COLUMNS):
        column = start + tl.arange(0, COLUMNS)
        inside = column < width
        dy = tl.load(dy_ptr + row.to(tl.int64)[:, None] * width + column[None, :], mask=in_row & inside[None, :], other=0.0)
        of_b, in_b = column[:, None] * rank + rank_of[None, :], inside[:, None] & in_rank
        b = tl.load(b_ptr + of_b, mask=in_b, other=0.0)
        if WIDEN:
            dy, b, h = dy.to(tl.float32), b.to(tl.float32), h.to(tl.float32)
        dh = tl.dot(dy, b, dh, input_precision="ieee")
        tl.store(db_of + of_b, tl.dot(tl.trans(dy), h, input_precision="ieee"), mask=in_b)
    dh_of = dh_ptr + tl.program_id(1).to(tl.int64) * rows * rank
    tl.store(dh_of + row[:, None] * rank + rank_of[None, :], dh, mask=in_row & in_rank)


@triton.jit
def joined(parts_ptr, out_ptr, count, num_parts, scale, BLOCK: tl.constexpr):
    """out [count] = scale · the sum of parts [num_parts, count] of fp32, in their order. Grid: programs of BLOCK numbers."""
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = place < count
    total = tl.zeros((BLOCK,), tl.float32)
    part_ptr = parts_ptr + place
    for _ in range(0, num_parts):
        total += tl.load(part_ptr, mask=inside, other=0.0)
        part_ptr += count
    tl.store(out_ptr + place, (total * scale).to(out_ptr.dtype.element_ty), mask=inside)


def builds():
    """What is compiled: dtype, function, types of its arguments (a number: the constant), warps."""
    for t, ranks, rows, columns in (("bf16", (16, 32), 256, 64), ("fp32", (16,), 128, 32)):
        for rank in ranks:
            yield t, backward, f"*{t}:16, *{t}:16, *{t}, *fp32:16, *fp32:16, i32, i32:16, i32, i32, i32:16, {rows}, {columns}, {rank}, 0", 8
        yield t, joined, f"*fp32:16, *{t}:16, i32, i32, fp32, 256", 4
