#pragma once
#include <optional>

#include "adapters/adapter.h"
#include "adapters/targets.h"

namespace burnish::adapters {

struct AdapterOptions {
  std::string type = "lora";  ///< lora, dora, loha, lokr, oft, full
  int64_t rank = 32;
  double alpha = 0;                       ///< 0 means rank
  bool use_rslora = false;                ///< scale alpha / √rank (Kalajdzievski 2023, arXiv 2312.03732) instead of alpha / rank
  double dropout = 0;                     ///< share of the inputs that the update does not see
  NormAxis dora_norm = NormAxis::output;  ///< what the norms of a DoRA are taken over
  int64_t lokr_factor = -1;               ///< largest side of LoKr's first factor; -1 takes the most even split
};
/// Throws a config Error for options that make no adapter.
void check(const AdapterOptions& options);
/// Returns the words that AdapterOptions::type may be.
const std::vector<std::string>& adapter_types();
/// Reads AdapterOptions::type.
Kind kind_of_type(const std::string& type);
/// Returns the words that parse_norm_axis reads.
const std::vector<std::string>& norm_axes();
NormAxis parse_norm_axis(std::string_view name);
/// Names the parameters of such an adapter below its layer; LoKr's also where a layer's size leaves some of them out.
std::vector<std::string> parameter_names(const AdapterOptions& options);

/// A layer that carries an adapter, by its path below the model.
struct Adapted {
  std::string path;
  nn::LinearMap* layer;
  std::shared_ptr<Adapter> adapter;
};
using AdaptedList = std::vector<Adapted>;

/// Hangs a fresh adapter on each layer of `paths`; it computes what it did before. Random parts come from `seed` and the path: LoRA's A
/// Kaiming-uniform (a = √5) and B zero; LoHa's normal (deviation 1; 0.1 for the first P) and the second P zero; LoKr's W1 and left part of
/// W2 Kaiming-uniform and the rest zero, as LyCORIS has them; OFT and full deltas zero. OFT's blocks have the side LyCORIS gives them:
/// `rank`, or the largest below it that divides the output. `dropout` is shared by all and may be null. std::logic_error for a path that
/// is no layer of `root`.
AdaptedList attach(nn::Module& root, const AdapterOptions& options, const std::vector<std::string>& paths, uint64_t seed,
                   const std::shared_ptr<const Dropout>& dropout = nullptr);
/// A function that gives the options of each layer, for the `attach` below.
using OptionsOf = std::function<AdapterOptions(const std::string& path)>;
/// Layers that one list of `fused` names, stacked in this order, share one adapter (see Update): it starts as that of the fused layer, with
/// the options and the seed of the first. Adapters lie on `device`; where none is given, where their layers do.
AdaptedList attach(nn::Module& root, const OptionsOf& options_of, const std::vector<std::string>& paths, uint64_t seed,
                   const std::shared_ptr<const Dropout>& dropout = nullptr, const std::vector<std::vector<std::string>>& fused = {},
                   std::optional<c10::Device> device = {});

/// A change read from a file, in our paths: of the weight or the bias of a layer or norm, or of a table, a parameter that is neither.
struct AdapterWeights {
  std::string path;
  std::string target = "weight";  ///< or "bias"; "" where the path is that of a table
  Kind kind = Kind::lora;
  /// The parameters as make_change (make_change.h) has them; a bias may have of_weight [in, 1] too, whose product with its layer's weight
  /// is added.
  Parameters parameters = {};
  double scale = 1;
  Magnitude magnitude = {};  ///< undefined m unless DoRA
  RowRange fused_rows = {};
};

int64_t rank_of(const AdapterWeights& weights);

/// Returns the name of the parameter that it changes.
std::string parameter_of(const AdapterWeights& weights);

/// Checks that every entry fits a parameter of `root` (its shapes suffice): otherwise a data Error names the first that does not.
void check_fit(nn::Module& root, const std::vector<AdapterWeights>& weights, const std::string& file_name);

/// Throws a data Error for what can be merged into a model like `root` and not trained: some kinds, changes of biases, norms and tables.
void check_trainable(nn::Module& root, const std::vector<AdapterWeights>& weights, const std::string& file_name);

/// Hangs the adapters of a file, after check_fit and check_trainable. Tensors that entries share become one parameter.
AdaptedList attach_weights(nn::Module& root, const std::vector<AdapterWeights>& weights, const std::string& file_name,
                           const std::shared_ptr<const Dropout>& dropout = nullptr);

/// The other parts of a fused layer whose magnitude over inputs an entry shares; none where it has no such magnitude.
std::vector<AdapterWeights> sharing_norms(const AdapterWeights& entry, const std::vector<AdapterWeights>& all);

struct WeightsAtStrength {
  AdapterWeights weights;
  double strength = 1;
  std::vector<AdapterWeights> sharing_norms = {};
};

/// Brings changes that fit into a weight, in this order (merge_into). `weight_of` gives the fp32 weight of another layer, of those that
/// share norms with one of them, and of a bias' own.
void merge(nn::LinearMap& layer, const std::vector<WeightsAtStrength>& all,
           const std::function<at::Tensor(const std::string& path)>& weight_of = nullptr);

/// The two factors of a side under LoKr, the smaller first: the most even split whose smaller part is at most `factor` (-1: no limit).
std::pair<int64_t, int64_t> lokr_split(int64_t side, int64_t factor);

}  // namespace burnish::adapters
