// SPDX-License-Identifier: Apache-2.0

//go:build neutron

package neutron

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// wait bounds what a test waits for of the switch, the databases and puntdns; patience
// what it waits for of Neutron, whose daemons take many seconds to start. Both are far more
// than it takes, for a busy machine.
const (
	wait     = 60 * time.Second
	patience = 5 * time.Minute
)

// puntdns is the binary under test, by the environment variable PUNTDNS.
var puntdns = os.Getenv("PUNTDNS")

var begun = time.Now()

func TestMain(m *testing.M) {
	if _, err := os.Stat(puntdns); err != nil || !filepath.IsAbs(puntdns) {
		fmt.Fprintf(os.Stderr, "PUNTDNS=%s: expected the absolute path of a puntdns; make neutron sets it\n", puntdns)
		os.Exit(1)
	}
	tell("%s", versions())
	code := m.Run()
	tell("%s after %.0f s", map[bool]string{true: "all right", false: "FAILED"}[code == 0], time.Since(begun).Seconds())
	os.Exit(code)
}

// tell prints a line that is seen without -test.v too.
func tell(format string, args ...any) { fmt.Printf(format+"\n", args...) }

// versions are those of what the root has.
func versions() string {
	out, err := exec.Command("dpkg-query", "-W", "-f", "${Package} ${Version}\n",
		"neutron-common", "ovn-central", "openvswitch-switch", "mariadb-server", "rabbitmq-server").Output()
	if err != nil {
		return err.Error()
	}
	return strings.Join(strings.Split(strings.TrimSpace(string(out)), "\n"), ", ")
}

// within bounds what a test waits for.
func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// ended says that a program which is waited for has ended.
type ended struct{ error }

// until calls f until it returns nil, which has to be within d.
func until(t *testing.T, d time.Duration, what string, f func() error) {
	t.Helper()
	deadline := time.Now().Add(d)
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, 500*time.Millisecond) {
		err := f()
		if err == nil {
			return
		}
		if errors.As(err, new(ended)) || time.Now().After(deadline) {
			t.Fatalf("%s: %v", what, err)
		}
		time.Sleep(pause)
	}
}
