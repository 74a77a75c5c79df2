/* The fuzzer's place where a compiler has none: so many stories at random, the same ones every time, and stories in
 * files. Usage: PROGRAM COUNT [FILE…]
 */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { LONGEST = 400 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* xorshift64* */
static uint64_t next_random(void)
{
    static uint64_t state = 88172645463325252u;
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return state * UINT64_C(2685821657736338717) >> 32;
}

static int replay(const char *path)
{
    static uint8_t data[1 << 16];
    FILE *file = fopen(path, "rb");
    if (!file) {
        perror(path);
        return 1;
    }
    size_t bytes = fread(data, 1, sizeof data, file);
    (void)fclose(file);
    return LLVMFuzzerTestOneInput(data, bytes);
}

int main(int count, char **words)
{
    long stories = count > 1 ? strtol(words[1], NULL, 10) : 0;
    for (int at = 2; at < count; at++)
        if (replay(words[at]))
            return 1;
    for (long at = 0; at < stories; at++) {
        uint8_t data[LONGEST];
        size_t bytes = next_random() % LONGEST;
        for (size_t each = 0; each < bytes; each++)
            data[each] = (uint8_t)next_random();
        (void)LLVMFuzzerTestOneInput(data, bytes);
    }
    return 0;
}
