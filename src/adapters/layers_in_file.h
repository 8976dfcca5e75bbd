#pragma once
#include "adapters/layout.h"

namespace burnish::adapters {

/// Adapters as the layers of a layout have them, `path` being a layer's whole name there. Where a program has one layer and we have
/// several, an adapter that those share is written as it is, and adapters of their own are stacked to one of their ranks together, with
/// zeros for a layer that has none. Where it is the other way round, each layer gets its rows. A config Error for what cannot be stacked or
/// cut.
AdaptedList in_layout(const AdaptedList& adapted, const LayerPrefixes& names, Layout layout);

/// A layer of ours behind a layer of a file, and its adapter if it has one.
struct LayerInFile {
  int64_t rows;  ///< output features
  const AdapterWeights* weights = nullptr;
};

/// The adapter of one layer of a file, which has these of ours in it, one of them with an adapter; as in_layout says. Where parts differ in
/// ΔW's rows alone, the others are in the file once. 16-bit factors become fp32 where adapters of several scales are stacked. A config
/// Error ends in `otherwise`, which says what else can be done.
AdapterWeights in_layer(const std::string& name, const std::vector<LayerInFile>& parts, bool swapped_halves, const std::string& otherwise);

/// An adapter of its rows alone, where it is that of a fused layer. A config Error for what cannot be cut.
AdapterWeights cut(AdapterWeights weights);

/// Exchanges the halves of ΔW's rows; a data Error about `file` where those of the factors have none.
void swap_halves(AdapterWeights& weights, const std::string& file);

}  // namespace burnish::adapters
