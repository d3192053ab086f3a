// SPDX-License-Identifier: Apache-2.0

package lab_test

import (
	"strings"
	"testing"
	"time"

	"github.com/puntdns/puntdns/test/lab"
)

// What the environment says of the machine is believed, or refused with what was expected.
func TestMachine(t *testing.T) {
	for _, tc := range []struct {
		name, value, reason string
	}{
		{lab.DatapathEnv, "kernel", "LAB_DATAPATH=kernel: expected netdev or system"},
		{lab.SlowEnv, "0", "LAB_SLOW=0: expected a whole number from 1 on"},
		{lab.SlowEnv, "1.5", "LAB_SLOW=1.5: expected a whole number from 1 on"},
	} {
		t.Run(tc.name+"="+tc.value, func(t *testing.T) {
			lab.Need(t)
			t.Setenv(tc.name, tc.value)
			v := new(verdictT)
			done := make(chan struct{})
			go func() {
				defer close(done)
				lab.New(v, lab.Options{}).Close()
			}()
			<-done
			if v.verdict != "failed" || !strings.Contains(v.reason, tc.reason) {
				t.Errorf("%s: %s, want %s", v.verdict, v.reason, tc.reason)
			}
		})
	}
	t.Run("waits", func(t *testing.T) {
		t.Setenv(lab.SlowEnv, "3")
		if got := lab.Scaled(2 * time.Second); got != 6*time.Second {
			t.Errorf("%s instead of 2s, want 6s", got)
		}
	})
}
