// SPDX-License-Identifier: Apache-2.0

package process

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// timeSlice is how long the kernel lets a thread run before other threads of the same priority, in
// nanoseconds. It is the shortest slice that the kernel accepts (sched_setattr(2)); EEVDF uses it since Linux
// 6.12, older kernels ignore it. The slice does not enlarge a thread's share of the processor. But a thread
// that wakes up runs before threads with longer slices. Otherwise it would wait up to a tick, 4 ms, for a
// guest that uses up its processor.
const timeSlice = 100_000

// ShortenSlices sets the slice of each thread of this process; later threads inherit it. Threads with a
// policy other than SCHED_NORMAL stay unchanged. The error names the thread at which ShortenSlices stopped.
func ShortenSlices() error {
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
			if errors.Is(err, unix.ESRCH) { // the thread has ended
				continue
			}
			if err != nil {
				return fmt.Errorf("the time slice of thread %d: %w", id, err)
			}
			// A thread with the old slice may have started another thread meanwhile.
			again = again || changed
		}
	}
	return nil
}

// shortenSlice reports whether the kernel has accepted a new slice for a thread.
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
	// A kernel without slices returns 0.
	return err == nil && a.Runtime == timeSlice, err
}
