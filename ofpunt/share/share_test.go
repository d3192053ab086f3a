// SPDX-License-Identifier: Apache-2.0

package share_test

import (
	"testing"

	"github.com/puntdns/puntdns/ofpunt/share"
)

func TestExceeded(t *testing.T) {
	limit := share.Capacity{All: 8, Owner: 3}
	for _, tt := range []struct {
		name    string
		u       share.Usage
		n       int
		want    share.Bound
		crowded bool
	}{
		{"nothing is taken", share.Usage{}, 1, share.None, false},
		{"as much as an owner may have", share.Usage{}, 3, share.None, false},
		{"more than that", share.Usage{}, 4, share.OfOwner, false},
		{"the last of an owner", share.Usage{All: 2, Network: 2, Owner: 2}, 1, share.None, false},
		{"an owner has all of its own", share.Usage{All: 3, Network: 3, Owner: 3}, 1, share.OfOwner, true},
		{"the last of a network alone", share.Usage{All: 3, Network: 3}, 1, share.None, false},
		{"a network has half", share.Usage{All: 4, Network: 4}, 1, share.OfNetwork, true},
		{"another one beside it", share.Usage{All: 5, Network: 1}, 1, share.None, false},
		{"two have a third each", share.Usage{All: 6, Network: 2}, 1, share.OfNetwork, true},
		{"a third one beside them", share.Usage{All: 6}, 1, share.None, false},
		{"all is taken", share.Usage{All: 8}, 1, share.OfNetwork, true},
		{"both bounds", share.Usage{All: 4, Network: 4, Owner: 3}, 1, share.OfOwner, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := limit.Exceeded(tt.u, tt.n); got != tt.want {
				t.Errorf("exceeded: %d, want %d", got, tt.want)
			}
			if got := limit.Crowded(tt.u); got != tt.crowded {
				t.Errorf("crowded: %v", got)
			}
		})
	}
}

// The next network always finds room: n networks leave one part in n+1.
func TestNextFindsRoom(t *testing.T) {
	limit := share.Capacity{All: 1 << 12, Owner: 1 << 12}
	all := 0
	for n := 1; n <= 10; n++ {
		own := 0
		for limit.Exceeded(share.Usage{All: all, Network: own}, 1) == share.None {
			all, own = all+1, own+1
		}
		if own == 0 {
			t.Fatalf("network %d finds no room, %d of %d are taken", n, all, limit.All)
		}
	}
}
