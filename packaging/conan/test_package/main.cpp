// Runs the layer: each pixel becomes four of its own value.
#include <cstdio>

#include "net.h"

alignas(KILN_ALIGNMENT) static char packed[NET_TWICE_PACKED_BYTES], workspace[NET_TWICE_WORKSPACE_BYTES + 1];

int main() {
    float x[16], w[4] = {1, 1, 1, 1}, y[64];
    for (int i = 0; i < 16; ++i) x[i] = static_cast<float>(i);
    if (const int code = net_twice_pack(w, packed)) return code;
    net_twice_args args = {};
    args.x = x;
    args.packed_weights = packed;
    args.y = y;
    args.workspace = workspace;
    if (const int code = net_twice(&args)) return code;
    std::printf("y[63] = %g\n", y[63]);
    return y[63] == 15 ? 0 : 1;
}
