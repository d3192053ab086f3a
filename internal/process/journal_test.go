// SPDX-License-Identifier: Apache-2.0

package process

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func TestJournalWriter(t *testing.T) {
	for _, tt := range []struct{ name, message, want string }{
		{"info", "[INFO] plugin/ofpunt: up\n", "<6>[INFO] plugin/ofpunt: up\n"},
		{"warning", "[WARNING] plugin/ofpunt: down\n", "<4>[WARNING] plugin/ofpunt: down\n"},
		{"error", "[ERROR] no answer\n", "<3>[ERROR] no answer\n"},
		{"fatal", "[FATAL] ends\n", "<3>[FATAL] ends\n"},
		{"debug", "[DEBUG] detail\n", "<7>[DEBUG] detail\n"},
		{"without a level", "maxprocs: 2\n", "<6>maxprocs: 2\n"},
		{"several lines", "[ERROR] a panic\nstack\n\tframe\n", "<3>[ERROR] a panic\n<3>stack\n<3>\tframe\n"},
		{"a level within", "[INFO] said [ERROR] once\n", "<6>[INFO] said [ERROR] once\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out bytes.Buffer
			n, err := journalWriter{&out, PriorityInfo}.Write([]byte(tt.message))
			if err != nil || n != len(tt.message) || out.String() != tt.want {
				t.Errorf("%d, %v, %q, expected %q", n, err, out.String(), tt.want)
			}
		})
	}
}

func TestIsJournal(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "stream"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, stream string
		want         bool
	}{
		{"this file", fmt.Sprintf("%d:%d", st.Dev, st.Ino), true},
		{"another file", fmt.Sprintf("%d:%d", st.Dev, st.Ino+1), false},
		{"no journal", "", false},
	} {
		if got := isJournal(f, tt.stream); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}
