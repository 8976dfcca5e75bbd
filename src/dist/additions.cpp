#include "dist/additions.h"

#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <memory>
#include <utility>

namespace burnish::dist {

class Additions::Hook final : public torch::autograd::PostAccumulateGradHook {
 public:
  Hook(Additions& additions, size_t index) : additions_(additions), index_(index) {}
  void operator()(const torch::autograd::Variable& /*parameter*/) override {
    auto& hits = additions_.round_->hits[index_];
    ++hits.now;
    additions_.added_(index_, hits);
  }

 private:
  Additions& additions_;
  size_t index_;
};

void Additions::start(int64_t kind) {
  round_ = &kinds_.try_emplace(kind, Round{.hits = std::vector<Hits>(parameters_.size())}).first->second;
  for (size_t i = 0; i < parameters_.size(); ++i)
    torch::autograd::impl::set_post_acc_grad_hooks(parameters_[i], std::make_unique<Hook>(*this, i));
  is_hooked_ = true;
}

void Additions::stop() {
  if (!is_hooked_) return;
  for (const auto& parameter : parameters_) torch::autograd::impl::set_post_acc_grad_hooks(parameter, nullptr);
  is_hooked_ = false;
}

void Additions::end_round() {
  for (auto& [now, expected] : round_->hits) {
    if (round_->is_first) expected = now;
    now = 0;
  }
  round_->is_first = false;
}

}  // namespace burnish::dist
