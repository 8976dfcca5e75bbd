#pragma once
#include <functional>
#include <memory>

#include "dist/group.h"
#include "nn/module.h"

// Processes that share out the tokens of every sample (Ulysses: Jacobs et al. 2023, arXiv 2309.14509): each computes a block's linear
// layers and MLPs for its own tokens, and attention for its own heads over all tokens. Of L tokens, place r of N has as many as lie from
// L·r/N to before L·(r+1)/N.
//
// Shape letters: B batch, H heads, L all tokens, l those of this place, P head width, D width.
namespace burnish::nn {

/// The processes of a sequence: what has to travel between them. Each of its collectives has one of its own in backward, so all of them
/// have to run the same operators in the same order. Gradients of what a place computes of its tokens are its part of a sum over places,
/// and so is that of what all places compute alike, where each counts 1/N of its loss.
class TokenShares {
 public:
  explicit TokenShares(std::shared_ptr<dist::Group> places) : places_(std::move(places)) {}

  int64_t count() const { return places_->size(); }
  int64_t place() const { return places_->rank(); }
  /// Returns the number of the first token of a place, among so many tokens.
  int64_t begin(int64_t num_tokens, int64_t place) const { return num_tokens * place / count(); }

  /// Exchanges tokens for heads: [..., H, l, P] -> [..., H/N, L, P], by place.
  at::Tensor to_heads(const at::Tensor& x, int64_t num_tokens);
  /// Undoes to_heads: [..., H/N, L, P] -> [..., H, l, P].
  at::Tensor to_tokens(const at::Tensor& x);
  /// Gathers [B, l, D] of all places one behind the other; `lengths` by place.
  at::Tensor gathered(const at::Tensor& x_BlD, const std::vector<int64_t>& lengths);

  /// Tells whether tokens are shared out now; otherwise every process has all.
  bool is_on = false;
  /// The bytes that have left this process so far, and the exchanges that took them.
  struct Traffic {
    int64_t num_bytes = 0, num_exchanges = 0;
  };
  const Traffic& traffic() const { return traffic_; }

 private:
  class OneWay;
  at::Tensor heads_of_tokens(const at::Tensor& x, const std::vector<int64_t>& lengths);
  at::Tensor tokens_of_heads(const at::Tensor& x, const std::vector<int64_t>& lengths);
  std::vector<int64_t> lengths_of(int64_t num_tokens) const;
  at::Tensor exchanged(const at::Tensor& mine);
  void count(int64_t num_bytes);

  std::shared_ptr<dist::Group> places_;
  Traffic traffic_;
};

/// A module with tokens that can be shared out: blocks with attention, and what splits tokens before them and joins them behind.
class SharesTokens {
 public:
  /// `num_heads` of its attention; 0 where it has none itself.
  explicit SharesTokens(int64_t num_heads = 0) : num_heads_(num_heads) {}
  virtual ~SharesTokens() = default;
  int64_t num_heads() const { return num_heads_; }
  void share(std::shared_ptr<TokenShares> shares) { shares_ = std::move(shares); }

 protected:
  /// Returns the shares; null where this process has all tokens.
  TokenShares* shares() const { return shares_ && shares_->is_on ? shares_.get() : nullptr; }
  /// Computes nn::attention of this place's tokens [B, H, l, P] with all `num_tokens`; `bias` on all of them, in the order of places.
  at::Tensor attention_of(const at::Tensor& q_BHlP, const at::Tensor& k_BHlP, const at::Tensor& v_BHlP, const at::Tensor& bias,
                          int64_t num_tokens) const;
  using Attend = std::function<at::Tensor(const at::Tensor& q_BHLP, const at::Tensor& k_BHLP, const at::Tensor& v_BHLP)>;
  /// Computes another attention of this place's tokens with all: `attend` is given all of them, in the order of places.
  at::Tensor attention_by(const at::Tensor& q_BHlP, const at::Tensor& k_BHlP, const at::Tensor& v_BHlP, const Attend& attend,
                          int64_t num_tokens) const;
  /// Picks this place's tokens along `dim` out of all tokens, which lie in the order of places.
  at::Tensor here(const at::Tensor& of_all, int64_t dim) const;

 private:
  int64_t num_heads_;
  std::shared_ptr<TokenShares> shares_;
};

/// The greatest number that divides the heads of all attention below that can be shared out; 0 where there is none.
int64_t heads_to_share(Module& root);
/// Has all modules below that can share their tokens with others do so.
void share_tokens(Module& root, const std::shared_ptr<TokenShares>& shares);

/// Runs of tokens that lie behind each other in one sequence (text, picture). Every place has its part of each run, the parts one behind
/// the other; in the order of places, the sequence is the parts of place 0, of place 1, and so on. Without shares all tokens are here and
/// nothing here does anything.
class Streams {
 public:
  /// Lengths of the runs; a data Error where the last is shorter than there are places.
  Streams(TokenShares* shares, std::vector<int64_t> lengths);

  bool are_whole() const { return shares_ == nullptr; }
  int64_t length_here(size_t run) const { return parts_[run][place()].length; }
  /// This place's part of a run [B, n, ...].
  at::Tensor here(size_t run, const at::Tensor& x) const;
  /// The run [B, n, D] of which this place has a part; all have to come to it.
  at::Tensor joined(size_t run, const at::Tensor& here_BlD) const;
  /// Puts what lies along `dim` of all tokens as the runs lie into the order of places.
  at::Tensor by_place(const at::Tensor& x, int64_t dim) const;
  /// Undoes by_place.
  at::Tensor in_order(const at::Tensor& x, int64_t dim) const;
  /// Puts a bias of attention [B, 1, 1 or L, L] into the order of places; undefined stays so.
  at::Tensor bias_by_place(const at::Tensor& bias) const;

 private:
  struct RunShare {
    int64_t begin = 0, length = 0;  ///< where the part begins in its run
  };
  size_t place() const { return shares_ ? static_cast<size_t>(shares_->place()) : 0; }

  TokenShares* shares_;
  std::vector<int64_t> lengths_;
  std::vector<std::vector<RunShare>> parts_;  ///< the parts, by run and place
};

}  // namespace burnish::nn
