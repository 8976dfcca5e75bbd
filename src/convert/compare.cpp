#include "convert/compare.h"

#include <ATen/TensorOperators.h>
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "adapters/adapter_config.h"
#include "adapters/make_change.h"
#include "base/error.h"
#include "base/text.h"
#include "convert/model_of_lora.h"
#include "loras/lora_file.h"
#include "models/registry.h"

namespace burnish::convert {

namespace {

/// Adds up, piece by piece, how far two tensors are apart.
class Distance {
 public:
  void add(const at::Tensor& a, const at::Tensor& b) {
    if (a.numel() == 0) return;
    auto difference = (a - b).abs();
    largest_ = std::max(largest_, difference.max().item<double>());
    squared_ += difference.square().sum().item<double>();
    squared_a_ += a.square().sum().item<double>();
  }

  void report(const std::string& name, Comparison& to) const {
    if (squared_ == 0) {
      ++to.num_equal;
      return;
    }
    // NaN in one of them comes first, as what is infinitely far away.
    auto relative = std::sqrt(squared_ / squared_a_);
    to.differences.push_back({name, largest_, std::isnan(relative) ? std::numeric_limits<double>::infinity() : relative});
  }

 private:
  double largest_ = 0, squared_ = 0, squared_a_ = 0;
};

/// A tensor in one of the files, of a folder with several components behind the component's name.
struct InFile {
  const io::TensorSource* source;
  std::string name;
};

std::map<std::string, InFile> tensors_of(const models::ModelFiles& files) {
  std::map<std::string, InFile> all;
  for (const auto& entry : files.entries) {
    if (!entry.tensors) continue;
    auto prefix = entry.component.empty() ? "" : entry.component + "/";
    for (const auto& name : entry.tensors->names()) all[prefix + name] = {&*entry.tensors, name};
  }
  return all;
}

template <class Map>
void compare_names(const Map& a, const Map& b, Comparison& to) {
  for (const auto& [name, value] : a) {
    if (!b.contains(name)) to.only_in_a.push_back(name);
  }
  for (const auto& [name, value] : b) {
    if (!a.contains(name)) to.only_in_b.push_back(name);
  }
}

void compare_metadata(const io::Metadata& a, const io::Metadata& b, Comparison& to) {
  auto value = [](const io::Metadata& metadata, const std::string& key) {
    auto it = metadata.find(key);
    return it == metadata.end() ? std::string("nothing") : it->second.size() > 60 ? it->second.substr(0, 60) + "..." : it->second;
  };
  std::set<std::string> keys;
  for (const auto* metadata : {&a, &b}) {
    for (const auto& [key, text] : *metadata) keys.insert(key);
  }
  for (const auto& key : keys) {
    if (!a.contains(key) || !b.contains(key) || a.at(key) != b.at(key))
      to.other_metadata.push_back(fmt::format("{}: {} | {}", key, value(a, key), value(b, key)));
  }
}

std::string shape_text(const std::vector<int64_t>& shape) {
  std::vector<std::string> sides;
  for (auto side : shape) sides.push_back(std::to_string(side));
  return "[" + join(sides) + "]";
}

/// Compares in pieces that are small in fp64.
void compare_tensors(const at::Tensor& a, const at::Tensor& b, const std::string& name, Comparison& to) {
  constexpr int64_t kPiece = 1 << 22;
  auto flat_a = a.flatten(), flat_b = b.flatten();
  Distance distance;
  for (int64_t begin = 0; begin < flat_a.numel(); begin += kPiece) {
    auto count = std::min(kPiece, flat_a.numel() - begin);
    distance.add(flat_a.narrow(0, begin, count).to(at::kDouble), flat_b.narrow(0, begin, count).to(at::kDouble));
  }
  distance.report(name, to);
}

Comparison compare_files(const std::string& path_a, const std::string& path_b) {
  auto files_a = models::open_model_files({{path_a}, "", ""}), files_b = models::open_model_files({{path_b}, "", ""});
  auto a = tensors_of(files_a), b = tensors_of(files_b);
  Comparison found;
  compare_names(a, b, found);
  for (const auto& [name, in_a] : a) {
    auto other = b.find(name);
    if (other == b.end()) continue;
    const auto& in_b = other->second;
    const auto &info_a = in_a.source->info(in_a.name), &info_b = in_b.source->info(in_b.name);
    if (info_a.shape != info_b.shape) {
      found.other_shapes.push_back(fmt::format("{}: {} | {}", name, shape_text(info_a.shape), shape_text(info_b.shape)));
      continue;
    }
    if (info_a.dtype != info_b.dtype || info_a.kind() != info_b.kind())
      found.other_dtypes.push_back(fmt::format("{}: {} | {}", name, io::numbers_name(info_a), io::numbers_name(info_b)));
    compare_tensors(in_a.source->tensor(in_a.name), in_b.source->tensor(in_b.name), name, found);
    in_a.source->release(in_a.name);
    in_b.source->release(in_b.name);
  }
  if (files_a.entries.size() == 1 && files_b.entries.size() == 1 && files_a.entries[0].tensors && files_b.entries[0].tensors)
    compare_metadata(files_a.entries[0].tensors->metadata(), files_b.entries[0].tensors->metadata(), found);
  return found;
}

using Adapters = std::map<std::string, adapters::AdapterWeights>;

/// A layer may have a change of its weight and one of its bias.
std::string name_of(const adapters::AdapterWeights& w) { return w.target == "weight" ? w.path : adapters::parameter_of(w); }

Adapters in_own_names(const std::string& path) {
  Adapters all;
  auto own = [](const std::string& name) { return adapters::Behind{{name}}; };
  auto unknown = [](const std::string&) { return int64_t{0}; };
  for (auto& w : adapters::read_adapter(path, own, unknown, unknown)) all[name_of(w)] = w;
  return all;
}

Adapters in_our_names(const std::string& path, const std::vector<std::string>& model) {
  Adapters all;
  for (auto& [component, weights] : loras::read(*model_of(path, model), path, loras::Absent::as_published)) {
    for (auto& w : weights) all[component + "." + name_of(w)] = w;
  }
  return all;
}

std::unique_ptr<adapters::Change> exact_change(const adapters::AdapterWeights& w) {
  auto parameters = w.parameters;
  for (auto& [name, tensor] : parameters) tensor = tensor.to(at::kDouble);
  return adapters::make_change(w.kind, parameters, w.scale, w.fused_rows);
}

/// Rows and columns of what a change adds; -1 where any will do.
std::pair<int64_t, int64_t> sides_of(const adapters::AdapterWeights& w, const adapters::Change& change) {
  auto sides = change.sides();
  return {w.fused_rows.count > 0 ? w.fused_rows.count : sides.out, sides.in >= 0 ? sides.in : sides.in_channels};
}

/// Takes the magnitude of the adapter's own rows.
at::Tensor own_magnitude(const adapters::AdapterWeights& w) {
  const auto& m = w.magnitude.m;
  bool is_cut = m.defined() && w.magnitude.axis == adapters::NormAxis::output && w.fused_rows.count > 0;
  return is_cut ? m.narrow(0, w.fused_rows.begin, w.fused_rows.count) : m;
}

/// Changes that depend on the weight, which is not there: by their parameters.
void compare_parameters(const std::string& name, const adapters::AdapterWeights& a, const adapters::AdapterWeights& b, Comparison& to) {
  auto text = [](const adapters::AdapterWeights& w) {
    std::string shapes;
    for (const auto& [part, tensor] : w.parameters) shapes += " " + part + shape_text(tensor.sizes().vec());
    return fmt::format("{} at {}{}", adapters::kind_name(w.kind), w.scale, shapes);
  };
  if (text(a) != text(b)) return to.other_shapes.push_back(fmt::format("{}: {} | {}", name, text(a), text(b)));
  for (size_t i = 0; i < a.parameters.size(); ++i)
    compare_tensors(a.parameters[i].second, b.parameters[i].second, name + "." + a.parameters[i].first, to);
}

void compare_products(const std::string& name, const adapters::AdapterWeights& a, const adapters::AdapterWeights& b, Comparison& to) {
  constexpr int64_t kRows = 256;
  auto change_a = exact_change(a), change_b = exact_change(b);
  if (change_a->needs_weight() || change_b->needs_weight()) return compare_parameters(name, a, b, to);
  auto sides = sides_of(a, *change_a), sides_b = sides_of(b, *change_b);
  if (sides != sides_b) {
    to.other_shapes.push_back(fmt::format("{}: [{}, {}] | [{}, {}]", name, sides.first, sides.second, sides_b.first, sides_b.second));
    return;
  }
  at::Tensor none;
  nn::ParameterSource no_weight(none);  // which these changes do not look at
  Distance distance;
  for (int64_t begin = 0; begin < sides.first; begin += kRows) {
    auto end = std::min(begin + kRows, sides.first);
    distance.add(change_a->rows(no_weight, begin, end), change_b->rows(no_weight, begin, end));
  }
  distance.report(name, to);
  auto m_a = own_magnitude(a), m_b = own_magnitude(b);
  if (m_a.defined() != m_b.defined() || (m_a.defined() && m_a.numel() != m_b.numel()))
    to.other_shapes.push_back(fmt::format("{}: {} | {}", name, m_a.defined() ? "DoRA" : "no DoRA", m_b.defined() ? "DoRA" : "no DoRA"));
  else if (m_a.defined()) compare_tensors(m_a, m_b, name + " (DoRA magnitude)", to);
}

/// By the names in the files where those are the same, or no model can be told that both are for; else by the model's layers.
std::pair<Adapters, Adapters> both_adapters(const std::string& path_a, const std::string& path_b, const std::vector<std::string>& model) {
  auto a = in_own_names(path_a), b = in_own_names(path_b);
  auto in_b = [&](const auto& item) { return b.contains(item.first); };
  if (a.size() == b.size() && std::all_of(a.begin(), a.end(), in_b)) return {a, b};
  try {
    return {in_our_names(path_a, model), in_our_names(path_b, model)};
  } catch (const Error&) {
    if (!model.empty() || std::none_of(a.begin(), a.end(), in_b)) throw;
  }
  return {a, b};
}

Comparison compare_adapters(const std::string& path_a, const std::string& path_b, const std::vector<std::string>& model) {
  auto [a, b] = both_adapters(path_a, path_b, model);
  Comparison found{.by_product = true};
  compare_names(a, b, found);
  for (const auto& [name, w] : a) {
    if (b.contains(name)) compare_products(name, w, b.at(name), found);
  }
  auto metadata = [](const std::string& path) { return io::TensorSource::open({adapters::find_adapter(path).tensors}).metadata(); };
  compare_metadata(metadata(path_a), metadata(path_b), found);
  return found;
}

std::string listed(const std::string& title, const std::vector<std::string>& lines, int64_t num_shown) {
  if (lines.empty()) return "";
  auto text = fmt::format("{}: {}\n", title, lines.size());
  for (int64_t i = 0; i < std::min(num_shown, std::ssize(lines)); ++i) text += "  " + lines[static_cast<size_t>(i)] + "\n";
  if (std::ssize(lines) > num_shown) text += "  ...\n";
  return text;
}

}  // namespace

bool Comparison::equal() const {
  return only_in_a.empty() && only_in_b.empty() && other_shapes.empty() && other_dtypes.empty() && other_metadata.empty() &&
         differences.empty();
}

Comparison compare(const std::string& a, const std::string& b, const std::vector<std::string>& model) {
  auto found = is_lora(a) && is_lora(b) ? compare_adapters(a, b, model) : compare_files(a, b);
  std::sort(found.differences.begin(), found.differences.end(),
            [](const auto& x, const auto& y) { return std::pair(-x.relative, x.name) < std::pair(-y.relative, y.name); });
  return found;
}

std::string text_of(const Comparison& c, const std::string& a, const std::string& b, int64_t num_shown) {
  auto text = fmt::format("{}: {} equal, {} not\n", c.by_product ? "layers by what is added to them" : "tensors", c.num_equal,
                          c.differences.size());
  text += listed("only in " + a, c.only_in_a, num_shown) + listed("only in " + b, c.only_in_b, num_shown);
  text += listed("of other shapes", c.other_shapes, num_shown) + listed("of other dtypes", c.other_dtypes, num_shown);
  std::vector<std::string> lines;
  for (const auto& d : c.differences) lines.push_back(fmt::format("{}: relative {:.3g}, largest {:.3g}", d.name, d.relative, d.largest));
  return text + listed("of other values", lines, num_shown) + listed("metadata", c.other_metadata, num_shown);
}

}  // namespace burnish::convert
