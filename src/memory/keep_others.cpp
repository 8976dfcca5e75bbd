#include "memory/keep_others.h"

#include <utility>

namespace burnish::memory {

static const KeepOthers*& keeper() {
  thread_local const KeepOthers* current = nullptr;
  return current;
}

KeepOthers::KeepOthers(std::set<size_t> recomputed) : recomputed_(std::move(recomputed)), before_(std::exchange(keeper(), this)) {}
KeepOthers::~KeepOthers() { keeper() = before_; }
const KeepOthers* KeepOthers::current() { return keeper(); }

std::optional<nn::Tensors> KeepOthers::kept(const nn::Tensors& inputs, const nn::Compute& compute) {
  if (recomputed_.contains(next_++)) return std::nullopt;
  return compute(inputs);
}

}  // namespace burnish::memory
