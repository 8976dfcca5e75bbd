#include "quant/way.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>

#include <algorithm>
#include <functional>
#include <map>
#include <mutex>
#include <tuple>

#include "base/times_as_long.h"
#include "kernels/linear/linear.h"
#include "kernels/product/product.h"
#include "quant/store.h"

namespace burnish::quant {

namespace {

constexpr int64_t kRowsOfWay = 256;  // tokens of a small picture

/// Makes a weight of this kind, whose numbers do not matter.
nn::FileWeight weight_of(CodeKind kind, const Sides& sides) {
  auto codes = codes_on_meta(kind, {sides.out, sides.in});
  codes.codes = at::full(codes.codes.sizes(), 1, at::kByte);
  if (codes.scales.defined()) codes.scales = at::full(codes.scales.sizes(), 1, at::kFloat);
  else if (!code_block(kind).holds_scales) codes.scales = at::full({sides.out, 1}, 1, at::kFloat);
  codes.rotation = rotation_of({kind}, sides.in);
  return {.codes = codes};
}

/// Returns a product and the gradient of its input, to be called again and again.
std::function<void()> call_of(const Way& way, const Sides& sides) {
  const auto x = at::full({kRowsOfWay, sides.in}, 1, way.dtype), dy = at::full({kRowsOfWay, sides.out}, 1, way.dtype);
  if (!way.codes) {
    const auto weight = at::full({sides.out, sides.in}, 1, way.dtype);
    return [=] {
      kernels::linear(x, weight, {});
      kernels::linear_back(dy, weight);
    };
  }
  Store store({.format = {}, .high_precision = {}, .fp8_compute = way.by_codes, .int8_compute = way.by_codes, .fp4_compute = way.by_codes});
  const auto source = store.store("", weight_of(*way.codes, sides), at::kCPU);
  return [=] {
    source->forward(*kernels::matrix_product(), x, {});
    source->input_gradient(*kernels::matrix_product(), dy, x.sizes());
  };
}

double measured(const Way& way, const Way& other, const Sides& sides) {
  constexpr int kCalls = 3, kMoreCalls = 5;
  constexpr double kDoubtful = 1.1;  // what a neighbour's turn may make of three calls
  const at::AutoGradMode no_gradients(false);
  const auto one = call_of(way, sides), another = call_of(other, sides);
  const auto times = burnish::times_as_long(one, another, kCalls);
  return times < kDoubtful ? times : std::min(times, burnish::times_as_long(one, another, kMoreCalls));
}

}  // namespace

double times_as_long(const Way& way, const Way& other, const Sides& sides) {
  static std::mutex mutex;
  static std::map<std::tuple<Way, Way, Sides>, double> known;
  const std::lock_guard lock(mutex);
  const auto [place, is_new] = known.try_emplace({way, other, sides});
  if (is_new) place->second = measured(way, other, sides);
  return place->second;
}

}  // namespace burnish::quant
