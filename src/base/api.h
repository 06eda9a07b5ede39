// Export marks: the library is built with hidden visibility, and only what is marked leaves it.
#pragma once

#define STRATA_API [[gnu::visibility("default")]]

// initial-exec: one instruction to reach, where the default model in a shared library calls __tls_get_addr.
#define STRATA_THREAD_LOCAL_DECL [[gnu::tls_model("initial-exec")]]
#define STRATA_THREAD_LOCAL STRATA_THREAD_LOCAL_DECL constinit thread_local
