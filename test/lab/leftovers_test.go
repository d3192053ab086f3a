// SPDX-License-Identifier: Apache-2.0

package lab_test

import (
	"bufio"
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

// processes returns those that f accepts, by pid and command line. Processes end
// while this runs; their files then are empty or gone, and f sees that.
func processes(t *testing.T, f func(dir string, argv []string) bool) []string {
	t.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, dir := range dirs {
		if argv := words(dir + "/cmdline"); f(dir, argv) {
			found = append(found, filepath.Base(dir)+" "+strings.Join(argv, " "))
		}
	}
	return found
}

// words splits a file of words that end with a zero byte.
func words(file string) []string {
	b, _ := os.ReadFile(file)
	return strings.Split(string(b), "\x00")
}

// marked returns the processes that bear the mark of the lab in dir, and its
// guard.
func marked(t *testing.T, dir string) []string {
	return processes(t, func(proc string, argv []string) bool {
		return slices.Contains(words(proc+"/environ"), "PUNTDNS_LAB="+dir) || slices.Contains(argv, dir)
	})
}

// held returns the network namespaces that this process holds open or has
// threads in, beside the one it started in.
func held(t *testing.T) []string {
	t.Helper()
	home, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, pattern := range []string{"/proc/self/fd/*", "/proc/self/task/*/ns/net"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if ns, _ := os.Readlink(file); strings.HasPrefix(ns, "net:[") && ns != home {
				found = append(found, file+" "+ns)
			}
		}
	}
	return found
}

// residents returns the processes in any of the network namespaces.
func residents(t *testing.T, namespaces []string) []string {
	return processes(t, func(proc string, _ []string) bool {
		ns, err := os.Readlink(proc + "/ns/net")
		return err == nil && slices.Contains(namespaces, ns)
	})
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

// noTrace reports what is left of the lab in dir that had these processes, or
// nil. A namespace without an open file and without a process is none.
func noTrace(t *testing.T, dir string, had []string) error {
	var errs []error
	if left := marked(t, dir); len(left) > 0 {
		errs = append(errs, fmt.Errorf("processes left: %q", left))
	}
	for _, p := range processes(t, func(string, []string) bool { return true }) {
		if slices.Contains(had, p) {
			errs = append(errs, fmt.Errorf("process left: %q", p))
		}
	}
	if left := held(t); len(left) > 0 {
		errs = append(errs, fmt.Errorf("namespaces left: %q", left))
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		errs = append(errs, fmt.Errorf("folder left: %s (%v)", dir, err))
	}
	return errors.Join(errs...)
}

func TestCloseLeavesNothing(t *testing.T) {
	lab.Need(t)
	links := interfaces(t)
	l := lab.New(t, lab.Options{Nodes: 2})
	vm, _ := tenant(l, "red")
	l.Upstream("a.test. 1 IN A 192.0.2.1")
	// Its child ignores what can be ignored, and loses its parent.
	p := vm.Start("stubborn", nil, "sh", "-c", `sh -c 'trap "" TERM HUP INT; echo child; sleep 1000; true' & wait`)
	if err := p.WaitLog(within(t, wait), "child"); err != nil {
		t.Fatal(err)
	}
	// Two nodes and two guests; two central databases and ovn-northd, three
	// daemons of each node, the stubborn three and the guard.
	if got := namespaces(held(t)); len(got) != 4 {
		t.Errorf("%d namespaces: %q", len(got), got)
	}
	had := append(marked(t, l.Dir), residents(t, namespaces(held(t)))...)
	if got := marked(t, l.Dir); len(got) != 13 {
		t.Errorf("%d processes: %q", len(got), got)
	}
	l.Close()
	if err := noTrace(t, l.Dir, had); err != nil {
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

// namespaces takes the names out of what held returns.
func namespaces(held []string) []string {
	var ns []string
	for _, h := range held {
		ns = append(ns, h[strings.Index(h, "net:["):])
	}
	slices.Sort(ns)
	return slices.Compact(ns)
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
			// This process may ignore it, as under nohup, and its children then do, too.
			cmd := exec.Command("env", "--default-signal", self)
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
				err := noTrace(t, dir, up)
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
