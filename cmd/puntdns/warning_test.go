// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A start warns of a plugin that nothing reaches behind ovnhosts, before it connects.
func TestFallthroughWarning(t *testing.T) {
	t.Parallel()
	warning := regexp.MustCompile(`(?m)^\[WARNING\] plugin/ovnhosts: .*fallthrough.*reaches `)
	const up = "forward . 127.0.0.53:5300"
	for _, tc := range []struct {
		name, zones, fall, after string
		want                     bool
	}{
		{"forward", "", "", up, true},
		{"passthrough", "", "", "passthrough", true},
		{"fallthrough", "", "fallthrough", up, false},
		{"fallthrough of a zone", "", "fallthrough test", up, false},
		{"a zone", "internal", "", up, false},
		{"nothing behind", "", "", "", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "Corefile")
			if err := os.WriteFile(path, []byte(`
. {
    ofpunt br-int {
        openflow unix:/nowhere/br-int.mgmt
        ovsdb unix:/nowhere/db.sock
    }
    ovnhosts `+tc.zones+` {
        southbound unix:/nowhere/sb.sock
        `+tc.fall+`
    }
    `+tc.after+`
}`), 0o600); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, os.Args[0], "-conf", path)
			cmd.Env = environment()
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			cmd.Stderr = cmd.Stdout
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			said, started := "", false
			for lines := bufio.NewScanner(out); lines.Scan(); {
				said += lines.Text() + "\n"
				if !started && strings.HasPrefix(lines.Text(), "puntdns-") {
					started = true
					_ = cmd.Process.Signal(syscall.SIGTERM)
				}
			}
			if err := cmd.Wait(); err != nil || !started {
				t.Errorf("started: %v, ended with %v, want exit status 0\n%s", started, err, said)
			}
			if got := warning.MatchString(said); got != tc.want {
				t.Errorf("warned: %v, want %v\n%s", got, tc.want, said)
			}
		})
	}
}
