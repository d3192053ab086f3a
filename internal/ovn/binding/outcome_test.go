// SPDX-License-Identifier: Apache-2.0

package binding

import "testing"

func TestDecide(t *testing.T) {
	for _, tt := range []struct {
		name string
		facts
		want Outcome
	}{
		{"there is a row without a chassis", facts{at: unbound, plugged: true}, retain},
		{"the database is empty", facts{at: unknown, plugged: true}, retain},
		{"this chassis was renamed", facts{at: former, plugged: true}, retain},
		{"renamed, and without an interface", facts{at: former}, unplugged},
		{"renamed, and another has its keys", facts{at: former, plugged: true, keysReused: true}, replaced},
		{"renamed, and the grace is over", facts{at: former, plugged: true, timedOut: true}, Expired},
		{"bound here", facts{at: here, plugged: true}, boundAgain},
		{"bound here at the last moment", facts{at: here, plugged: true, timedOut: true}, boundAgain},
		{"bound elsewhere", facts{at: elsewhere, plugged: true}, moved},
		{"deleted", facts{at: absent, plugged: true}, deleted},
		{"without an interface", facts{at: unbound}, unplugged},
		{"another has its keys", facts{at: unbound, plugged: true, keysReused: true}, replaced},
		{"another has its keys in an empty database", facts{at: unknown, plugged: true, keysReused: true}, replaced},
		{"the grace is over", facts{at: unbound, plugged: true, timedOut: true}, Expired},
		{"the grace is over and the database empty", facts{at: unknown, plugged: true, timedOut: true}, Expired},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.decide(); got != tt.want {
				t.Errorf("outcome %d, want %d", got, tt.want)
			}
		})
	}
}
