// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// timeSlice is the slice that package process sets, in nanoseconds.
const timeSlice = 100_000

// takenSlice returns the slice that the kernel shows once timeSlice was set: 0 on a kernel without
// slices of threads.
func takenSlice(t *testing.T) uint64 {
	t.Helper()
	type result struct {
		attr *unix.SchedAttr
		err  error
	}
	of := make(chan result)
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine
		a, err := unix.SchedGetAttr(0, 0)
		if err == nil {
			a.Runtime = timeSlice
			err = unix.SchedSetAttr(0, a, 0)
		}
		if err == nil {
			a, err = unix.SchedGetAttr(0, 0)
		}
		of <- result{a, err}
	}()
	r := <-of
	if r.err != nil {
		t.Fatal(r.err)
	}
	if r.attr.Runtime != timeSlice && r.attr.Runtime != 0 {
		t.Fatalf("a slice of %d ns, want %d, or 0 where the kernel has none", r.attr.Runtime, timeSlice)
	}
	return r.attr.Runtime
}

// All threads of the command have the slice that they should, and their policy and
// priority as before; one with another policy keeps it. On a kernel without slices the command
// starts as well, and its threads are as before.
func TestTimeSlice(t *testing.T) {
	slice := takenSlice(t)
	t.Logf("the kernel takes a slice of %d ns", slice)
	corefile := filepath.Join(t.TempDir(), "Corefile")
	if err := os.WriteFile(corefile, []byte(".:0 {\n    bind 127.0.0.1\n    whoami\n}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	own, err := unix.SchedGetAttr(0, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name   string
		before []string
		want   unix.SchedAttr
	}{
		{"as it is", nil, unix.SchedAttr{Runtime: slice, Nice: own.Nice}},
		{"less urgent", []string{"nice", "-n", "5"}, unix.SchedAttr{Runtime: slice, Nice: min(own.Nice+5, 19)}},
		{"another policy", []string{"chrt", "-b", "0"}, unix.SchedAttr{Policy: unix.SCHED_BATCH, Nice: own.Nice}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			argv := append(tc.before, os.Args[0], "-conf", corefile)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
			cmd.Env = append(os.Environ(), asPuntdns+"=1")
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
			for lines := bufio.NewScanner(out); ; {
				if !lines.Scan() {
					t.Fatal("it does not start")
				}
				if strings.HasPrefix(lines.Text(), "puntdns-") {
					break
				}
			}
			threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", cmd.Process.Pid))
			if err != nil || len(threads) < 2 {
				t.Fatalf("%v, %d threads", err, len(threads))
			}
			for _, thread := range threads {
				id, err := strconv.Atoi(thread.Name())
				if err != nil {
					t.Fatal(err)
				}
				got, err := unix.SchedGetAttr(id, 0)
				if err != nil {
					t.Fatal(err)
				}
				if got.Policy != tc.want.Policy || got.Nice != tc.want.Nice || (got.Runtime == timeSlice) != (tc.want.Runtime == timeSlice) {
					t.Errorf("thread %d: policy %d, nice %d, slice %d ns, want %d, %d, %d",
						id, got.Policy, got.Nice, got.Runtime, tc.want.Policy, tc.want.Nice, tc.want.Runtime)
				}
			}
		})
	}
}
