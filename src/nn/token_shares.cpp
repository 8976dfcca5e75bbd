#include "nn/token_shares.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/stack.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <algorithm>
#include <numeric>

#include "base/input_error.h"
#include "nn/attention.h"
#include "nn/graph_node.h"

namespace burnish::nn {

/// Holds what travels one way in forward and another in backward.
class TokenShares::OneWay final : public torch::autograd::Node {
 public:
  using Way = std::function<at::Tensor(const at::Tensor&)>;
  explicit OneWay(Way backward) : backward_(std::move(backward)) {}

  static at::Tensor run(const at::Tensor& x, const Way& forward, Way backward) {
    at::Tensor y;
    {
      at::NoGradGuard no_grad;
      y = forward(x);
    }
    if (!at::GradMode::is_enabled() || !x.requires_grad()) return y;
    auto node = make_graph_node<OneWay>(std::move(backward));
    node->set_next_edges(torch::autograd::collect_next_edges(x));
    torch::autograd::set_history(y, node);
    return y;
  }

  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    at::NoGradGuard no_grad;
    const auto& gradient = gradients.at(0);
    return {gradient.defined() ? backward_(gradient) : gradient};
  }

 private:
  Way backward_;
};

std::vector<int64_t> TokenShares::lengths_of(int64_t num_tokens) const {
  std::vector<int64_t> lengths;
  for (int64_t r = 0; r < count(); ++r) lengths.push_back(begin(num_tokens, r + 1) - begin(num_tokens, r));
  return lengths;
}

void TokenShares::count(int64_t num_bytes) {
  traffic_.num_bytes += num_bytes;
  ++traffic_.num_exchanges;
}

/// Row r of `mine` goes to place r.
at::Tensor TokenShares::exchanged(const at::Tensor& mine) {
  auto theirs = at::empty_like(mine);
  count(static_cast<int64_t>(mine.nbytes()) / count() * (count() - 1));
  places_->exchange(mine, theirs)->wait();
  return theirs;
}

namespace {

/// Rows as long as the longest, since all that travels is of one size.
at::Tensor rows_for(int64_t count, std::vector<int64_t> shape, size_t dim, const std::vector<int64_t>& lengths, const at::Tensor& like) {
  shape[dim] = std::ranges::max(lengths);
  shape.insert(shape.begin(), count);
  return at::empty(shape, like.options().requires_grad(false));
}

}  // namespace

at::Tensor TokenShares::heads_of_tokens(const at::Tensor& x, const std::vector<int64_t>& lengths) {
  auto shape = x.sizes().vec();
  const auto heads = x.size(-3) / count();
  shape[shape.size() - 3] = heads;
  auto mine = rows_for(count(), shape, shape.size() - 2, lengths, x);
  for (int64_t r = 0; r < count(); ++r) mine[r].narrow(-2, 0, x.size(-2)).copy_(x.narrow(-3, r * heads, heads));
  auto theirs = exchanged(mine);
  std::vector<at::Tensor> tokens;
  for (int64_t r = 0; r < count(); ++r) tokens.push_back(theirs[r].narrow(-2, 0, lengths[static_cast<size_t>(r)]));
  return at::cat(tokens, -2);
}

at::Tensor TokenShares::tokens_of_heads(const at::Tensor& x, const std::vector<int64_t>& lengths) {
  auto shape = x.sizes().vec();
  auto mine = rows_for(count(), shape, shape.size() - 2, lengths, x);
  int64_t begin = 0;
  for (int64_t r = 0; r < count(); ++r) {
    const auto length = lengths[static_cast<size_t>(r)];
    mine[r].narrow(-2, 0, length).copy_(x.narrow(-2, begin, length));
    begin += length;
  }
  auto theirs = exchanged(mine);
  std::vector<at::Tensor> heads;
  for (int64_t r = 0; r < count(); ++r) heads.push_back(theirs[r].narrow(-2, 0, lengths[static_cast<size_t>(place())]));
  return at::cat(heads, -3);
}

at::Tensor TokenShares::to_heads(const at::Tensor& x, int64_t num_tokens) {
  auto lengths = lengths_of(num_tokens);
  return OneWay::run(
      x, [&](const at::Tensor& t) { return heads_of_tokens(t, lengths); },
      [this, lengths](const at::Tensor& gradient) { return tokens_of_heads(gradient, lengths); });
}

at::Tensor TokenShares::to_tokens(const at::Tensor& x) {
  auto lengths = lengths_of(x.size(-2));
  return OneWay::run(
      x, [&](const at::Tensor& t) { return tokens_of_heads(t, lengths); },
      [this, lengths](const at::Tensor& gradient) { return heads_of_tokens(gradient, lengths); });
}

at::Tensor TokenShares::gathered(const at::Tensor& x, const std::vector<int64_t>& lengths) {
  const auto own = static_cast<size_t>(place());
  auto forward = [&](const at::Tensor& t) {
    auto all = rows_for(count(), t.sizes().vec(), 1, lengths, t);
    auto mine = at::empty(all[0].sizes(), all.options());
    mine.narrow(1, 0, t.size(1)).copy_(t);
    count(static_cast<int64_t>(mine.nbytes()) * (count() - 1));
    places_->gather(mine, all)->wait();
    std::vector<at::Tensor> parts;
    for (int64_t r = 0; r < count(); ++r) parts.push_back(all[r].narrow(1, 0, lengths[static_cast<size_t>(r)]));
    return at::cat(parts, 1);
  };
  // Each place has a gradient of the whole, which is its part of a sum.
  auto backward = [this, lengths, own](const at::Tensor& gradient) {
    auto mine = rows_for(count(), gradient.sizes().vec(), 1, lengths, gradient);
    int64_t begin = 0;
    for (int64_t r = 0; r < count(); ++r) {
      const auto length = lengths[static_cast<size_t>(r)];
      mine[r].narrow(1, 0, length).copy_(gradient.narrow(1, begin, length));
      begin += length;
    }
    return exchanged(mine).narrow(2, 0, lengths[own]).sum(0);
  };
  return OneWay::run(x, forward, backward);
}

at::Tensor SharesTokens::attention_of(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& bias,
                                      int64_t num_tokens) const {
  return attention_by(
      q, k, v,
      [&](const at::Tensor& all_q, const at::Tensor& all_k, const at::Tensor& all_v) { return attention(all_q, all_k, all_v, bias); },
      num_tokens);
}

at::Tensor SharesTokens::attention_by(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Attend& attend,
                                      int64_t num_tokens) const {
  auto* shares = this->shares();
  if (shares == nullptr) return attend(q, k, v);
  auto all = shares->to_heads(at::stack({q, k, v}), num_tokens).unbind(0);
  return shares->to_tokens(attend(all[0], all[1], all[2]));
}

at::Tensor SharesTokens::here(const at::Tensor& of_all, int64_t dim) const {
  auto* shares = this->shares();
  if (shares == nullptr) return of_all;
  const auto begin = shares->begin(of_all.size(dim), shares->place());
  return of_all.narrow(dim, begin, shares->begin(of_all.size(dim), shares->place() + 1) - begin);
}

int64_t heads_to_share(Module& root) {
  int64_t heads = 0;
  root.visit([&](const std::string&, Module& module) {
    if (const auto* sharing = dynamic_cast<const SharesTokens*>(&module)) heads = std::gcd(heads, sharing->num_heads());
  });
  return heads;
}

void share_tokens(Module& root, const std::shared_ptr<TokenShares>& shares) {
  root.visit([&](const std::string&, Module& module) {
    if (auto* sharing = dynamic_cast<SharesTokens*>(&module)) sharing->share(shares);
  });
}

Streams::Streams(TokenShares* shares, std::vector<int64_t> lengths) : shares_(shares), lengths_(std::move(lengths)) {
  const auto count = shares_ ? shares_->count() : 1;
  if (lengths_.back() < count)
    data_error("nn", "sequence_size {} shares out the tokens of a picture, and this one has {}; take larger pictures or fewer processes",
               count, lengths_.back());
  const auto all = std::accumulate(lengths_.begin(), lengths_.end(), int64_t{0});
  parts_.resize(lengths_.size());
  auto begin = [&](int64_t length, int64_t r) { return shares_ ? shares_->begin(length, r) : length * r; };
  for (int64_t r = 0; r < count; ++r) {
    // The last run evens out what the others' parts are rounded by, so that of all tokens every place has its share.
    RunShare last{begin(all, r), begin(all, r + 1)};
    for (size_t run = 0; run + 1 < lengths_.size(); ++run) {
      const auto first = begin(lengths_[run], r), end = begin(lengths_[run], r + 1);
      parts_[run].push_back({first, end - first});
      last.begin -= first;
      last.length -= end;
    }
    last.length -= last.begin;
    parts_.back().push_back(last);
  }
}

at::Tensor Streams::here(size_t run, const at::Tensor& x) const {
  if (are_whole() || !x.defined()) return x;
  const auto& part = parts_[run][place()];
  return x.narrow(1, part.begin, part.length);
}

at::Tensor Streams::joined(size_t run, const at::Tensor& here_BlD) const {
  if (are_whole()) return here_BlD;
  std::vector<int64_t> lengths;
  for (const auto& part : parts_[run]) lengths.push_back(part.length);
  return shares_->gathered(here_BlD, lengths);
}

at::Tensor Streams::by_place(const at::Tensor& x, int64_t dim) const {
  if (are_whole()) return x;
  std::vector<at::Tensor> parts;
  for (int64_t r = 0; r < shares_->count(); ++r) {
    int64_t offset = 0;
    for (size_t run = 0; run < parts_.size(); ++run) {
      const auto& part = parts_[run][static_cast<size_t>(r)];
      parts.push_back(x.narrow(dim, offset + part.begin, part.length));
      offset += lengths_[run];
    }
  }
  return at::cat(parts, dim);
}

at::Tensor Streams::in_order(const at::Tensor& x, int64_t dim) const {
  if (are_whole()) return x;
  std::vector<at::Tensor> parts;
  for (size_t run = 0; run < parts_.size(); ++run) {
    int64_t offset = 0;  // of a place's tokens
    for (size_t r = 0; r < parts_[run].size(); ++r) {
      auto before = offset;
      for (size_t other = 0; other < parts_.size(); ++other) {
        if (other < run) before += parts_[other][r].length;
        offset += parts_[other][r].length;
      }
      parts.push_back(x.narrow(dim, before, parts_[run][r].length));
    }
  }
  return at::cat(parts, dim);
}

at::Tensor Streams::bias_by_place(const at::Tensor& bias) const {
  if (are_whole() || !bias.defined()) return bias;
  auto of_keys = by_place(bias, -1);
  return bias.size(-2) == 1 ? of_keys : by_place(of_keys, -2);
}

}  // namespace burnish::nn
