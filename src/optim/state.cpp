#include "optim/state.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/input_error.h"
#include "base/text.h"

namespace burnish::optim {
namespace {

std::string shape_text(const at::Tensor& tensor) {
  std::vector<std::string> sizes;
  for (const int64_t size : tensor.sizes()) sizes.push_back(std::to_string(size));
  return "[" + join(sizes) + "]";
}

void add_finding(std::vector<std::string>& findings, const char* kind, const std::vector<std::string>& names) {
  if (names.empty()) return;
  constexpr size_t kShown = 3;
  const std::vector<std::string> first(names.begin(), names.begin() + std::min(kShown, names.size()));
  findings.push_back(fmt::format("{} {} ({}{})", names.size(), kind, join(first), names.size() > kShown ? ", ..." : ""));
}

}  // namespace

void check_state(const std::string& what, const StateList& live, const StateList& saved_list, bool is_all) {
  const std::map<std::string, at::Tensor> saved(saved_list.begin(), saved_list.end());
  std::vector<std::string> missing, reshaped, unexpected, findings;
  std::set<std::string> known;
  for (const auto& [name, tensor] : live) {
    known.insert(name);
    const auto found = saved.find(name);
    if (found == saved.end()) {
      missing.push_back(name);
    } else if (found->second.sizes() != tensor.sizes()) {
      reshaped.push_back(fmt::format("{} is {} instead of {}", name, shape_text(found->second), shape_text(tensor)));
    }
  }
  for (const auto& [name, tensor] : saved) {
    if (is_all && !known.contains(name)) unexpected.push_back(name);
  }
  add_finding(findings, "missing", missing);
  add_finding(findings, "unexpected", unexpected);
  add_finding(findings, "of another shape", reshaped);
  if (!findings.empty()) {
    data_error("optim", "the saved {} does not fit what is trained: {}; resume with the settings of the run that saved it", what,
               join(findings, "; "));
  }
}

void load_into(const std::string& what, const StateList& live, const StateList& saved_list, bool is_all) {
  check_state(what, live, saved_list, is_all);
  const std::map<std::string, at::Tensor> saved(saved_list.begin(), saved_list.end());
  const at::NoGradGuard no_grad;
  for (const auto& [name, tensor] : live) tensor.copy_(saved.at(name));
}

}  // namespace burnish::optim
