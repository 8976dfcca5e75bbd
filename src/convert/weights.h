#pragma once
#include "models/model.h"
#include "nn/linear.h"

namespace burnish::convert {

bool is_fp8(c10::ScalarType dtype);

/// Tells whether the model has files with this component's weights, and is not a name alone.
bool has_weights(const models::Model& model, const std::string& component);

/// A tensor as it lies in a file: numbers, or FP8 codes and their scale.
struct Stored {
  at::Tensor values;
  at::Tensor scale;  ///< undefined unless `values` are scaled codes: one number, or [rows, 1]
  /// Returns the numbers that the tensor stands for, in fp32 where it was codes with a scale.
  at::Tensor numbers() const;
};

/// The tensors of a component under our names, read from its files one at a time; nothing is held.
class ComponentWeights {
 public:
  /// Throws a data Error when the files do not fit the component. Of a component without weights only shapes and layers are known.
  ComponentWeights(const models::Model& model, const std::string& component);

  const io::Shapes& shapes() const { return shapes_; }
  /// The linear layer or convolution at a path, on the meta device; null for whatever else.
  const nn::LinearMap* layer(const std::string& path) const;
  Stored stored(const std::string& name) const;
  /// Returns the dtype that `stored` will give, from the file's header and its scales alone.
  c10::ScalarType dtype(const std::string& name) const;
  at::Tensor scale(const std::string& name) const;
  at::Tensor parameter(const std::string& name) const { return stored(name).numbers(); }
  /// A layer's weight [out, in] in fp32, in memory of its own.
  at::Tensor matrix(const std::string& path) const;
  /// Lets go of the memory that reading a tensor filled.
  void release(const std::string& name) const;

 private:
  /// The place of a tensor of ours: a tensor of the file, and the row in it that ours begins at.
  struct Place {
    std::string theirs;
    io::KeyRule::Op op = io::KeyRule::Op::copy;
    bool is_part = false;
    int64_t row = 0;
  };
  std::unique_ptr<nn::Module> skeleton_;
  std::map<std::string, nn::LinearMap*> layers_;
  io::Shapes shapes_;
  std::optional<io::TensorSource> tensors_;
  std::map<std::string, Place> places_;
  std::map<std::string, at::Tensor> scales_;
};

}  // namespace burnish::convert
