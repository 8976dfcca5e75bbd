#include "adapters/widen.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/mm.h>

#include <algorithm>
#include <map>

#include "adapters/fresh.h"
#include "adapters/lokr.h"
#include "base/random_key.h"
#include "io/hash.h"

namespace burnish::adapters {

namespace {

/// The numbers that new rows or columns of a factor begin with.
enum class Begins { zero, kaiming, normal };

struct Growth {
  const char* factor;
  int64_t rank_dim;
  Begins begins;
};

constexpr Growth kGrowths[] = {
    {"lora_A.weight", 0, Begins::kaiming}, {"lora_B.weight", 1, Begins::zero}, {"hada_w1_a", 1, Begins::zero},
    {"hada_w1_b", 0, Begins::normal},      {"hada_w2_a", 1, Begins::zero},     {"hada_w2_b", 0, Begins::normal},
    {"lokr_w1_a", 1, Begins::zero},        {"lokr_w1_b", 0, Begins::kaiming},  {"lokr_w2_a", 1, Begins::kaiming},
    {"lokr_w2_b", 0, Begins::zero},
};

const Growth* growth_of(const std::string& factor) {
  const auto* it = std::ranges::find_if(kGrowths, [&](const auto& growth) { return factor == growth.factor; });
  return it == std::end(kGrowths) ? nullptr : it;
}

uint64_t hash_of(const at::Tensor& factor) {
  auto own = factor.contiguous();
  return io::xxh64({static_cast<const char*>(own.const_data_ptr()), own.nbytes()});
}

at::Tensor grown(const at::Tensor& factor, const Growth& growth, int64_t rank, uint64_t seed) {
  auto more = rank - factor.size(growth.rank_dim);
  if (more <= 0) return factor;
  Fresh fresh{at::make_generator<at::CPUGeneratorImpl>(seed ^ mix64(growth.factor) ^ hash_of(factor))};
  // A fresh start's bound is that of the whole factor's rows, by which columns are drawn too.
  bool is_by_row = growth.rank_dim == 0;
  auto rows = is_by_row ? more : factor.size(0), columns = is_by_row ? factor.size(1) : rank;
  at::Tensor added;
  switch (growth.begins) {
    case Begins::zero: added = fresh.zeros(rows, columns); break;
    case Begins::kaiming: added = fresh.kaiming(rows, columns); break;
    case Begins::normal: added = fresh.normal(rows, columns, 1); break;
  }
  if (!is_by_row) added = added.narrow(1, 0, more);
  return at::cat({factor, added.to(factor.options())}, growth.rank_dim);
}

const at::Tensor* factor_of(const Parameters& parameters, const char* name) {
  auto it = std::ranges::find(parameters, name, [](const auto& p) { return p.first; });
  return it == parameters.end() ? nullptr : &it->second;
}

/// Grows factors, of entries that share one once.
class Widening {
 public:
  Widening(int64_t rank, uint64_t seed) : rank_(rank), seed_(seed) {}

  void apply(AdapterWeights& w) {
    if (!has_rank_to_widen(w)) return;
    multiply_out(w);
    for (auto& [name, factor] : w.parameters) {
      const auto* growth = growth_of(name);
      if (growth == nullptr) continue;
      factor = once(factor, [&, before = factor] { return grown(before, *growth, rank_, seed_); });
    }
  }

 private:
  /// LoKr whose second factor a fresh start of this rank would have whole. It has no scale then where its first is whole too.
  void multiply_out(AdapterWeights& w) {
    const auto *a = factor_of(w.parameters, "lokr_w2_a"), *b = factor_of(w.parameters, "lokr_w2_b");
    if (a == nullptr || b == nullptr || a->size(1) >= rank_ || !is_whole_lokr(rank_, a->size(0), b->size(1))) return;
    bool has_scale = factor_of(w.parameters, "lokr_w1") == nullptr;
    auto factor = has_scale ? 1.0 : w.scale;
    auto whole = once(*a, [&] { return at::mm(a->to(at::kFloat), b->to(at::kFloat)).mul_(factor); });
    if (!has_scale) w.scale = 1;
    std::erase_if(w.parameters, [](const auto& p) { return p.first.starts_with("lokr_w2"); });
    w.parameters.emplace_back("lokr_w2", whole);
  }

  template <class Make>
  at::Tensor once(const at::Tensor& factor, Make make) {
    auto& [before, made] = made_[factor.unsafeGetTensorImpl()];
    if (!made.defined()) {
      before = factor;  // as long as it lives no other has its address
      made = make();
    }
    return made;
  }

  int64_t rank_;
  uint64_t seed_;
  std::map<const c10::TensorImpl*, std::pair<at::Tensor, at::Tensor>> made_;
};

}  // namespace

bool has_rank_to_widen(const AdapterWeights& weights) {
  bool is_of_kind = weights.kind == Kind::lora || weights.kind == Kind::loha || weights.kind == Kind::lokr;
  return is_of_kind && weights.target == "weight" && rank_of(weights) > 0;
}

std::vector<AdapterWeights> widened(std::vector<AdapterWeights> weights, int64_t rank, uint64_t seed) {
  Widening widening(rank, seed);
  for (auto& w : weights) {
    if (rank_of(w) < rank) widening.apply(w);
  }
  return weights;
}

}  // namespace burnish::adapters
