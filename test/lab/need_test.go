// SPDX-License-Identifier: Apache-2.0

package lab_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/puntdns/puntdns/test/lab"
)

// verdictT records how a test would have ended.
type verdictT struct {
	verdict, reason string
}

func (*verdictT) Helper()             {}
func (*verdictT) Failed() bool        { return false }
func (*verdictT) Cleanup(func())      {}
func (*verdictT) Logf(string, ...any) {}
func (v *verdictT) Skipf(f string, a ...any) {
	v.verdict, v.reason = "skipped", fmt.Sprintf(f, a...)
	runtime.Goexit()
}
func (v *verdictT) Fatalf(f string, a ...any) {
	v.verdict, v.reason = "failed", fmt.Sprintf(f, a...)
	runtime.Goexit()
}

func TestNeed(t *testing.T) {
	for _, tc := range []struct{ ci, want string }{
		{"", "skipped"},
		{"true", "failed"},
	} {
		t.Run("CI="+tc.ci, func(t *testing.T) {
			t.Setenv("CI", tc.ci)
			t.Setenv("PATH", "/nonexistent")
			v := new(verdictT)
			done := make(chan struct{})
			go func() {
				defer close(done)
				lab.Need(v)
			}()
			<-done
			if v.verdict != tc.want || !strings.Contains(v.reason, "no lab can run: ") {
				t.Errorf("%s (%s), want %s", v.verdict, v.reason, tc.want)
			}
		})
	}
}
