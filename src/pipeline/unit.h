#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <set>
#include <string>
#include <variant>
#include <vector>

namespace burnish::pipeline {

/// Lists of tensors of their own sizes, a list for each sample of a batch, as long as the sample has them: reference pictures.
using TensorLists = std::vector<std::vector<at::Tensor>>;
/// A value that flows between units: a tensor, a text (a caption), or lists of tensors. The tensor of a single sample has a leading
/// dimension of 1, and of lists there is one.
using Value = std::variant<at::Tensor, std::string, TensorLists>;
using Values = std::map<std::string, Value>;

class Scope;

/// The weights of its models that a unit computes with, where training changes them.
enum class Weights {
  trained,  ///< the weights as training has changed them so far
  frozen,   ///< the weights beside which something trains, and without that: equal at every visit
  initial,  ///< the weights that training begins with and then changes: the unit runs before it
};

/// A step of a model's pipeline. It declares the values it reads and writes and the models it runs, so that the graph can be checked,
/// ordered and cut before anything runs. `run` reaches values through the Scope only.
struct Unit {
  std::string name;
  std::vector<std::string> reads, writes, models;
  std::function<void(Scope&)> run = {};
  bool draws = false;  ///< it draws random numbers itself; a unit without this gives the same from the same
  Weights weights = Weights::trained;
  std::string settings = {};  ///< says in words what decides the unit's results beside its reads and models
  std::string prefix = {};    ///< of a twin: what stands before the names of the values that it is a twin of
};
using Units = std::vector<Unit>;

/// A record of what a unit touched while it ran.
struct Record {
  std::set<std::string> reads, writes, models;
};

/// A unit's view of the values: anything it did not declare is refused, so declarations cannot drift from code.
class Scope {
 public:
  Scope(const Unit& unit, Values& values, Record* record = nullptr) : unit_(unit), values_(values), record_(record) {}
  /// A value of whichever kind; then those that are known to be of one.
  const Value& value(const std::string& name) const;
  const at::Tensor& tensor(const std::string& name) const;
  const std::string& text(const std::string& name) const;
  const TensorLists& lists(const std::string& name) const;
  void write(const std::string& name, Value value);
  /// Says that the unit is about to run `model`.
  void uses(const std::string& model) const;

 private:
  const Unit& unit_;
  Values& values_;
  Record* record_;
};

/// Throws std::logic_error unless every read has an earlier writer or is among `inputs`.
void check(const Units& units, const std::set<std::string>& inputs);

/// Runs a unit twice against a recording context. Returns a sentence for each thing that it does without declaring it or declares
/// without doing it: values it reads, writes or changes in place, models it runs, random numbers it draws. None is as it should be.
/// Whoever calls this loads the unit's own models and no others, so that a unit which reaches for one without saying so fails.
std::vector<std::string> audit(const Unit& unit, const Values& values);

bool has_unit(const Units& units, const std::string& name);

/// Returns the component that a model name points into: "encoder" for "encoder.head".
std::string component_of(const std::string& model);

/// Tells whether one of the two names is the other or points below it.
bool overlap(const std::string& a, const std::string& b);

/// Returns what names of models have in common up to a dot: "dit.last" for "dit.last.body" and "dit.last.head", "dit" for "dit.first" and
/// "dit.last".
std::string common_part(const std::vector<std::string>& models);

/// The components that `units` run, in order of first use.
std::vector<std::string> components_of(const Units& units);

/// Replaces every tensor of a value, a single one or those of its lists, by what `change` makes of it.
void change_tensors(Value& value, const std::function<at::Tensor(const at::Tensor&)>& change);

/// Counts the bytes of a value's tensors, or of its text.
int64_t num_bytes(const Value& value);

/// The values with their tensors where `move` brings them; those without dimensions are numbers that units read, and stay as they are. On
/// a CPU tensors begin where its allocator lets them begin, whatever file they lie in: the last bits of a product depend on that (MKL).
Values moved(Values values, const std::function<at::Tensor(const at::Tensor&)>& move);
Values moved(Values values, c10::Device device);

/// The values of several samples as one of a batch, in their order. Tensors are joined along the first dimension; where `padded`, those
/// that are shorter in the second dimension are first filled with zeros at its end, so that a value of ones written beside them becomes
/// their mask. Lists are put in a row. Numbers without dimensions are equal in all samples of a batch, and are one number. A single value
/// is kept as it is; of several, a text is a std::logic_error that calls it `name`.
Value join(const std::string& name, const std::vector<Value>& of_samples, bool padded = false);

/// The models that `units` run, in order of first use.
std::vector<std::string> models_of(const Units& units);

void run(const Units& units, Values& values);

}  // namespace burnish::pipeline
