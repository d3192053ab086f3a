// SPDX-License-Identifier: Apache-2.0

package process

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// timeSlice is how long the kernel lets a thread run before it runs others of the same
// priority, in nanoseconds: the shortest that it accepts (sched_setattr(2), of EEVDF
// since Linux 6.12; before, it has no meaning). A thread has no larger share of the
// processor by it. But one that wakes up runs before those with longer slices. Else it
// would wait up to a tick, 4 ms, for a guest that uses up its processor.
const timeSlice = 100_000

// ShortenSlices sets the slice of each thread of this process, which later ones inherit.
// Threads with a policy other than SCHED_NORMAL are left as they are. Its error says at
// which thread it has stopped.
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
			if errors.Is(err, unix.ESRCH) { // it is gone
				continue
			}
			if err != nil {
				return fmt.Errorf("the time slice of thread %d: %w", id, err)
			}
			// A thread with the old slice may have made another meanwhile.
			again = again || changed
		}
	}
	return nil
}

// shortenSlice reports whether the kernel has taken a new slice for a thread.
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
