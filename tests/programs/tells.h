/* tells.h: for tests of POMONA_CHECK: an error's class, and the words of its sentence. */
#pragma once
#include "check.h"

#include <string.h>

/* The error is of that class, and its sentence has all these words. */
static void tells(int error, int class, const char* words[], int count) {
    char text[MPI_MAX_ERROR_STRING];
    int length;
    CHECK_EQ(class, class_of(error));
    if (class_of(error) != class) return;
    CHECK_OK(MPI_Error_string(error, text, &length));
    for (int i = 0; i < count; ++i) {
        if (!strstr(text, words[i])) fprintf(stderr, "\"%s\" is not in: %s\n", words[i], text);
        CHECK(strstr(text, words[i]) != NULL);
    }
}
#define TELLS(error, class, ...)                                                                   \
    do {                                                                                           \
        const char* words_[] = {__VA_ARGS__};                                                      \
        tells(error, class, words_, sizeof words_ / sizeof *words_);                               \
    } while (0)
