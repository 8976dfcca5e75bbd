#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <ATen/cuda/CUDAEvent.h>
#include <ATen/native/transformers/cuda/sdp_utils.h>
#include <ATen/ops/ones_like.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/csrc/autograd/autograd.h>

#include <ATen/cuda/CUDAGraphsUtils.cuh>
#include <algorithm>
#include <array>

#include "base/error.h"
#include "kernels/attention/backends.h"
#include "kernels/fastest.h"

namespace burnish::kernels {

namespace {

struct Way {
  at::SDPBackend backend;
  bool (*suits)(const sdp::sdp_params& params, bool says_why_not);
};
constexpr std::array kWays{Way{at::SDPBackend::flash_attention, sdp::can_use_flash_attention},
                           Way{at::SDPBackend::cudnn_attention, sdp::can_use_cudnn_attention},
                           Way{at::SDPBackend::efficient_attention, sdp::can_use_mem_efficient_attention}};

constexpr int kTimes = 3;                 // that each way is timed, behind one call that plans and loads it
constexpr size_t kMostShapes = 64;        // that are tried; prompts of any length have many
constexpr int64_t kFewNumbers = 1 << 16;  // in q, below which all take as long as a launch

Fastest& fastest() {
  static Fastest of_all_shapes(kMostShapes);
  return of_all_shapes;
}

/// Puts the backend before all others that ATen may take.
void prefer(at::SDPBackend backend) {
  std::vector<int64_t> order{static_cast<int64_t>(backend)};
  for (auto other : {at::SDPBackend::flash_attention, at::SDPBackend::efficient_attention, at::SDPBackend::cudnn_attention,
                     at::SDPBackend::math, at::SDPBackend::overrideable}) {
    if (other != backend) order.push_back(static_cast<int64_t>(other));
  }
  at::globalContext().setSDPPriorityOrder(order);
}

/// Everything that ATen's kernels are chosen and planned by.
Fastest::Key key_of(const AttentionCall& call) {
  Fastest::Key key{call.q.device().index(), static_cast<int64_t>(call.q.scalar_type()), call.causal};
  for (const auto* tensor : {&call.q, &call.k, &call.v, &call.bias}) {
    if (!tensor->defined()) continue;
    key.insert(key.end(), tensor->sizes().begin(), tensor->sizes().end());
    key.insert(key.end(), tensor->strides().begin(), tensor->strides().end());
  }
  return key;
}

void forward_and_backward(const AttentionCall& call) {
  const at::AutoGradMode with_gradients(true);
  auto leaf = [](const at::Tensor& x) { return x.detach().requires_grad_(); };
  const auto q = leaf(call.q), k = leaf(call.k), v = leaf(call.v);
  const auto bias = call.bias.defined() ? call.bias.detach() : at::Tensor();
  const auto out = attention_of_aten({q, k, v, bias, call.causal, call.scale});
  torch::autograd::grad({out}, {q, k, v}, {at::ones_like(out)});
}

/// Measures milliseconds: the least of some, since others may use the GPU.
std::optional<double> time_of(const Way& way, const AttentionCall& call) {
  std::optional<at::Tensor> bias;
  if (call.bias.defined()) bias = call.bias.detach();
  auto leaf = [](const at::Tensor& x) { return x.detach().requires_grad_(); };
  if (!way.suits({leaf(call.q), leaf(call.k), leaf(call.v), bias, 0.0, call.causal, false}, /*says_why_not=*/false)) return std::nullopt;
  try {
    prefer(way.backend);
    forward_and_backward(call);
    std::optional<double> least;
    for (int i = 0; i < kTimes; ++i) {
      at::cuda::CUDAEvent begin(cudaEventDefault), end(cudaEventDefault);
      begin.record();
      forward_and_backward(call);
      end.record();
      end.synchronize();
      const double time = begin.elapsed_time(end);
      least = least ? std::min(*least, time) : time;
    }
    return least;
  } catch (const c10::Error&) {  // whatever this kernel lacks, memory too
    return std::nullopt;
  }
}

}  // namespace

void prefer_fastest_attention(const AttentionCall& call) {
  if (!call.q.is_cuda() || call.q.scalar_type() == at::kFloat || call.q.numel() < kFewNumbers) return;
  const auto key = key_of(call);
  if (!fastest().knows(key) && at::cuda::currentStreamCaptureStatusMayInitCtx() != at::cuda::CaptureStatus::None) return;
  const c10::cuda::CUDAGuard on_device(call.q.device());
  const auto way = fastest().of(key, kWays.size(), [&](size_t number) { return time_of(kWays[number], call); });
  prefer(way ? kWays[*way].backend : kWays.front().backend);
}

}  // namespace burnish::kernels
