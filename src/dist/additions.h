#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <span>
#include <vector>

namespace burnish::dist {

using Parameters = std::span<const at::Tensor>;

/// How often backward adds to a gradient in a round, and in each of its kind after the first; what is not reached is not waited for.
struct Hits {
  int64_t now = 0, expected = 1;
};

/// Watches backward add to gradients, which it may do more than once to each; how often is learned in the first round of a kind.
class Additions {
 public:
  /// A function that hears of each addition.
  using Added = std::function<void(size_t parameter, const Hits& hits)>;
  Additions(Parameters parameters, Added added) : parameters_(parameters), added_(std::move(added)) {}
  ~Additions() { stop(); }
  Additions(const Additions&) = delete;
  Additions& operator=(const Additions&) = delete;

  void start(int64_t kind);
  void stop();
  void end_round();
  bool is_first_round() const { return round_->is_first; }
  bool is_reached(size_t parameter) const { return round_->hits[parameter].expected > 0; }

 private:
  class Hook;
  struct Round {
    std::vector<Hits> hits;  ///< by parameter
    bool is_first = true;
  };

  Parameters parameters_;
  Added added_;
  std::map<int64_t, Round> kinds_;
  Round* round_ = nullptr;  ///< the one of the kind that began last
  bool is_hooked_ = false;
};

}  // namespace burnish::dist
