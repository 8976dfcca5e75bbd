#include "kernels/low_rank/gpu.h"

#include <ATen/ops/empty.h>

#include "kernels/launch.h"
#include "kernels/place.h"

namespace burnish::kernels {

namespace {

constexpr int64_t kColumns = 32, kColumnsOfProgram = 512;
constexpr int64_t kFewRows = 64;  // of which products are as good

struct Block {
  int64_t rows, rank;
};

/// Of those that the kernel is compiled for, the least that holds the rank; no rows where none does. Of higher ranks the parts of dh and dB
/// are larger than a second pass over dy.
Block block_of(c10::ScalarType dtype, int64_t rank) {
  const bool is_fp32 = dtype == at::kFloat;
  if (rank <= 16) return {is_fp32 ? 128 : 512, 16};
  if (rank <= 32 && !is_fp32) return {256, 32};
  return {0, 0};
}

const Binary* factor_kernel(const at::Tensor& dy, Block block) {
  return find_kernel(kernel_name("low_rank.backward", kernel_dtype(dy.scalar_type()), {block.rows, kColumns, block.rank, 0}), dy.device());
}

}  // namespace

bool factor_gradients_fit_gpu(const at::Tensor& dy, const at::Tensor& b, const at::Tensor& h) {
  if (runs_on_cpu(dy) || kernel_dtype(dy.scalar_type()).empty() || dy.dim() < 2 || dy.numel() == 0) return false;
  const auto block = block_of(dy.scalar_type(), b.size(1));
  return block.rows > 0 && dy.numel() >= kFewRows * dy.size(-1) && dy.size(-1) % 16 == 0 && b.scalar_type() == dy.scalar_type() &&
         h.scalar_type() == dy.scalar_type() && factor_kernel(dy, block) != nullptr;
}

std::pair<at::Tensor, at::Tensor> factor_gradients_gpu(const at::Tensor& dy_given, const at::Tensor& b, const at::Tensor& h_given) {
  const auto dy = contiguous_aligned(dy_given);
  auto h_NR = h_given.flatten(0, -2);  // a view, also of some columns of what lies in rows
  if (h_NR.stride(1) != 1) h_NR = h_NR.contiguous();
  const int64_t width = b.size(0), rank = b.size(1), rows = dy.numel() / width;
  const auto block = block_of(dy.scalar_type(), rank);
  const int64_t tall = (rows + block.rows - 1) / block.rows, wide = (width + kColumnsOfProgram - 1) / kColumnsOfProgram;
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
          {"width_each", kColumnsOfProgram}});
  return {dh.sum(0).view(h_given.sizes()), db.sum(0)};
}

}  // namespace burnish::kernels
