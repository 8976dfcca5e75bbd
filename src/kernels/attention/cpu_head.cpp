#include "kernels/attention/cpu_head.h"

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

void multiply_keys(const Bf16Rows& keys, const uint32_t* queries, int64_t num_queries, float* scores) {
  multiply_paired(keys, queries, num_queries, /*adds=*/false, scores);
}

}  // namespace burnish::kernels
