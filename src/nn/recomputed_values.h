#pragma once
#include <functional>
#include <optional>

#include "nn/block.h"

namespace burnish::nn {

/// Computes use(compute(inputs)), with autograd and bit for bit, where the values of `compute` are cheap to compute from their inputs.
/// Where gradients are on, `compute` leaves nothing in the graph but its inputs, and its values, which `use` may save, have no memory from
/// when `use` is done until backward comes to it: then they are computed again. Meant for norms, activations and copies before a product:
/// backward keeps the larger part of a block's memory for them, and computes them in a few percent of its time (what
/// Korthikanti et al. 2022, arXiv 2205.05198, §5, call selective recomputation, for other operators).
///
/// `compute` is a pure function of its inputs, parameters included, that draws nothing and has no memory but what it was made with; its
/// values are tensors of their own and no views of its inputs. `use` gives none of them back.
using Compute = std::function<Tensors(const Tensors& inputs)>;
Tensors recomputed(const Tensors& inputs, const Compute& compute, const std::function<Tensors(const Tensors& values)>& use);

/// Remakes one value with one result.
at::Tensor recomputed(const Tensors& inputs, const std::function<at::Tensor(const Tensors& inputs)>& compute,
                      const std::function<at::Tensor(const at::Tensor& value)>& use);

/// Decides, while it lives, which values of `recomputed` on its thread are kept after all. They are left to autograd then and take their
/// memory until backward, which computes nothing again; the bits do not change.
class Keeper {
 public:
  Keeper();
  virtual ~Keeper();
  Keeper(const Keeper&) = delete;
  Keeper& operator=(const Keeper&) = delete;

  /// The values, computed with autograd, where they are kept; nothing where they are to be made again. Asked once for each call of
  /// `recomputed`, in their order.
  virtual std::optional<Tensors> kept(const Tensors& inputs, const Compute& compute) = 0;

 private:
  Keeper* before_;
};

}  // namespace burnish::nn
