// What tuning tells: a table, JSON, and a page.
#pragma once

#include <string>

#include "nlohmann/json.hpp"
#include "tune/tuning.h"

namespace kiln::tools {

// Everything the page shows, and the answer of --json: {"target", "machine", "predicted", "seconds", "pool": {...},
// "gain": {...}, "problems": [...]}.
nlohmann::ordered_json describe(const Tuning &tuning);

void print_table(const Tuning &tuning);

// Writes the page; share/kiln/tune_report.py makes it. Throws Error.
void write_report(const Tuning &tuning, const std::string &path);

}  // namespace kiln::tools
