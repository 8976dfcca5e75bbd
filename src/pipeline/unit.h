#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <set>
#include <string>
#include <variant>
#include <vector>

namespace burnish::pipeline {

/// What flows between units: a tensor, or a text (a caption).
using Value = std::variant<at::Tensor, std::string>;
using Values = std::map<std::string, Value>;

class Scope;

/// One step of a model's pipeline. It declares the values it reads and writes and the models it runs, so that the graph can be
/// checked, ordered and cut before anything runs. `run` reaches values through the Scope only.
struct Unit {
  std::string name;
  std::vector<std::string> reads, writes, models;
  std::function<void(Scope&)> run;
};
using Units = std::vector<Unit>;

/// A unit's view of the values: anything it did not declare is refused, so declarations cannot drift from code.
class Scope {
 public:
  Scope(const Unit& unit, Values& values) : unit_(unit), values_(values) {}
  const at::Tensor& tensor(const std::string& name) const;
  const std::string& text(const std::string& name) const;
  void write(const std::string& name, Value value);
  /// Says that the unit is about to run `model`.
  void uses(const std::string& model) const;

 private:
  const Value& read(const std::string& name) const;
  const Unit& unit_;
  Values& values_;
};

/// Throws std::logic_error unless every read has an earlier writer or is among `inputs`.
void check(const Units& units, const std::set<std::string>& inputs);

/// Units in their order, cut in two: `prepare` depends on the sample alone and can be computed once per sample; `live` depends on a draw
/// or on a trained model (pipeline/labels.h). A unit that writes a value anew which an earlier live unit reads or writes is live as
/// well, so that every unit reads what it would read if all ran in order.
struct Cut {
  Units prepare, live;
  std::vector<std::string> carried;  ///< values that prepare writes and live reads: all that need be kept
};
Cut cut(const Units& units, const std::set<std::string>& draws, const std::set<std::string>& trained_models);

/// The models that `units` run, in order of first use.
std::vector<std::string> models_of(const Units& units);

void run(const Units& units, Values& values);

}  // namespace burnish::pipeline
