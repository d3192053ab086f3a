// SPDX-License-Identifier: Apache-2.0

package punt

import "testing"

func TestSameQuestion(t *testing.T) {
	const a, https = "\x01a\x00\x00\x01\x00\x01", "\x01a\x00\x00\x41\x00\x01"
	tests := []struct {
		name, a, b string
		want       bool
	}{
		{"the same", counting(1, 0, 0, 0, a), counting(1, 0, 0, 0, a), true},
		{"another ID", counting(1, 0, 0, 0, a), "\xff\xff" + counting(1, 0, 0, 0, a)[2:], true},
		{"with EDNS and without", counting(1, 0, 0, 1, a, recordOPT), counting(1, 0, 0, 0, a), true},
		{"other case", counting(1, 0, 0, 0, a), counting(1, 0, 0, 0, "\x01A\x00\x00\x01\x00\x01"), true},
		{"another name", counting(1, 0, 0, 0, a), counting(1, 0, 0, 0, "\x01b\x00\x00\x01\x00\x01"), false},
		{"a longer name", counting(1, 0, 0, 0, a), counting(1, 0, 0, 0, "\x01a\x01a\x00\x00\x01\x00\x01"), false},
		{"another type", counting(1, 0, 0, 0, a), counting(1, 0, 0, 0, https), false},
		{"types that differ as letters do", counting(1, 0, 0, 0, https), counting(1, 0, 0, 0, "\x01a\x00\x00\x61\x00\x01"), false},
		{"another class", counting(1, 0, 0, 0, a), counting(1, 0, 0, 0, "\x01a\x00\x00\x01\x00\x03"), false},
		{"bytes that are no letters", counting(1, 0, 0, 0, "\x01[\x00\x00\x01\x00\x01"), counting(1, 0, 0, 0, "\x01{\x00\x00\x01\x00\x01"), false},
		{"no plain question", counting(1, 0, 0, 0, "\x01a\xc0\x04\x00\x01\x00\x01"), counting(1, 0, 0, 0, "\x01a\xc0\x04\x00\x01\x00\x01"), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := sameQuestion([]byte(tt.a), []byte(tt.b)); got != tt.want {
				t.Errorf("got %v", got)
			}
			if got := sameQuestion([]byte(tt.b), []byte(tt.a)); got != tt.want {
				t.Errorf("turned round: got %v", got)
			}
		})
	}
}

// Of the queries in flight only those count that a chain has, and has not answered.
func TestSameInFlight(t *testing.T) {
	c, _ := newChannel(t)
	srv := serve(c.intake, nil, nil)
	add := func(id uint16, guest uint32, question string) *Exchange {
		q := asked(t, c, id)
		q.from.guest = guestKey{1, guest}
		q.payload = []byte(counting(1, 0, 0, 0, question))
		if reason := srv.admission.admit(q, 64); reason != "" {
			t.Fatal(reason)
		}
		return q
	}
	q := add(1, 7, questionA)
	check := func(of, anyone int) {
		t.Helper()
		if got := q.RepeatsOfGuest(); got != of {
			t.Errorf("%d of the guest, want %d", got, of)
		}
		if got := q.Repeats(); got != anyone {
			t.Errorf("%d of all, want %d", got, anyone)
		}
	}
	check(0, 0)
	add(2, 7, "\x01b\x00\x00\x01\x00\x01")
	check(0, 0)
	own := add(3, 7, questionA)
	check(1, 1)
	add(4, 8, questionA)
	check(1, 2)
	add(5, 8, questionA).ready.Store(false)
	check(1, 2)
	own.done.Store(true)
	check(0, 1)
}
