// SPDX-License-Identifier: Apache-2.0

package main

import "testing"

// KEEP=0 keeps nothing.
func TestIsOn(t *testing.T) {
	for value, want := range map[string]bool{"": false, "0": false, "1": true, "yes": true} {
		if got := isOn(value); got != want {
			t.Errorf("%q: %v", value, got)
		}
	}
}
