/* The codes that every call returns, in C and in C++ (kiln::StatusCode). */
#ifndef KILN_STATUS_CODE_H
#define KILN_STATUS_CODE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum kiln_status_code {
    kiln_ok = 0,
    kiln_invalid_argument = 1, /* what was asked for is wrong: an attribute, a size, a pointer */
    kiln_unsupported = 2,      /* it is right, but Kiln, this library or this processor cannot do it */
    kiln_failed = 3            /* a caller's hook reported a failure */
};

/* What a code means, in words; "unknown code" for any other number. */
const char *kiln_status_text(int32_t code);

#ifdef __cplusplus
}
#endif

#endif
