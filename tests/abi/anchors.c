/* anchors.c: what MPI 5.0 itself says, written by hand, so that a mistake in the tables from which
 * header and other tests come does not pass unseen (MPI 5.0, sections 20.2 to 20.4, appendix A.1).
 * Method: constants the standard fixes by value, the encoding of handles, and the rules of
 * sizes. */
#include "mpi.h"

#include <stdio.h>

static int wrong = 0;
static void expect(int holds, const char* what)
{
    if (holds) return;
    printf("Does not hold: %s\n", what);
    ++wrong;
}
#define EXPECT(condition) expect((condition) != 0, #condition)
#define BITS(handle) ((unsigned long)(intptr_t)(handle))
/* Datatypes of fixed size carry log2 of their bytes in bits 3 to 5. */
#define CODED_SIZE(datatype) (1UL << ((BITS(datatype) >> 3) & 7))

int main(void)
{
    EXPECT(MPI_VERSION == 5 && MPI_SUBVERSION == 0);
    EXPECT(MPI_ABI_VERSION == 1 && MPI_ABI_SUBVERSION == 0);
    EXPECT(MPI_SUCCESS == 0 && MPI_ERR_LASTCODE == 0x3fff);
    EXPECT(MPI_ANY_SOURCE == -1 && MPI_ANY_TAG == -2 && MPI_PROC_NULL == -3 && MPI_ROOT == -4);
    EXPECT(MPI_UNDEFINED == -32766);
    EXPECT(MPI_THREAD_SINGLE < MPI_THREAD_FUNNELED && MPI_THREAD_FUNNELED < MPI_THREAD_SERIALIZED &&
           MPI_THREAD_SERIALIZED < MPI_THREAD_MULTIPLE);
    EXPECT(BITS(MPI_COMM_NULL) == 0x100 && BITS(MPI_COMM_WORLD) == 0x101 &&
           BITS(MPI_COMM_SELF) == 0x102);
    EXPECT(BITS(MPI_SUM) == 0x21 && BITS(MPI_MAX) == 0x23 && BITS(MPI_REPLACE) == 0x3c);
    EXPECT(BITS(MPI_REQUEST_NULL) == 0x180 && BITS(MPI_ERRORS_RETURN) == 0x143);
    EXPECT(BITS(MPI_IN_PLACE) == 1 && BITS(MPI_BOTTOM) == 0);
    EXPECT(BITS(MPI_DATATYPE_NULL) == 0x200 && BITS(MPI_INT) == 0x209);
    EXPECT(CODED_SIZE(MPI_INT8_T) == 1 && CODED_SIZE(MPI_CHAR) == 1 && CODED_SIZE(MPI_BYTE) == 1);
    EXPECT(CODED_SIZE(MPI_UINT16_T) == 2 && CODED_SIZE(MPI_INT32_T) == 4);
    EXPECT(CODED_SIZE(MPI_UINT64_T) == 8 && CODED_SIZE(MPI_COMPLEX16) == 16);
    EXPECT(MPI_LONG_LONG == MPI_LONG_LONG_INT && MPI_C_COMPLEX == MPI_C_FLOAT_COMPLEX);
    EXPECT(sizeof(MPI_Status) == 32 && sizeof(MPI_Aint) == sizeof(void*));
    EXPECT(sizeof(MPI_Count) == 8 && sizeof(MPI_Offset) == 8);
    EXPECT((MPI_Count)-1 < 0 && (MPI_Aint)-1 < 0 && (MPI_Offset)-1 < 0);
    EXPECT(MPI_MAX_ERROR_STRING == 512 && MPI_MAX_PROCESSOR_NAME == 256);
    return wrong != 0;
}
