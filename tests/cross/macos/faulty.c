/* tests/cross/macos/faulty.c: linked badly on purpose; check.py must find every fault. */
int no_library_has_this(void);
int PMPI_Send(void);
int os_sync_wake_by_address_all(void* address, unsigned long size, unsigned flags);
int PMPI_Send(void) {
    return no_library_has_this() + os_sync_wake_by_address_all(0, 4, 0);
}
