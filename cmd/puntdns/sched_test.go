// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/puntdns/puntdns/test/lab"
)

// release is the version of the kernel.
func release(t *testing.T) (major, minor int) {
	t.Helper()
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscanf(unix.ByteSliceToString(u.Release[:]), "%d.%d", &major, &minor); err != nil {
		t.Fatal(err)
	}
	return major, minor
}

// timeSlice is that of package process, in nanoseconds.
const timeSlice = 100_000

// All threads of the command have the slice that they should, and their policy and
// priority as before; one with another policy keeps it.
func TestTimeSlice(t *testing.T) {
	if major, minor := release(t); major < 6 || major == 6 && minor < 12 {
		lab.Lack(t, "Linux %d.%d has no time slices of threads", major, minor)
	}
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
		{"as it is", nil, unix.SchedAttr{Runtime: timeSlice, Nice: own.Nice}},
		{"less urgent", []string{"nice", "-n", "5"}, unix.SchedAttr{Runtime: timeSlice, Nice: min(own.Nice+5, 19)}},
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
