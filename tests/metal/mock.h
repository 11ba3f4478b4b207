// tests/metal/mock.h: what a test asks of the stand-in for the Objective-C runtime and Metal.
#pragma once

#include <cstddef>
#include <string>

// Objects that have not been released, autoreleased ones included.
size_t mock_live_objects();

// Faults to inject; none after mock_reset().
struct MockFaults {
    bool no_device = false;
    bool library_fails = false;
    bool pipeline_fails = false;
    bool memory_unreachable = false;  // newBufferWithBytesNoCopy gives nil
    bool execution_fails = false;     // the command buffer ends with an error
    bool hold = false;                // commands wait until mock_let_go()
    int failing_command = -1;         // this one, counted from mock_reset(), ends with an error
    unsigned delay_us = 0;            // commands take up to so long
};
extern MockFaults mock_faults;
void mock_reset();
void mock_let_go();

// Kernels run so far, and a shared event's value for the commands that wait for it.
size_t mock_dispatches();
void* mock_new_event();
void mock_signal_event(void* event, unsigned long value);
