#pragma once
#include <cstddef>
#include <set>

#include "nn/recomputed_values.h"

namespace burnish::memory {

/// Keeps the values of all calls but those that are named.
class KeepOthers final : public nn::Keeper {
 public:
  explicit KeepOthers(std::set<size_t> recomputed);
  ~KeepOthers() override;
  KeepOthers(const KeepOthers&) = delete;
  KeepOthers& operator=(const KeepOthers&) = delete;
  std::optional<nn::Tensors> kept(const nn::Tensors& inputs, const nn::Compute& compute) override;

  const std::set<size_t>& recomputed() const { return recomputed_; }
  /// Returns the one that lives on this thread; null where none does.
  static const KeepOthers* current();

 private:
  std::set<size_t> recomputed_;
  size_t next_ = 0;
  const KeepOthers* before_;
};

}  // namespace burnish::memory
