/* Loads the compiled core at the path given, as Python does, and has it test itself if it can: `core_selftest` gives 0,
   or the number of what is wrong. Prints what was found. */

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>

/* ISO C has no conversion from `dlsym` to a function. */
typedef union {
    void *symbol;
    uint32_t (*abi)(void);
    int (*self_test)(void);
    const char *(*compiler)(void);
} Found;

static Found find(void *library, const char *name) { return (Found){.symbol = dlsym(library, name)}; }

int main(int count, char **words) {
    void *library = count == 2 ? dlopen(words[1], RTLD_NOW) : NULL;
    if (library == NULL) {
        fprintf(stderr, "%s\n", count == 2 ? dlerror() : "usage: core_self_test LIBRARY");
        return 1;
    }
    Found abi = find(library, "core_abi"), compiler = find(library, "core_compiler");
    Found self_test = find(library, "core_selftest");
    if (abi.symbol == NULL || compiler.symbol == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    int wrong = self_test.symbol == NULL ? 0 : self_test.self_test();
    printf("its core has interface %u, by %s; %s\n", abi.abi(), compiler.compiler(),
           self_test.symbol == NULL ? "it can be loaded" : wrong ? "its self test failed" : "its self test passed");
    if (wrong)
        fprintf(stderr, "core_selftest: %d\n", wrong);
    return wrong != 0;
}
