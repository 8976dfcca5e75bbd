#pragma once
#include "models/model/model.h"
#include "nn/linear.h"

namespace burnish::convert {

/// Tells whether the model has files with this component's weights, and is not a name alone.
bool has_weights(const models::Model& model, const std::string& component);

/// The tensors of a component under our names, read from its files one at a time; nothing is held.
class ComponentWeights {
 public:
  /// Throws a data Error when the files do not fit the component. Of a component without weights only shapes and layers are known.
  ComponentWeights(const models::Model& model, const std::string& component);

  const io::Shapes& shapes() const { return shapes_; }
  /// The linear layer or convolution at a path, on the meta device; null for whatever else.
  const nn::LinearMap* layer(const std::string& path) const;
  io::InFile stored(const std::string& name) const;
  /// Returns what the file's header says of the tensor that this one is in.
  const io::TensorInfo& info(const std::string& name) const;
  /// The numbers of a tensor, in fp32 where it lies as codes.
  at::Tensor parameter(const std::string& name) const;
  /// A layer's weight [out, in] in fp32, in memory of its own.
  at::Tensor matrix(const std::string& path) const;
  /// Lets go of the memory that reading a tensor filled.
  void release(const std::string& name) const;

 private:
  std::unique_ptr<nn::Module> skeleton_;
  std::map<std::string, nn::LinearMap*> layers_;
  io::Shapes shapes_;
  std::optional<io::TensorSource> tensors_;
  io::KeyMap keys_;
  std::map<std::string, std::string> places_;  ///< the file's tensor that each of ours is in
};

}  // namespace burnish::convert
