#include "programs/own_weights.h"

#include <filesystem>
#include <fstream>

#include "fmt/format.h"
#include "layers/npy.h"

namespace kiln::tools {
namespace {

namespace fs = std::filesystem;

// `npy` may be "": then what an earlier call left is removed.
void save(const std::string &npy, const std::string &path) {
    std::error_code error;
    fs::remove(path, error);
    if (npy.empty()) return;
    const NpyArray array = read_npy(npy);
    std::ofstream file(path, std::ios::binary);
    file.write(reinterpret_cast<const char *>(array.data.data()), static_cast<std::streamsize>(array.data.size()));
    file.close();
    if (!file) throw Error(fmt::format("{} cannot be written", path), StatusCode::failed);
}

}  // namespace

bool save_own_weights(Spec *spec, const std::string &folder) {
    std::error_code error;
    fs::create_directories(folder, error);  // where that fails, writing says so
    bool any = false;
    std::erase_if(spec->layers, [&](const LayerSpec &layer) {
        try {
            save(layer.weights_file, folder + "/" + layer.name + ".w.bin");
            save(layer.bias_file, folder + "/" + layer.name + ".b.bin");
            any = any || !layer.weights_file.empty() || !layer.bias_file.empty();
            return false;
        } catch (const Error &failure) {
            spec->failures.push_back({layer.name, failure.code, failure.what(), layer.source.node});
            return true;
        }
    });
    return any;
}

}  // namespace kiln::tools
