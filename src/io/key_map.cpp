#include "io/key_map.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>

#include <algorithm>
#include <set>
#include <stdexcept>
#include <string_view>

#include "base/input_error.h"
#include "base/text.h"

namespace burnish::io {

namespace {

using Parts = std::vector<std::string>;

/// Takes what is before the first dot; nothing is left of a name that has none.
std::string_view take_segment(std::optional<std::string_view>& rest) {
  const auto dot = rest->find('.');
  const auto segment = rest->substr(0, dot);
  if (dot == std::string_view::npos) rest.reset();
  else rest->remove_prefix(dot + 1);
  return segment;
}

/// The segments behind the wildcards of `pattern`, or nothing when `name` does not match.
std::optional<Parts> wildcards(const std::string& pattern, const std::string& name) {
  auto first = pattern.find("{}");
  if (first == std::string::npos) return pattern == name ? std::optional<Parts>(Parts{}) : std::nullopt;
  if (name.compare(0, first, pattern, 0, first) != 0) return std::nullopt;
  Parts found;
  std::optional<std::string_view> of_pattern = pattern, of_name = name;
  while (of_pattern && of_name) {
    const auto segment = take_segment(of_pattern), named = take_segment(of_name);
    if (segment == "{}") found.emplace_back(named);
    else if (segment != named) return std::nullopt;
  }
  return of_pattern || of_name ? std::nullopt : std::optional(std::move(found));
}

std::string fill(const std::string& pattern, const Parts& values) {
  std::string name;
  size_t used = 0;
  for (size_t at = 0; at < pattern.size();) {
    if (pattern.compare(at, 2, "{}") == 0) {
      name += values.at(used++);
      at += 2;
    } else {
      name += pattern[at++];
    }
  }
  return name;
}

at::Tensor swap_halves(const at::Tensor& t) {
  auto halves = t.chunk(2, 0);
  return at::cat({halves[1], halves[0]}, 0);
}

int64_t count(const std::vector<int64_t>& shape) {
  int64_t n = 1;
  for (auto s : shape) n *= s;
  return n;
}

std::string shape_text(const std::vector<int64_t>& shape) {
  std::vector<std::string> parts;
  for (auto s : shape) parts.push_back(std::to_string(s));
  return "[" + join(parts, "×") + "]";
}

/// Returns the shape of a slice in time of a causal kernel.
std::vector<int64_t> shape_of_frame(std::vector<int64_t> shape) {
  if (shape.size() == 5) shape.erase(shape.begin() + 2);
  return shape;
}

at::Tensor last_frame(const at::Tensor& kernel) { return kernel.dim() == 5 ? kernel.select(2, -1).contiguous() : kernel; }

/// The causal kernel that does to a picture what `slice` does: cubes are as long as they are wide, and nothing lies before a picture.
at::Tensor causal_kernel(const at::Tensor& slice_OIhw) {
  return at::constant_pad_nd(slice_OIhw.unsqueeze(2), {0, 0, 0, 0, slice_OIhw.size(-1) - 1, 0});
}

/// What is wrong with a set of keys, collected before it is said.
struct Complaints {
  std::vector<std::string> missing, unexpected, misshapen, repeated, not_floating;

  static std::string list(const char* kind, const std::vector<std::string>& names) {
    if (names.empty()) return "";
    std::vector<std::string> first(names.begin(), names.begin() + std::min<std::ptrdiff_t>(3, std::ssize(names)));
    return fmt::format("{} {} ({}{}); ", names.size(), kind, join(first), names.size() > 3 ? ", ..." : "");
  }

  void raise(const std::string& what) const {
    auto text = list("missing", missing) + list("unexpected", unexpected) + list("of another shape", misshapen) +
                list("given twice", repeated) + list("of whole numbers", not_floating);
    if (!text.empty()) data_error("io", "{}: tensors do not fit the model: {}it is another model or a damaged file", what, text);
  }
};

/// Tells whether a tensor of the file is the rows of one table of ours behind each other, in one dimension.
bool is_flat(const std::vector<int64_t>& theirs, const std::vector<std::string>& ours) { return ours.size() == 1 && theirs.size() == 1; }

/// Rows of `theirs` fall to ours in order; false when the shapes do not add up.
bool stack_fits(const std::vector<int64_t>& theirs, const std::vector<std::string>& ours, const Shapes& wanted) {
  if (is_flat(theirs, ours)) return count(theirs) == count(wanted.at(ours[0]));
  int64_t rows = 0;
  for (const auto& name : ours) {
    const auto& shape = wanted.at(name);
    if (shape.size() != theirs.size() || !std::equal(shape.begin() + 1, shape.end(), theirs.begin() + 1)) return false;
    rows += shape[0];
  }
  return rows == theirs[0];
}

bool fits(const std::vector<int64_t>& theirs, const KeyMap::Match& match, const Shapes& wanted) {
  switch (match.op) {
    case KeyRule::Op::stack_rows: return !theirs.empty() && stack_fits(theirs, match.ours, wanted);
    case KeyRule::Op::transpose: {
      const auto& shape = wanted.at(match.ours[0]);
      return theirs == std::vector<int64_t>(shape.rbegin(), shape.rend());
    }
    case KeyRule::Op::channels:
    case KeyRule::Op::reshape: return count(theirs) == count(wanted.at(match.ours[0]));
    case KeyRule::Op::last_frame: return shape_of_frame(theirs) == wanted.at(match.ours[0]);
    default: return theirs == wanted.at(match.ours[0]);
  }
}

}  // namespace

KeyMap::KeyMap(std::vector<KeyRule> rules) : rules_(std::move(rules)) {
  for (size_t i = 0; i < rules_.size(); ++i) {
    if (rules_[i].theirs.find("{}") == std::string::npos) plain_.emplace(rules_[i].theirs, i);
    else patterns_.push_back(i);
  }
}

KeyMap::Match KeyMap::to_ours(const std::string& theirs) const {
  auto plain = plain_.find(theirs);
  if (plain != plain_.end()) return {rules_[plain->second].ours, rules_[plain->second].op};
  for (auto i : patterns_) {
    const auto& rule = rules_[i];
    if (auto values = wildcards(rule.theirs, theirs)) {
      std::vector<std::string> names;
      for (const auto& pattern : rule.ours) names.push_back(fill(pattern, *values));
      return {names, rule.op};
    }
  }
  return {{theirs}, KeyRule::Op::copy};
}

std::vector<KeyRule> KeyMap::to_file(const std::vector<std::string>& ours) const {
  const std::set<std::string> table(ours.begin(), ours.end());
  std::set<std::string> done;
  auto rule_for = [&](const std::string& name) -> KeyRule {
    for (const auto& rule : rules_) {
      std::optional<Parts> values;
      for (const auto& pattern : rule.ours) {
        if ((values = wildcards(pattern, name))) break;
      }
      if (!values) continue;
      KeyRule found{fill(rule.theirs, *values), {}, rule.op};
      for (const auto& pattern : rule.ours) found.ours.push_back(fill(pattern, *values));
      if (std::all_of(found.ours.begin(), found.ours.end(), [&](const auto& part) { return table.contains(part); })) return found;
    }
    return {name, {name}};
  };
  std::vector<KeyRule> file;
  for (const auto& name : ours) {
    if (done.contains(name)) continue;
    file.push_back(rule_for(name));
    done.insert(file.back().ours.begin(), file.back().ours.end());
  }
  return file;
}

at::Tensor tensor_in_file(const KeyRule& rule, const std::vector<at::Tensor>& ours) {
  if (ours.size() > 1) return at::cat(ours, 0);
  const auto& tensor = ours.at(0);
  switch (rule.op) {
    case KeyRule::Op::swap_halves: return swap_halves(tensor);
    case KeyRule::Op::transpose: return tensor.t().contiguous();
    case KeyRule::Op::stack_rows: return tensor.flatten();
    case KeyRule::Op::reshape: return tensor.dim() == 2 ? tensor.unsqueeze(-1).unsqueeze(-1) : tensor;
    case KeyRule::Op::channels: return tensor.reshape({1, -1, 1, 1});
    case KeyRule::Op::last_frame: return causal_kernel(tensor);
    default: return tensor;
  }
}

NamedTensors KeyMap::to_file(const NamedTensors& ours) const {
  std::map<std::string, at::Tensor> table(ours.begin(), ours.end());
  std::vector<std::string> names;
  for (const auto& [name, tensor] : ours) names.push_back(name);
  NamedTensors out;
  for (const auto& rule : to_file(names)) {
    std::vector<at::Tensor> parts;
    for (const auto& name : rule.ours) parts.push_back(table.at(name));
    out.emplace_back(rule.theirs, tensor_in_file(rule, parts));
  }
  return out;
}

Shapes shapes_in_our_names(const TensorSource& source, const KeyMap& keys) {
  Shapes shapes;
  for (const auto& [theirs, shape] : source.shapes()) {
    auto match = keys.to_ours(theirs);
    if (match.op == KeyRule::Op::stack_rows && !shape.empty()) {
      // q, k and v are square; a fourth part (the MLP of a fused layer) takes the rest.
      bool square = shape.size() == 2 && shape[0] >= shape[1] * static_cast<int64_t>(match.ours.size());
      auto rows = square ? shape[1] : shape[0] / static_cast<int64_t>(match.ours.size());
      for (size_t i = 0; i < match.ours.size(); ++i) {
        auto part = shape;
        part[0] = i + 1 < match.ours.size() ? rows : shape[0] - rows * static_cast<int64_t>(match.ours.size() - 1);
        shapes[match.ours[i]] = part;
      }
    } else if (match.op == KeyRule::Op::transpose) {
      shapes[match.ours[0]] = std::vector<int64_t>(shape.rbegin(), shape.rend());
    } else if (match.op == KeyRule::Op::last_frame) {
      shapes[match.ours[0]] = shape_of_frame(shape);
    } else {
      shapes[match.ours[0]] = shape;
    }
  }
  return shapes;
}

void check_named(const TensorSource& source, const KeyMap& keys, const Shapes& wanted, const std::string& what) {
  Complaints complaints;
  std::set<std::string> found;
  for (const auto& [theirs, shape] : source.shapes()) {
    auto match = keys.to_ours(theirs);
    bool known = std::all_of(match.ours.begin(), match.ours.end(), [&](const auto& name) { return wanted.contains(name); });
    if (!known) {
      complaints.unexpected.push_back(theirs);
    } else if (!fits(shape, match, wanted)) {
      complaints.misshapen.push_back(fmt::format("{} {} for {}", theirs, shape_text(shape), shape_text(wanted.at(match.ours[0]))));
    }
    if (!known) continue;
    if (!c10::isFloatingType(source.info(theirs).dtype)) complaints.not_floating.push_back(theirs);
    for (const auto& name : match.ours) {
      if (!found.insert(name).second) complaints.repeated.push_back(fmt::format("{} for {}", theirs, name));
    }
  }
  for (const auto& [name, shape] : wanted) {
    if (!found.contains(name)) complaints.missing.push_back(name);
  }
  complaints.raise(what);
}

namespace {

/// What a rule makes of numbers of the file, for one of ours that begins at `row` of them.
at::Tensor numbers_of(const at::Tensor& theirs, const KeyMap::Match& match, const std::vector<int64_t>& shape, int64_t row) {
  switch (match.op) {
    case KeyRule::Op::stack_rows:
      return is_flat(theirs.sizes().vec(), match.ours) ? theirs.reshape(shape) : theirs.narrow(0, row, shape[0]);
    case KeyRule::Op::swap_halves: return swap_halves(theirs);
    case KeyRule::Op::transpose: return theirs.t().contiguous();
    case KeyRule::Op::last_frame: return last_frame(theirs);
    default: return theirs.reshape(shape);
  }
}

/// Tells whether rows of ours are rows of the file's tensor.
bool keeps_rows(const std::vector<int64_t>& theirs, const KeyMap::Match& match, const std::vector<int64_t>& ours) {
  if (theirs.empty() || ours.empty()) return false;
  switch (match.op) {
    case KeyRule::Op::copy:
    case KeyRule::Op::swap_halves: return true;
    case KeyRule::Op::stack_rows: return !is_flat(theirs, match.ours);
    case KeyRule::Op::reshape: return theirs[0] == ours[0];
    default: return false;
  }
}

Codes codes_of(const Codes& theirs, const KeyMap::Match& match, const std::vector<int64_t>& shape, int64_t row) {
  auto part = match.op == KeyRule::Op::stack_rows ? theirs.rows(row, shape[0]) : theirs;
  if (match.op == KeyRule::Op::swap_halves) {
    part.codes = swap_halves(part.codes);
    if (part.scales.defined() && part.scales.size(0) > 1) part.scales = swap_halves(part.scales);
  }
  part.sizes = shape;
  return part;
}

/// Calls fn(name, shape, first row) for each of ours that is in a tensor of the file.
void for_each_part(const KeyMap::Match& match, const Shapes& wanted,
                   const std::function<void(const std::string&, const std::vector<int64_t>&, int64_t row)>& fn) {
  int64_t row = 0;
  for (const auto& name : match.ours) {
    const auto& shape = wanted.at(name);
    fn(name, shape, row);
    row += shape.empty() ? 0 : shape[0];
  }
}

}  // namespace

std::map<std::string, Codes> codes_in_our_names(const TensorSource& source, const KeyMap& keys, const Shapes& wanted) {
  std::map<std::string, Codes> codes;
  for (const auto& theirs : source.names()) {
    const auto& info = source.info(theirs);
    const auto match = keys.to_ours(theirs);
    const bool known = std::ranges::all_of(match.ours, [&](const auto& name) { return wanted.contains(name); });
    if (!info.codes || !known || !keeps_rows(info.shape, match, wanted.at(match.ours[0]))) continue;
    for_each_part(match, wanted,
                  [&](const auto& name, const auto& shape, int64_t row) { codes[name] = codes_of(*info.codes, match, shape, row); });
  }
  return codes;
}

std::map<std::string, InFile> load_from(const TensorSource& source, const std::string& theirs, const KeyMap& keys, const Shapes& wanted) {
  auto match = keys.to_ours(theirs);
  const auto& info = source.info(theirs);
  std::map<std::string, InFile> parts;
  at::Tensor numbers;
  std::optional<Codes> codes;
  if (info.codes && keeps_rows(info.shape, match, wanted.at(match.ours[0]))) codes = source.codes(theirs);
  else numbers = source.tensor(theirs);
  for_each_part(match, wanted, [&](const auto& name, const auto& shape, int64_t row) {
    if (codes) parts[name].codes = codes_of(*codes, match, shape, row);
    else parts[name].numbers = numbers_of(numbers, match, shape, row);
  });
  return parts;
}

void load_named(const TensorSource& source, const KeyMap& keys, const Shapes& wanted,
                const std::function<void(const std::string&, const InFile&)>& place, const std::string& what) {
  check_named(source, keys, wanted, what);
  for (const auto& theirs : source.names()) {
    auto parts = load_from(source, theirs, keys, wanted);
    for (const auto& ours : keys.to_ours(theirs).ours) place(ours, parts.at(ours));
    source.release(theirs);
  }
}

InFile load_one(const TensorSource& source, const KeyMap& keys, const Shapes& wanted, const std::string& name) {
  for (const auto& theirs : source.names()) {
    auto ours = keys.to_ours(theirs).ours;
    if (std::find(ours.begin(), ours.end(), name) != ours.end()) return load_from(source, theirs, keys, wanted).at(name);
  }
  throw std::logic_error("no file holds the tensor " + name);
}

}  // namespace burnish::io
