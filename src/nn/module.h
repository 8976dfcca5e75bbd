#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace burnish::nn {

/// A named tree of parameters. Knows names and tensors; nothing about files, ranks, or training.
/// Members register themselves with `own`; a module is neither copied nor moved, so the pointers stay good.
class Module {
 public:
  Module() = default;
  virtual ~Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  /// Depth-first visit of this module and all below it; names are dotted paths, "" for the root.
  void visit(const std::function<void(const std::string& path, Module&)>& fn, const std::string& prefix = {});

  /// Depth-first visit of every parameter in the tree by its dotted path. Of a weight that is held as codes and
  /// trains, it is where the gradient arrives; one that does not train is no parameter.
  void visit_parameters(const std::function<void(const std::string& path, at::Tensor&)>& fn);

  /// Slots of all parameters by dotted path, in name order.
  std::map<std::string, at::Tensor*> parameters();

  /// Counts the bytes of all parameters, also of those that live on the meta device, and of weights that are held as codes.
  int64_t num_bytes();

 protected:
  /// Counts the bytes of weights that this module holds otherwise than as parameters.
  virtual int64_t bytes_of_sources() const { return 0; }
  void own(std::string name, at::Tensor& parameter) { parameters_.emplace_back(std::move(name), &parameter); }
  void own(std::string name, Module& child) { children_.emplace_back(std::move(name), &child); }

 private:
  std::vector<std::pair<std::string, at::Tensor*>> parameters_;
  std::vector<std::pair<std::string, Module*>> children_;
};

}  // namespace burnish::nn
