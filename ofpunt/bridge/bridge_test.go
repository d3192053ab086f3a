// SPDX-License-Identifier: Apache-2.0

package bridge

import "testing"

func TestControllerID(t *testing.T) {
	count := make(map[uint16]int)
	const ids = 1<<16 - 1024
	for n := range uint64(2 * ids) {
		count[controllerIDOf(n)]++
	}
	for id, n := range count {
		if id < 1024 || n != 2 {
			t.Errorf("%d numbers of %d give %d", n, 2*ids, id)
		}
	}
	if len(count) != ids {
		t.Errorf("%d ids, want %d", len(count), ids)
	}
	if id := newControllerID(); id < 1024 {
		t.Errorf("%d is left to others", id)
	}
}
