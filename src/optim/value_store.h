#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>

#include "optim/rounding.h"
#include "optim/state.h"

namespace burnish::optim {

/// A way to keep the numbers of a trained weight: they are read as fp32, updated, and written back rounded. Optimizers and averages know
/// weights through this alone; fp32, bf16, bf16 with a remainder (store_in) and FP8 codes (quant/trained_codes.h) are instances.
class ValueStore {
 public:
  virtual ~ValueStore() = default;
  /// The number of elements at whose multiples begins and ends what is read and written at once.
  virtual int64_t granule() const { return 1; }
  /// Elements of the flattened value from `begin` on, as many as `exact` [n] (fp32) has, into it.
  virtual void read(int64_t begin, const at::Tensor& exact) const = 0;
  /// The other way; `exact` may be overwritten. The key names the draws of stochastic rounding; without one everything is rounded to
  /// nearest.
  virtual void write(int64_t begin, at::Tensor exact, std::optional<uint64_t> key) = 0;
  /// The one tensor that holds all of the value; undefined where it takes several, or is not always on its device.
  virtual at::Tensor tensor() const { return {}; }
  /// Lists all tensors that hold the value, sharing storage, by what follows the parameter's name ("", ".remainder", ".codes").
  virtual StateList state() const = 0;
  /// Lists those tensors that layers compute with; the others only an optimizer reads.
  virtual StateList weights() const { return state(); }
};

/// A value in a tensor of fp32, bf16 or fp16. `rounding` is for bf16; everything else is rounded to nearest.
std::shared_ptr<ValueStore> store_in(const at::Tensor& value, Rounding rounding);

/// Makes a store of a value that another process alone keeps: it has no tensor, and reading or writing it is a std::logic_error.
std::shared_ptr<ValueStore> kept_elsewhere();

}  // namespace burnish::optim
