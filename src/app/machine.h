#pragma once
#include <filesystem>
#include <nlohmann/json_fwd.hpp>

namespace burnish::app {

/// Returns what this machine has, and what of it a run takes when no option says otherwise: objects "burnish", "torch", "processor",
/// "memory", "gpu" and "used". Keys that end in "_bytes" are numbers of bytes. What cannot be found out is left out.
nlohmann::ordered_json describe_machine();

/// A folder that may not be there yet: its file system, how much room is on it, and whether it can be written.
nlohmann::ordered_json describe_place(const std::filesystem::path& folder);

/// Sentences about what in a report (describe_machine, with places under "files") slows a run or ends it, and what to do.
nlohmann::ordered_json advice(const nlohmann::ordered_json& report);

}  // namespace burnish::app
