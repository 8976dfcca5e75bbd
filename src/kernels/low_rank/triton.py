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


def builds():
    """What is compiled: dtype, function, types of its arguments (a number: the constant), warps."""
    for t, rows in (("bf16", {16: 512, 32: 256}), ("fp32", {16: 128})):
        for rank, block in rows.items():
            yield t, backward, f"*{t}:16, *{t}:16, *{t}, *fp32:16, *fp32:16, i32, i32:16, i32, i32, i32:16, {block}, 32, {rank}, 0", 8
