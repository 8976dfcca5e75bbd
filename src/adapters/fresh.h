#pragma once
#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

namespace burnish::adapters {

/// Says where a parameter of a new adapter begins, in fp32.
struct Fresh {
  at::Generator generator;  ///< undefined for shapes without numbers, of a model on the meta device
  at::Tensor normal(int64_t rows, int64_t columns, double deviation);
  /// Kaiming-uniform with a = √5: bound 1 / √columns.
  at::Tensor kaiming(int64_t rows, int64_t columns);
  at::Tensor zeros(int64_t rows, int64_t columns) const;
};

}  // namespace burnish::adapters
