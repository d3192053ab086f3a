// SPDX-License-Identifier: Apache-2.0

package flows_test

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/puntdns/puntdns/internal/opening"
	"github.com/puntdns/puntdns/ofpunt/flows"
	"github.com/puntdns/puntdns/ofpunt/placement"
)

type caller struct{ left int }

func (c *caller) LeaveReader() { c.left++ }

// An answer waits a second for the switch, and not on the reader.
func TestOpenTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := flows.NewReconciler(nil, new(flows.Memory), func(flows.Report) {})
		began, by := time.Now(), new(caller)
		err := r.Open(context.WithValue(t.Context(), opening.CallerKey{}, by), placement.Key{Port: 1}, &opening.Answer{Name: "a.example.", To: []opening.Destination{{Address: netip.MustParseAddr("192.0.2.1")}}})
		if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took != time.Second {
			t.Errorf("%v after %v, want context.DeadlineExceeded after 1s", err, took)
		}
		if by.left != 1 {
			t.Errorf("left the reader %d times", by.left)
		}
	})
}
