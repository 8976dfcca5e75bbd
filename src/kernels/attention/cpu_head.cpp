#include "kernels/attention/cpu_head.h"

#include <ATen/Parallel.h>
#include <ATen/native/CPUBlas.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstdint>

namespace burnish::kernels {

namespace {

int64_t up_to_whole(int64_t n, int64_t by) { return (n + by - 1) / by; }

constexpr int64_t kVector = 16;  // fp32 numbers

}  // namespace

HeadShape::HeadShape(const at::Tensor& q, const at::Tensor& k)
    : B(q.size(0)), H(q.size(1)), L(q.size(2)), S(k.size(2)), D(q.size(3)), keys(std::min(kTile, S + S % 2)) {
  queries = kVector * up_to_whole(up_to_whole(L, up_to_whole(L, kTile)), kVector);
}

Bf16Rows Head::rows(const at::Tensor& x, int64_t first, int64_t count) const {
  return {x.const_data_ptr<c10::BFloat16>() + b * x.stride(0) + h * x.stride(1) + first * x.stride(2), x.stride(2), count, x.size(3)};
}

c10::BFloat16* Head::row(const at::Tensor& x, int64_t number) const {
  return x.mutable_data_ptr<c10::BFloat16>() + b * x.stride(0) + h * x.stride(1) + number * x.stride(2);
}

KeyBias::KeyBias(const at::Tensor& bias, const Head& head) {
  if (!bias.defined()) return;
  first_ = bias.const_data_ptr<float>() + head.b * bias.stride(0) + head.h * bias.stride(1);
  stride_ = bias.stride(3);
}

void for_tasks(int64_t count, int64_t num_bytes, const at::Tensor& like, const std::function<void(int64_t, std::byte*)>& task) {
  const int64_t threads = std::min<int64_t>(at::get_num_threads(), count);
  auto memory = at::empty({threads * num_bytes + Pieces::kLine}, like.options().dtype(at::kByte));
  if (like.is_meta()) return;
  auto* unaligned = reinterpret_cast<std::byte*>(memory.mutable_data_ptr<uint8_t>());
  auto* start = unaligned + (Pieces::kLine - reinterpret_cast<std::uintptr_t>(unaligned) % Pieces::kLine);
  at::parallel_for(0, count, up_to_whole(count, threads), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) task(i, start + at::get_thread_num() * num_bytes);
    at::native::cpublas::brgemm_release();
  });
}

void multiply_keys(const Bf16Rows& keys, const uint32_t* queries, int64_t num_queries, float* scores) {
  multiply_paired(keys, queries, num_queries, /*adds=*/false, scores);
}

void multiply_paired(const Bf16Rows& left, const uint32_t* right, int64_t columns, bool adds, float* sums) {
  at::native::cpublas::brgemm(left.rows, columns, left.columns, left.stride, columns, columns, adds, left.first,
                              reinterpret_cast<const c10::BFloat16*>(right), sums);
}

}  // namespace burnish::kernels
