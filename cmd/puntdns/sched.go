// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// timeSlice is how long the kernel lets a thread run before others of its priority
// have their turn, in nanoseconds: the shortest that it takes (sched_setattr(2), of
// EEVDF since Linux 6.12; before, it has no meaning). By it no thread has more of the
// processor in all. But one that wakes up goes before those with longer slices, which
// a guest that uses up its processor would make it wait for: up to a tick, 4 ms.
const timeSlice = 100_000

// shortenSlices gives each thread of this process the slice; those to come inherit
// it. A process that has a policy other than the usual one is left as it is.
func shortenSlices() error {
	for again := true; again; {
		again = false
		tasks, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return fmt.Errorf("the threads of this process: %w", err)
		}
		for _, t := range tasks {
			id, err := strconv.Atoi(t.Name())
			if err != nil {
				return fmt.Errorf("the threads of this process: %w", err)
			}
			changed, err := shortenSlice(id)
			if errors.Is(err, unix.ESRCH) { // it is gone
				continue
			}
			if err != nil {
				return fmt.Errorf("the time slice of thread %d: %w", id, err)
			}
			// A thread that had the old one may have made another meanwhile.
			again = again || changed
		}
	}
	return nil
}

func shortenSlice(thread int) (changed bool, err error) {
	a, err := unix.SchedGetAttr(thread, 0)
	if err != nil {
		return false, err
	}
	if a.Policy != unix.SCHED_NORMAL || a.Runtime == timeSlice {
		return false, nil
	}
	a.Runtime = timeSlice
	if err := unix.SchedSetAttr(thread, a, 0); err != nil {
		return false, err
	}
	a, err = unix.SchedGetAttr(thread, 0)
	// A kernel that knows no slices says 0.
	return err == nil && a.Runtime == timeSlice, err
}
