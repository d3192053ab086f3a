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

// An answer waits a second for the switch.
func TestOpenTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := flows.NewReconciler(nil, new(flows.Memory), func(flows.Report) {})
		began := time.Now()
		err := r.Open(t.Context(), placement.Key{Port: 1}, &opening.Answer{Name: "a.example.", To: []opening.Destination{{Address: netip.MustParseAddr("192.0.2.1")}}}, nil)
		if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took != time.Second {
			t.Errorf("%v after %v, want context.DeadlineExceeded after 1s", err, took)
		}
	})
}
