#include "harness/machine/machine.h"

#include <stdlib.h>
#include <unistd.h>
#if defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "kiln/cpu.h"

namespace kiln::harness {

namespace {

// A core of Arm's by what its main identification register says, for which Linux has numbers alone.
struct ArmCore {
    unsigned part;
    const char *name;
};
constexpr unsigned arm_implementer = 0x41;
constexpr ArmCore arm_cores[] = {
    {0xc07, "Cortex-A7"},  {0xc08, "Cortex-A8"},   {0xc09, "Cortex-A9"},   {0xc0f, "Cortex-A15"},
    {0xd02, "Cortex-A34"}, {0xd03, "Cortex-A53"},  {0xd04, "Cortex-A35"},  {0xd05, "Cortex-A55"},
    {0xd07, "Cortex-A57"}, {0xd08, "Cortex-A72"},  {0xd09, "Cortex-A73"},  {0xd0a, "Cortex-A75"},
    {0xd0b, "Cortex-A76"}, {0xd0c, "Neoverse-N1"}, {0xd0d, "Cortex-A77"},  {0xd40, "Neoverse-V1"},
    {0xd41, "Cortex-A78"}, {0xd44, "Cortex-X1"},   {0xd46, "Cortex-A510"}, {0xd47, "Cortex-A710"},
    {0xd48, "Cortex-X2"},  {0xd49, "Neoverse-N2"}, {0xd4b, "Cortex-A78C"}, {0xd4d, "Cortex-A715"},
    {0xd4e, "Cortex-X3"},  {0xd4f, "Neoverse-V2"}, {0xd80, "Cortex-A520"}, {0xd81, "Cortex-A720"},
    {0xd82, "Cortex-X4"},  {0xd84, "Neoverse-V3"}, {0xd8e, "Neoverse-N3"},
};

std::string arm_core_name(unsigned implementer, unsigned part) {
    for (const ArmCore &core : arm_cores)
        if (implementer == arm_implementer && part == core.part) return core.name;
    char text[64];
    std::snprintf(text, sizeof text, "ARM part 0x%03x of implementer 0x%02x", part, implementer);
    return text;
}

// What is behind the colon of the first line of /proc/cpuinfo with this key; "" where there is none.
std::string cpuinfo(const char *key) {
    std::string value;
    std::FILE *file = std::fopen("/proc/cpuinfo", "r");
    if (file == nullptr) return value;
    char line[512];
    while (value.empty() && std::fgets(line, sizeof line, file) != nullptr) {
        const char *colon = std::strchr(line, ':');
        if (std::strncmp(line, key, std::strlen(key)) != 0 || colon == nullptr || colon[1] == '\n') continue;
        value = colon + 2;
        value.pop_back();
    }
    std::fclose(file);
    return value;
}

}  // namespace

std::string processor_name() {
#if defined(__aarch64__)
    // The core that this thread is on, where Linux lets programs ask: the others of the machine may be smaller.
    if ((getauxval(AT_HWCAP) & HWCAP_CPUID) != 0) {
        uint64_t id = 0;
        asm("mrs %0, midr_el1" : "=r"(id));
        return arm_core_name(id >> 24 & 0xff, id >> 4 & 0xfff);
    }
#endif
    const std::string part = cpuinfo("CPU part"), name = cpuinfo("model name");
    if (!part.empty())
        return arm_core_name(static_cast<unsigned>(std::strtoul(cpuinfo("CPU implementer").c_str(), nullptr, 16)),
                             static_cast<unsigned>(std::strtoul(part.c_str(), nullptr, 16)));
    return name.empty() ? "unknown" : name;
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
