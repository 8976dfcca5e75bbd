#include "adapters/kinds.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/argsort.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/linalg_solve.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/triu_indices.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/input_error.h"

namespace burnish::adapters {

namespace {

/// A part that only adapters of this kind have.
struct Mark {
  const char* part;
  Kind kind;
};
constexpr Mark kMarks[] = {{"lora_A.weight", Kind::lora}, {"hada_w1_a", Kind::loha},      {"lokr_w1", Kind::lokr},
                           {"lokr_w1_a", Kind::lokr},     {"diff", Kind::full},           {"oft_blocks", Kind::oft},
                           {"oft_R", Kind::oft},          {"boft_R", Kind::boft},         {"ia3_l", Kind::ia3},
                           {"on_input", Kind::ia3},       {"a1.weight", Kind::glora},     {"glora_A.Xd", Kind::glora},
                           {"glora_A.X", Kind::glora},    {"glora_A.zeros", Kind::glora}, {"lambda_layer", Kind::tlora}};

const std::set<std::string> kOwnShapes{"diff",   "diff_b", "lora_bias",  "oft_blocks", "rescale",      "oft_R",         "boft_R",
                                       "boft_s", "ia3_l",  "ia3_weight", "on_input",   "lambda_layer", "vera_lambda_b", "vera_lambda_d"};

const at::Tensor& need(const Parts& parts, const char* name, const PartsOf& of) {
  auto it = parts.find(name);
  if (it == parts.end()) data_error("adapters", "{}: the adapter of '{}' lacks its {}", of.file, of.layer, name);
  return it->second;
}

[[noreturn]] void refuse_shape(const char* part, const at::Tensor& tensor, const PartsOf& of) {
  data_error("adapters", "{}: the {} of '{}' has a shape of {} dimensions and {} numbers that no such adapter has", of.file, part, of.layer,
             tensor.dim(), tensor.numel());
}

std::vector<std::string> names_in(const Parts& parts) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : parts) names.push_back(name);
  return names;
}

at::Tensor column(const at::Tensor& vector) { return vector.flatten().unsqueeze(1); }

at::Tensor exact(const at::Tensor& tensor) { return tensor.to(at::kDouble); }

/// (I + Q)(I - Q)⁻¹ of every block.
at::Tensor cayley(const at::Tensor& q) {
  auto identity = at::eye(q.size(-1), q.options());
  return at::linalg_solve(identity - q, identity + q);
}

AdapterWeights entry_of(Kind kind, Parameters parameters, double scale = 1) {
  AdapterWeights entry;
  entry.kind = kind;
  for (auto& [name, value] : parameters) value = value.to(at::kFloat).contiguous();
  entry.parameters = std::move(parameters);
  entry.scale = scale;
  return entry;
}

double alpha_of(const Parts& parts) {
  auto it = parts.find("alpha");
  return it == parts.end() ? 0 : it->second.to(at::kDouble).item<double>();
}

AdapterWeights read_full(const Parts& parts) {
  auto diff = parts.at("diff");
  return entry_of(Kind::full, {{"diff", diff.dim() < 2 ? column(diff) : diff.flatten(1)}});
}

/// Returns which rows the blocks of a butterfly's stage take: LyCORIS exchanges the places of single rows.
at::Tensor butterfly_order(int64_t n, int64_t b, int64_t stage) {
  return at::arange(n, at::kLong).view({-1, 2, (b / 2) << stage}).transpose(1, 2).flatten();
}

/// peft exchanges those of half blocks, and the other way round.
at::Tensor peft_butterfly_order(int64_t n, int64_t b, int64_t stage) {
  return at::arange(n, at::kLong).view({-1, int64_t{1} << stage, 2, b / 2}).transpose(1, 2).flatten().argsort();
}

void add_orders(Parameters& parameters, const at::Tensor& blocks, at::Tensor (*order)(int64_t n, int64_t b, int64_t stage),
                const PartsOf& of) {
  auto b = blocks.size(2), n = blocks.size(1) * b;
  constexpr int64_t kMostStages = 32;
  if (b % 2 || blocks.size(0) > kMostStages || n % (b << (blocks.size(0) - 1))) refuse_shape("oft_blocks", blocks, of);
  std::vector<at::Tensor> orders;
  for (int64_t stage = 0; stage < blocks.size(0); ++stage) orders.push_back(order(n, b, stage));
  parameters.emplace_back("order", at::stack(orders));
}

/// LyCORIS' and sd-scripts' blocks at the output.
AdapterWeights read_oft_blocks(const Parts& parts, const PartsOf& of) {
  const auto& blocks = parts.at("oft_blocks");
  bool is_boft = blocks.dim() == 4;
  if ((blocks.dim() != 3 && !is_boft) || blocks.size(-1) != blocks.size(-2) || blocks.numel() == 0) refuse_shape("oft_blocks", blocks, of);
  auto stages = exact(is_boft ? blocks : blocks.unsqueeze(0));
  auto out = stages.size(1) * stages.size(2);
  bool always_limited = of.layer.starts_with("oft_");
  auto limit = alpha_of(parts) * static_cast<double>(out);
  bool is_limited = always_limited || limit > 0;
  if (!is_boft && !is_limited && !parts.contains("rescale")) return entry_of(Kind::oft, {{"oft_blocks", blocks.flatten(0, 1)}});
  auto q = stages - stages.transpose(2, 3);
  auto norm = q.norm().item<double>();
  if (is_limited && norm > limit) q = q * (limit / norm);
  // LyCORIS' OFT multiplies rows with Rᵀ, its BOFT with R.
  Parameters parameters{{"row_rotation", is_boft ? cayley(q) : cayley(q).transpose(2, 3)}};
  if (is_boft) add_orders(parameters, stages, butterfly_order, of);
  if (auto rescale = parts.find("rescale"); rescale != parts.end()) {
    if (rescale->second.numel() != out) refuse_shape("rescale", rescale->second, of);
    parameters.emplace_back("rescale", rescale->second.flatten());
  }
  return entry_of(is_boft ? Kind::boft : Kind::oft, parameters);
}

/// Q [blocks, b, b] of the numbers above its diagonal.
at::Tensor skew(const at::Tensor& above, const PartsOf& of) {
  auto n = above.dim() == 2 ? above.size(1) : 0;
  auto b = static_cast<int64_t>(std::lround((1 + std::sqrt(1 + 8 * static_cast<double>(n))) / 2));
  if (n < 1 || b * (b - 1) / 2 != n) refuse_shape("oft_R", above, of);
  auto places = at::triu_indices(b, b, 1);
  auto q = at::zeros({above.size(0), b * b}, at::kDouble).index_copy_(1, places[0] * b + places[1], exact(above)).unflatten(1, {b, b});
  return q - q.transpose(1, 2);
}

/// I + 2 Q + 2 Q² + ... + Qⁿ⁻¹, peft's approximation of (I + Q)(I - Q)⁻¹.
at::Tensor neumann(const at::Tensor& q, int64_t num_terms) {
  auto r = at::eye(q.size(-1), q.options()).expand(q.sizes()).clone();
  if (num_terms > 1) r.add_(q, 2);
  if (num_terms <= 2) return r;
  auto power = at::bmm(q, q);
  r.add_(power, 2);
  for (int64_t i = 3; i < num_terms - 1; ++i) r.add_(power = at::bmm(power, q), 2);
  return r.add_(at::bmm(power, q));
}

/// peft's and OneTrainer's blocks at the input.
AdapterWeights read_oft_r(const Parts& parts, const PartsOf& of) {
  auto q = skew(parts.at("oft_R"), of);
  if (of.oft.eps) {
    auto limit = *of.oft.eps / std::sqrt(static_cast<double>(q.size(0)));
    auto norms = q.flatten(1).norm(2, 1).view({-1, 1, 1});
    q = q * (limit / norms).clamp_max(1);
  }
  auto r = of.oft.num_terms ? neumann(q, *of.oft.num_terms) : cayley(-q);
  bool is_shared = r.size(0) == 1 && of.in > r.size(1) && of.in % r.size(1) == 0;
  if (is_shared) r = r.expand({of.in / r.size(1), -1, -1});
  return entry_of(Kind::oft, {{"column_rotation", r.unsqueeze(0)}});
}

AdapterWeights read_boft_r(const Parts& parts, const PartsOf& of) {
  const auto& blocks = parts.at("boft_R");
  if (blocks.dim() != 4 || blocks.size(2) != blocks.size(3) || blocks.numel() == 0) refuse_shape("boft_R", blocks, of);
  auto stages = exact(blocks);
  Parameters parameters{{"column_rotation", cayley((stages.transpose(2, 3) - stages) / 2)}};
  if (blocks.size(0) > 1) add_orders(parameters, blocks, peft_butterfly_order, of);
  if (parts.contains("boft_s")) parameters.emplace_back("rescale", parts.at("boft_s").flatten());
  return entry_of(Kind::boft, parameters);
}

/// Tells whether peft's factors are those of a layer's inputs ([1, in]); under a convolution ([1, n, 1...]) their number tells it.
bool is_over_inputs(const at::Tensor& ia3_l, const PartsOf& of) {
  if (ia3_l.dim() > 2) return ia3_l.numel() != of.out;
  return ia3_l.dim() == 2 && ia3_l.size(0) == 1;
}

AdapterWeights read_ia3(const Parts& parts, const PartsOf& of) {
  if (parts.contains("ia3_l")) {
    const auto& l = parts.at("ia3_l");
    return entry_of(Kind::ia3, {{is_over_inputs(l, of) ? "column_gain" : "row_gain", column(exact(l) - 1)}});
  }
  bool on_input = parts.at("on_input").to(at::kDouble).item<double>() != 0;
  return entry_of(Kind::ia3, {{on_input ? "column_gain" : "row_gain", column(need(parts, "ia3_weight", of))}});
}

/// A matrix, and which of its dimensions is the rank.
struct Factor {
  const char* name;
  int64_t rank_dim;
};

/// Kinds whose parts are kept as they are, with scale alpha / rank.
AdapterWeights read_factors(Kind kind, std::initializer_list<Factor> factors, const Parts& parts, const PartsOf& of) {
  Parameters parameters;
  int64_t rank = -1;
  for (const auto& [name, rank_dim] : factors) {
    const auto& value = need(parts, name, of);
    if (value.dim() != 2 || (rank >= 0 && value.size(rank_dim) != rank)) refuse_shape(name, value, of);
    rank = value.size(rank_dim);
    parameters.emplace_back(name, value);
  }
  if (rank == 0) refuse_shape(parameters[0].first.c_str(), parameters[0].second, of);
  return entry_of(kind, parameters, parts.contains("alpha") ? alpha_of(parts) / static_cast<double>(rank) : 1);
}

AdapterWeights read_glora(const Parts& parts, const PartsOf& of) {
  auto entry = read_factors(Kind::glora, {{"a1.weight", 1}, {"a2.weight", 0}, {"b1.weight", 1}, {"b2.weight", 0}}, parts, of);
  if (parts.at("a1.weight").size(0) != parts.at("a2.weight").size(1)) refuse_shape("a2.weight", parts.at("a2.weight"), of);
  return entry;
}

/// Two factors whose product is a matrix.
struct Path {
  at::Tensor left, right;
};

/// One of the five paths of peft's GLoRA to a matrix [rows, columns]: a product of low rank, one column for all columns, one number for the
/// whole, or zeros. Nothing where the file does not have the path.
std::optional<Path> glora_path(const Parts& parts, const std::string& name, int64_t rows, int64_t columns, const PartsOf& of) {
  auto ones = [&] { return at::ones({1, columns}); };
  auto find = [&](const char* end) { return parts.find(name + end); };
  if (auto down = find(".Xd"); down != parts.end()) {
    const auto& up = need(parts, (name + ".Xu").c_str(), of);
    bool fits = down->second.dim() == 2 && up.dim() == 2 && down->second.size(1) == up.size(0) && up.size(0) > 0 &&
                down->second.size(0) == rows && up.size(1) == columns;
    if (!fits) refuse_shape((name + ".Xd").c_str(), down->second, of);
    return Path{down->second, up};
  }
  if (find(".Xu") != parts.end()) need(parts, (name + ".Xd").c_str(), of);
  if (auto x = find(".X"); x != parts.end()) {
    if (x->second.numel() != 1 && x->second.numel() != rows) refuse_shape((name + ".X").c_str(), x->second, of);
    return Path{column(x->second).to(at::kFloat).expand({rows, 1}).contiguous(), ones()};
  }
  if (find(".zeros") != parts.end()) return Path{at::zeros({rows, 1}), ones()};
  return std::nullopt;
}

/// peft's: tuners/glora/layer.py, W + W ∘ A + B.
AdapterWeights read_glora_of_peft(const Parts& parts, const PartsOf& of) {
  auto gain = glora_path(parts, "glora_A", of.out, of.in, of), delta = glora_path(parts, "glora_B", of.out, of.in, of);
  if (!gain || !delta) need(parts, gain ? "glora_B.X" : "glora_A.X", of);
  return entry_of(Kind::glora,
                  {{"g1.weight", gain->left}, {"g2.weight", gain->right}, {"b1.weight", delta->left}, {"b2.weight", delta->right}});
}

/// And b + b ∘ D + E + W C.
void take_glora_of_bias(Parts& parts, const PartsOf& of, std::vector<AdapterWeights>& changes) {
  auto gain = glora_path(parts, "glora_D", of.out, 1, of), delta = glora_path(parts, "glora_E", of.out, 1, of),
       of_weight = glora_path(parts, "glora_C", of.in, 1, of);
  bool has_zeros_alone = parts.contains("glora_C.zeros") && parts.contains("glora_D.zeros") && parts.contains("glora_E.zeros");
  std::erase_if(parts, [](const auto& part) {
    return part.first.starts_with("glora_C") || part.first.starts_with("glora_D") || part.first.starts_with("glora_E");
  });
  if (has_zeros_alone) return;  // as of a layer without a bias
  auto product = [](const Path& path) { return at::mm(exact(path.left), exact(path.right)); };
  if (gain) changes.push_back(entry_of(Kind::ia3, {{"row_gain", product(*gain)}}));
  if (!delta && !of_weight) return;
  Parameters sum{{"diff", delta ? product(*delta) : at::zeros({of.out, 1}, at::kDouble)}};
  if (of_weight) sum.emplace_back("of_weight", product(*of_weight));
  changes.push_back(entry_of(Kind::full, sum));
}

AdapterWeights read_tlora(const Parts& parts, const PartsOf& of) {
  auto entry = read_factors(Kind::tlora, {{"p_layer.weight", 1}, {"q_layer.weight", 0}, {"lambda_layer", 1}}, parts, of);
  if (parts.at("lambda_layer").size(0) != 1) refuse_shape("lambda_layer", parts.at("lambda_layer"), of);
  return entry;
}

}  // namespace

bool has_own_shape(const std::string& part) { return kOwnShapes.contains(part) || part.starts_with("glora_"); }

std::optional<Kind> kind_of_parts(const std::vector<std::string>& parts) {
  for (const auto& mark : kMarks) {
    if (std::find(parts.begin(), parts.end(), mark.part) != parts.end()) return mark.kind;
  }
  if (std::find(parts.begin(), parts.end(), "vera_lambda_b") != parts.end()) return Kind::lora;
  return std::nullopt;
}

std::optional<AdapterWeights> read_kind(const Parts& parts, const PartsOf& of) {
  if (parts.contains("diff")) return read_full(parts);
  if (parts.contains("oft_blocks")) return read_oft_blocks(parts, of);
  if (parts.contains("oft_R")) return read_oft_r(parts, of);
  if (parts.contains("boft_R")) return read_boft_r(parts, of);
  if (parts.contains("ia3_l") || parts.contains("on_input")) return read_ia3(parts, of);
  if (parts.contains("a1.weight")) return read_glora(parts, of);
  if (kind_of_parts(names_in(parts)) == Kind::glora) return read_glora_of_peft(parts, of);
  if (parts.contains("lambda_layer")) return read_tlora(parts, of);
  return std::nullopt;
}

std::vector<AdapterWeights> take_bias_changes(Parts& parts, double lora_scale, const PartsOf& of) {
  std::vector<AdapterWeights> changes;
  const std::pair<const char*, double> deltas[] = {{"diff_b", 1}, {"lora_bias", lora_scale}};
  for (const auto& [part, scale] : deltas) {
    if (auto found = parts.extract(part)) changes.push_back(entry_of(Kind::full, {{"diff", column(found.mapped())}}, scale));
  }
  if (auto l = parts.find("ia3_l"); l != parts.end() && l->second.dim() == 2 && l->second.size(1) == 1)
    changes.push_back(entry_of(Kind::ia3, {{"row_gain", column(exact(l->second) - 1)}}));
  take_glora_of_bias(parts, of, changes);
  for (auto& change : changes) change.target = "bias";
  return changes;
}

void fold_vera(Parts& parts, const at::Tensor& shared_a, const at::Tensor& shared_b, const PartsOf& of) {
  auto d = need(parts, "vera_lambda_d", of).flatten(), b = need(parts, "vera_lambda_b", of).flatten();
  if (!shared_a.defined() || !shared_b.defined())
    data_error("adapters", "{}: this VeRA was saved without the matrices that its layers share; save it with peft's save_projection",
               of.file);
  if (shared_a.dim() != 2 || shared_b.dim() != 2 || shared_a.size(0) != d.size(0) || shared_a.size(1) < of.in ||
      shared_b.size(0) < b.size(0) || shared_b.size(1) != d.size(0))
    data_error("adapters", "{}: the matrices that all layers share do not fit '{}'", of.file, of.layer);
  parts["lora_A.weight"] = (exact(shared_a.narrow(1, 0, of.in)) * d.unsqueeze(1)).to(at::kFloat);
  parts["lora_B.weight"] = (exact(shared_b.narrow(0, 0, b.size(0))) * b.unsqueeze(1)).to(at::kFloat);
  parts.erase("vera_lambda_d");
  parts.erase("vera_lambda_b");
}

}  // namespace burnish::adapters
