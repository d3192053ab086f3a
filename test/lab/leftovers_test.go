// SPDX-License-Identifier: Apache-2.0

package lab_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/puntdns/puntdns/test/lab"
)

// marked returns the processes that bear the mark of the lab in dir.
func marked(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, file := range files {
		// Processes end while this runs; their files then are empty or gone.
		env, _ := os.ReadFile(file)
		if slices.Contains(strings.Split(string(env), "\x00"), "PUNTDNS_LAB="+dir) {
			argv, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
			found = append(found, filepath.Dir(file)+" "+string(bytes.ReplaceAll(argv, []byte{0}, []byte{' '})))
		}
	}
	return found
}

// guards returns the guard processes of the lab in dir.
func guards(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, file := range files {
		argv, _ := os.ReadFile(file)
		if slices.Contains(strings.Split(string(argv), "\x00"), dir) {
			found = append(found, filepath.Dir(file))
		}
	}
	return found
}

// namespaces returns the network namespaces that any process is in or holds
// open, with one holder of each.
func namespaces(t *testing.T) map[string]string {
	t.Helper()
	found := make(map[string]string)
	for _, pattern := range []string{"/proc/[0-9]*/task/*/ns/net", "/proc/[0-9]*/fd/*"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if target, err := os.Readlink(file); err == nil && strings.HasPrefix(target, "net:[") {
				found[target] = file
			}
		}
	}
	return found
}

// interfaces returns those of this process's own namespace.
func interfaces(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("ip", "-brief", "link").CombinedOutput()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// noTrace reports what is left of a lab, or nil.
func noTrace(t *testing.T, dir string, before map[string]string) error {
	var errs []error
	if left := append(marked(t, dir), guards(t, dir)...); len(left) > 0 {
		errs = append(errs, fmt.Errorf("processes left: %q", left))
	}
	for ns, holder := range namespaces(t) {
		if before[ns] == "" {
			errs = append(errs, fmt.Errorf("namespace left: %s held by %s", ns, holder))
		}
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		errs = append(errs, fmt.Errorf("folder left: %s (%v)", dir, err))
	}
	return errors.Join(errs...)
}

func TestCloseLeavesNothing(t *testing.T) {
	lab.Need(t)
	before, links := namespaces(t), interfaces(t)
	l := lab.New(t, lab.Options{Nodes: 2})
	vm, _ := tenant(l, "red")
	l.Upstream("a.test. 1 IN A 192.0.2.1")
	// Its child ignores what can be ignored, and loses its parent.
	p := vm.Start("stubborn", nil, "sh", "-c", "sh -c 'trap \"\" TERM HUP INT; echo child; sleep 1000; true' & wait")
	if err := p.WaitLog(within(t, wait), "child"); err != nil {
		t.Fatal(err)
	}
	if got := marked(t, l.Dir); len(got) < 10 {
		t.Fatalf("the mark finds %d processes only: %q", len(got), got)
	}
	l.Close()
	if err := noTrace(t, l.Dir, before); err != nil {
		t.Error(err)
	}
	if got := interfaces(t); got != links {
		t.Errorf("interfaces were\n%s and are\n%s", links, got)
	}
	l.Close()
	if _, err := vm.Exec(within(t, wait), "true"); err == nil {
		t.Error("a closed lab runs commands")
	}
}

// victimEnv makes the test binary a process that holds a lab until it is
// killed.
const victimEnv = "PUNTDNS_LAB_VICTIM"

// victimT is a T without a test around it.
type victimT struct{}

func (victimT) Helper()                    {}
func (victimT) Failed() bool               { return false }
func (victimT) Cleanup(func())             {}
func (victimT) Logf(f string, a ...any)    { fmt.Fprintf(os.Stderr, f+"\n", a...) }
func (v victimT) Skipf(f string, a ...any) { v.Fatalf(f, a...) }
func (v victimT) Fatalf(f string, a ...any) {
	v.Logf(f, a...)
	os.Exit(1)
}

func victim() {
	l := lab.New(victimT{}, lab.Options{})
	vm, _ := tenant(l, "red")
	vm.Start("grandchild", nil, "sh", "-c", "sleep 1000 & wait")
	fmt.Println(l.Dir)
	select {}
}

func TestKilledLeavesNothing(t *testing.T) {
	lab.Need(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		t.Run(sig.String(), func(t *testing.T) {
			before := namespaces(t)
			cmd := exec.Command(self)
			cmd.Env = append(os.Environ(), victimEnv+"=1")
			cmd.Stderr = os.Stderr
			stdout, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			dir, err := bufio.NewReader(stdout).ReadString('\n')
			dir = strings.TrimSuffix(dir, "\n")
			up := marked(t, dir)
			if e := cmd.Process.Signal(sig); e != nil {
				t.Error(e)
			}
			// It ends by the signal, which is an error.
			_ = cmd.Wait()
			if err != nil || len(up) < 7 {
				t.Fatalf("the lab did not come up: %v, %q", err, up)
			}
			deadline := time.Now().Add(wait)
			for {
				err := noTrace(t, dir, before)
				if err == nil {
					return
				}
				if time.Now().After(deadline) {
					t.Fatal(err)
				}
			}
		})
	}
}
