#include "kernels/low_rank/gpu.h"

#include <ATen/ops/empty.h>

#include "kernels/launch.h"
#include "kernels/place.h"

namespace burnish::kernels {

namespace {

constexpr int64_t kFewRows = 64;          // of which products are as good
constexpr int64_t kEnoughPrograms = 192;  // to keep a large GPU busy, which has about 140 multiprocessors
constexpr int64_t kJoinBlock = 256;

struct Block {
  int64_t rows, columns, rank;
};

/// Of those that the kernel is compiled for, the least that holds the rank; no rows where none does. Of higher ranks the parts of dh and dB
/// are larger than a second pass over dy.
Block block_of(c10::ScalarType dtype, int64_t rank) {
  if (dtype == at::kFloat) return rank <= 16 ? Block{128, 32, 16} : Block{};
  return rank <= 32 ? Block{256, 64, rank <= 16 ? 16 : 32} : Block{};
}

const Binary* factor_kernel(const at::Tensor& dy, Block block) {
  return find_kernel(kernel_name("low_rank.backward", kernel_dtype(dy.scalar_type()), {block.rows, block.columns, block.rank, 0}),
                     dy.device());
}

const Binary* join_kernel(c10::ScalarType dtype, c10::Device device) {
  return find_kernel(kernel_name("low_rank.joined", kernel_dtype(dtype), {kJoinBlock}), device);
}

/// Columns of a program: as many as leave work for all of the GPU.
int64_t columns_of_program(int64_t tall, int64_t width, Block block) {
  int64_t each = 512;
  while (each > block.columns && tall * ((width + each - 1) / each) < kEnoughPrograms) each /= 2;
  return each;
}

at::Tensor joined(const at::Tensor& parts, double scale, at::IntArrayRef sizes, c10::ScalarType dtype) {
  auto out = at::empty(sizes, parts.options().dtype(kernel_dtype(dtype).empty() ? at::kFloat : dtype));
  launch(*join_kernel(out.scalar_type(), parts.device()), {(out.numel() + kJoinBlock - 1) / kJoinBlock, 1, 1},
         {{"parts", parts}, {"out", out}, {"count", out.numel()}, {"num_parts", parts.size(0)}, {"scale", scale}});
  return out.to(dtype);
}

}  // namespace

bool factor_gradients_fit_gpu(const at::Tensor& dy, const at::Tensor& b, const at::Tensor& h) {
  if (runs_on_cpu(dy) || kernel_dtype(dy.scalar_type()).empty() || dy.dim() < 2 || dy.numel() == 0) return false;
  const auto block = block_of(dy.scalar_type(), b.size(1));
  return block.rows > 0 && dy.numel() >= kFewRows * dy.size(-1) && dy.size(-1) % 16 == 0 && b.scalar_type() == dy.scalar_type() &&
         h.scalar_type() == dy.scalar_type() && factor_kernel(dy, block) != nullptr;
}

std::pair<at::Tensor, at::Tensor> factor_gradients_gpu(const at::Tensor& dy_given, const at::Tensor& b, const at::Tensor& h_given,
                                                       double scale, c10::ScalarType db_dtype) {
  const auto dy = contiguous_aligned(dy_given);
  auto h_NR = h_given.flatten(0, -2);  // a view, also of some columns of what lies in rows
  if (h_NR.stride(1) != 1) h_NR = h_NR.contiguous();
  const int64_t width = b.size(0), rank = b.size(1), rows = dy.numel() / width;
  const auto block = block_of(dy.scalar_type(), rank);
  const int64_t tall = (rows + block.rows - 1) / block.rows, width_each = columns_of_program(tall, width, block);
  const int64_t wide = (width + width_each - 1) / width_each;
  const auto options = dy.options().dtype(at::kFloat);
  const auto dh = at::empty({wide, rows, rank}, options), db = at::empty({tall, width, rank}, options);
  launch(*factor_kernel(dy, block), {tall, wide, 1},
         {{"dy", dy},
          {"b", contiguous_aligned(b)},
          {"h", h_NR},
          {"dh", dh},
          {"db", db},
          {"rows", rows},
          {"width", width},
          {"rank", rank},
          {"h_stride", h_NR.stride(0)},
          {"width_each", width_each}});
  return {joined(dh, scale, h_given.sizes(), dy.scalar_type()), joined(db, scale, {width, rank}, db_dtype)};
}

}  // namespace burnish::kernels
