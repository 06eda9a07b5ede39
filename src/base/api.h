// Export macros. The library is built with hidden visibility; only marked symbols are exported.
#pragma once

#define STRATA_API [[gnu::visibility("default")]]

// initial-exec: one instruction per access, where the default model of a shared library calls __tls_get_addr.
#define STRATA_THREAD_LOCAL_DECL [[gnu::tls_model("initial-exec")]]
#define STRATA_THREAD_LOCAL STRATA_THREAD_LOCAL_DECL constinit thread_local
