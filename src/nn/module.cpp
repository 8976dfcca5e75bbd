#include "nn/module.h"

namespace burnish::nn {

static std::string child_path(const std::string& prefix, const std::string& name) {
  if (prefix.empty() || name.empty()) return prefix + name;
  return prefix + "." + name;
}

void Module::visit(const std::function<void(const std::string&, Module&)>& fn, const std::string& prefix) {
  fn(prefix, *this);
  for (auto& [name, child] : children_) child->visit(fn, child_path(prefix, name));
}

void Module::visit_parameters(const std::function<void(const std::string&, at::Tensor&)>& fn) {
  visit([&](const std::string& path, Module& module) {
    for (auto& [name, parameter] : module.parameters_) {
      if (parameter->defined()) fn(child_path(path, name), *parameter);
    }
  });
}

std::map<std::string, at::Tensor*> Module::parameters() {
  std::map<std::string, at::Tensor*> slots;
  visit_parameters([&](const std::string& path, at::Tensor& parameter) { slots[path] = &parameter; });
  return slots;
}

int64_t Module::num_bytes() {
  int64_t bytes = 0;
  visit_parameters([&](const std::string&, at::Tensor& p) { bytes += static_cast<int64_t>(p.storage().nbytes()); });
  visit([&](const std::string&, Module& module) { bytes += module.bytes_of_sources(); });
  return bytes;
}

}  // namespace burnish::nn
