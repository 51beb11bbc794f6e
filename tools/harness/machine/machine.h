// The processor a program runs on.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kiln::harness {

// As the operating system calls it, an ARM core by its name or by its numbers, or "unknown". Of the core that the
// thread is on, where it can be told.
std::string processor_name();

// As it is known on its network; "" where the operating system says none.
std::string host_name();

// How many processes wanted to run, averaged over the last minute; 0 where the operating system does not tell.
double load();

// The names of a kernel's processor features (kiln/cpu.h), such as "avx2".
std::vector<std::string> feature_names(uint64_t features);

// The instruction sets whose peak can be measured.
enum class Isa { scalar, sse2, avx2, avx512, neon };
const char *to_string(Isa isa);

// What a kernel that needs `features` computes with: the best of them, or what every processor of this architecture
// has.
Isa isa_of(uint64_t features);

// Runs on the processor for about `seconds` with multiply-adds on registers alone, and returns how many float32 GFLOP/s
// that gave (two operations each). The processor must have `isa`.
double measure_peak(Isa isa, double seconds);

// Monotonic time, in seconds.
double now();

}  // namespace kiln::harness
