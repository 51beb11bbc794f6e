#include "harness/machine.h"

#include <stdlib.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstring>

#include "kiln/cpu.h"

namespace kiln::harness {

std::string processor_name() {
    std::string name = "unknown";
    std::FILE *file = std::fopen("/proc/cpuinfo", "r");
    if (file == nullptr) return name;
    char line[512];
    while (std::fgets(line, sizeof line, file) != nullptr) {
        const char *colon = std::strchr(line, ':');
        if (std::strncmp(line, "model name", 10) != 0 || colon == nullptr) continue;
        name = colon + 2;
        name.pop_back();
        break;
    }
    std::fclose(file);
    return name;
}

std::string host_name() {
    char name[256] = "";
    return gethostname(name, sizeof name - 1) == 0 ? name : "";
}

double load() {
    double average = 0;
    return getloadavg(&average, 1) == 1 ? average : 0;
}

std::vector<std::string> feature_names(uint64_t features) {
    std::vector<std::string> names;
    for (int bit = 0; bit < 64; ++bit) {
        const uint64_t feature = features & uint64_t{1} << bit;
        const char *name = kiln_cpu_feature_name(feature);
        if (name == nullptr) continue;
        names.push_back(name);
        features &= ~feature;
    }
    if (features != 0) names.push_back("unknown features " + std::to_string(features));
    return names;
}

const char *to_string(Isa isa) {
    switch (isa) {
        case Isa::scalar:
            return "scalar";
        case Isa::sse2:
            return "sse2";
        case Isa::avx2:
            return "avx2";
        case Isa::avx512:
            return "avx512";
        case Isa::neon:
            return "neon";
    }
    return "";
}

Isa isa_of(uint64_t features) {
    if ((features & KILN_CPU_AVX512) != 0) return Isa::avx512;
    if ((features & KILN_CPU_AVX2) != 0) return Isa::avx2;
#if defined(__x86_64__)
    return Isa::sse2;
#elif defined(__aarch64__)
    return Isa::neon;
#else
    return Isa::scalar;
#endif
}

double now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace kiln::harness
