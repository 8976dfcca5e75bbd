#include <algorithm>
#include <map>

#include "base/log.h"
#include "base/text.h"
#include "train/run/hooks/hooks.h"
#include "train/run/without_gradient.h"
#include "train/subject/training_units.h"

namespace burnish::train {

namespace {

/// "a, b, ...".
std::string some(std::vector<std::string> names) {
  constexpr size_t kNamed = 8;
  auto count = names.size();
  names.resize(std::min(count, kNamed));
  return join(names) + (count > kNamed ? ", ..." : "");
}

/// The one expert of a run that runs a component, by its name; "" for components that other experts run too, or every step.
std::string only_expert(const std::string& component, const Subject& subject) {
  const auto& experts = subject.chosen.experts;
  std::vector<std::string> names;
  for (const auto& expert : experts) {
    if (contains(pipeline::components_of(training_units(*subject.model, {expert})), component)) names.push_back(expert.name);
  }
  return experts.size() > 1 && names.size() == 1 ? names.front() : "";
}

/// A step runs one expert for each of its parts, so what only an expert has is looked at after the first step that ran it; and where steps
/// are of several kinds each component.
class NoGradient final : public Hook {
 public:
  explicit NoGradient(const Training& training) : training_(training) {}

  void before() override {
    std::map<std::string, std::string> expert_of;  // by component
    const bool has_phases = training_.objective.num_phases() > 1;
    const auto& parameters = training_.trainee.optimizer->parameters();
    for (size_t i = 0; i < parameters.size(); ++i) {
      const auto component = pipeline::component_of(parameters[i].name);
      if (!expert_of.contains(component)) expert_of[component] = has_phases ? component : only_expert(component, training_.subject);
      waiting_[expert_of[component]].push_back(i);
    }
  }
  bool looks_at(const StepReport& /*r*/) override { return !waiting_.empty(); }
  void stepped(StepReport& /*r*/) override {
    if (waiting_.empty()) return;
    const auto& optimizer = *training_.trainee.optimizer;
    std::vector<double> updated;
    for (size_t i = 0; i < optimizer.parameters().size(); ++i) updated.push_back(optimizer.was_updated(i) ? 1 : 0);
    if (training_.trainee.ownership) updated = dist::sum_of(training_.world.group(), updated);
    std::erase_if(waiting_, [&](const auto& waiting) {
      const auto& [expert, indices] = waiting;
      const bool ran = expert.empty() || std::ranges::any_of(indices, [&](size_t i) { return updated[i] != 0; });
      if (ran && training_.world.is_first()) tell(expert, indices, updated);
      return ran;
    });
  }

 private:
  void tell(const std::string& expert, const std::vector<size_t>& indices, const std::vector<double>& updated) const {
    optim::ParameterList untouched;  // gradients may be gone by now
    for (auto i : indices) {
      if (updated[i] == 0) untouched.push_back(training_.trainee.optimizer->parameters()[i]);
    }
    const auto of_expert = expert.empty() ? "" : " of " + expert;
    auto [expected, unexpected] = without_gradient(untouched, training_.subject.model->names());
    if (!expected.empty())
      info("{} of {} trained parameters{} are never reached by a gradient in this model: {}", expected.size(), indices.size(), of_expert,
           some(expected));
    if (!unexpected.empty())
      warn("{} of {} trained parameters{} got no gradient in {} first step, so nothing changes them: {}", unexpected.size(), indices.size(),
           of_expert, expert.empty() ? "the" : "its", some(unexpected));
  }

  const Training& training_;
  std::map<std::string, std::vector<size_t>>
      waiting_;  ///< parameters that were not looked at, by the expert that alone has them, or their component
};

}  // namespace

std::unique_ptr<Hook> make_gradients(const Training& training) {
  bool has_part = training.world.is_first() || training.trainee.ownership;
  return has_part ? std::make_unique<NoGradient>(training) : nullptr;
}

}  // namespace burnish::train
