// Every update rule over every kind of adapter: it learns, and goes on from a saved state bit for bit.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "adapters/attach.h"
#include "optim/averaged.h"
#include "optim/optimizer.h"
#include "tests/device.h"

using namespace burnish;

namespace {

struct Rule {
  const char *name, *args;
  double rate;
};

std::ostream& operator<<(std::ostream& out, const Rule& rule) { return out << rule.name; }

struct Net : nn::Module {
  Net() : linear(256, 264, test::device()), conv(4, 6, 3, 1, 1, test::device()) {
    own("linear", linear);
    own("conv", conv);
    at::manual_seed(1);
    at::NoGradGuard no_grad;
    visit_parameters([](const std::string&, at::Tensor& p) { p.copy_(at::empty(p.sizes()).normal_(0, 0.1)); });
  }
  nn::Linear linear;
  nn::Conv2d conv;
};

/// A net under adapters, and what trains it towards made-up targets.
class Training {
 public:
  Training(const std::string& type, const Rule& rule) {
    adapted_ = adapters::attach(net_, {.type = type, .rank = 16}, {"linear", "conv"}, 3);
    optim::ParameterList parameters;
    for (const auto& item : adapted_) {
      for (const auto& [name, value] : item.adapter->parameters()) parameters.push_back({item.path + "." + name, value});
    }
    optimizer_ = optim::make_optimizer({.name = rule.name, .args = rule.args}, parameters);
    rate_ = rule.rate;
  }

  double loss() const { return loss_of().item<double>(); }
  void step() {
    optimizer_->zero_grad();
    torch::autograd::backward({loss_of()}, {});
    optimizer_->step(rate_);
  }
  optim::StateList values() const { return copies(optim::values(optimizer_->parameters())); }
  optim::StateList state() const { return copies(optimizer_->state()); }
  void go_on(const optim::StateList& values, const optim::StateList& state) {
    at::NoGradGuard no_grad;
    optim::load_into("values", optim::values(optimizer_->parameters()), values);
    for (const auto& parameter : optimizer_->parameters()) optim::mark_changed(parameter);
    optimizer_->load_state(state);
  }
  double average_loss() const {
    optim::Averaged averaged(*optimizer_, nullptr);
    return loss();
  }

 private:
  at::Tensor loss_of() const {
    auto of = [](nn::LinearMap& layer, const at::Tensor& x) { return (layer.forward(x) - 0.5).square().mean(); };
    auto& net = const_cast<Net&>(net_);
    return of(net.linear, wave({5, 256})) + of(net.conv, wave({2, 4, 5, 5}));
  }
  static at::Tensor wave(const std::vector<int64_t>& shape) {
    int64_t count = 1;
    for (auto size : shape) count *= size;
    return test::on_device(at::arange(count, at::kFloat).sin().view(shape));
  }
  static optim::StateList copies(optim::StateList list) {
    for (auto& [name, tensor] : list) tensor = tensor.detach().clone();
    return list;
  }

  Net net_;
  adapters::AdaptedList adapted_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  double rate_ = 0;
};

bool equal(const optim::StateList& a, const optim::StateList& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const auto& x, const auto& y) { return x.first == y.first && at::equal(x.second, y.second); });
}

class AdapterOptimizers : public testing::TestWithParam<Rule> {};

}  // namespace

TEST_P(AdapterOptimizers, LearnAndGoOnBitForBit) {
  for (const std::string type : {"lora", "dora", "loha", "lokr"}) {
    SCOPED_TRACE(type);
    Training whole(type, GetParam()), first(type, GetParam()), second(type, GetParam());
    auto start = whole.loss();
    auto untouched = whole.values();
    for (int i = 0; i < 6; ++i) whole.step();
    for (int i = 0; i < 3; ++i) first.step();
    second.go_on(first.values(), first.state());
    for (int i = 0; i < 3; ++i) second.step();
    EXPECT_TRUE(equal(second.values(), whole.values()));
    EXPECT_TRUE(equal(second.state(), whole.state()));
    EXPECT_LT(whole.average_loss(), start);
    auto now = whole.values();
    for (size_t i = 0; i < now.size(); ++i) EXPECT_FALSE(at::equal(now[i].second, untouched[i].second)) << now[i].first << " never moved";
  }
}

INSTANTIATE_TEST_SUITE_P(All, AdapterOptimizers,
                         testing::Values(Rule{"adamw", "", 1e-2}, Rule{"adamw8bit", "", 1e-2},
                                         Rule{"adafactor", "relative_step=false,scale_parameter=false", 1e-2}, Rule{"lion", "", 3e-3},
                                         Rule{"prodigy", "d0=1e-4", 1}, Rule{"prodigy_schedulefree", "d0=1e-2", 1},
                                         Rule{"adamw_schedulefree", "", 1e-2}, Rule{"came", "", 1e-4}, Rule{"muon", "", 1e-2}),
                         [](const auto& info) { return std::string(info.param.name); });
