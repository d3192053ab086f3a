// SPDX-License-Identifier: Apache-2.0

package vswitch

import (
	"context"
	"crypto/tls"
	"time"

	"github.com/puntdns/puntdns/internal/endpoint"
)

// WatchProbing is Watch with another time between probes.
func WatchProbing(ctx context.Context, e endpoint.Endpoint, cfg *tls.Config, bridge string, probe time.Duration, onChange func(View), onState func(error)) error {
	w := watcher{bridge: bridge, probe: probe, onChange: onChange, onState: onState}
	return w.watch(ctx, e, cfg)
}

// NewBackoff is newBackoff.
var NewBackoff = newBackoff

// Same is isSame without the UUIDs of the rows, which the server assigns.
func Same(a, b Interface) bool {
	a.UUID, b.UUID = "", ""
	return a.isSame(b)
}
