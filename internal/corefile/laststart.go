// SPDX-License-Identifier: Apache-2.0

package corefile

import (
	"sync"

	"github.com/coredns/caddy"
)

// LastStart has what the plugins of the Corefile have opened whose start has begun last. When
// that fails after they have opened something, caddy calls no callback of the new Corefile, but
// OnRestartFailed of the old one. The zero value is empty.
type LastStart struct {
	mu     sync.Mutex // guards all below
	of     caddy.Context
	closes []func() error
}

// Add adds what close closes to the start of a Corefile. close may be called more than once.
func (a *LastStart) Add(of caddy.Context, close func() error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.of != of {
		a.of, a.closes = of, nil
	}
	a.closes = append(a.closes, close)
}

// RollBack closes what the last start has opened, unless that is of the Corefile that
// serves.
func (a *LastStart) RollBack(serving caddy.Context) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.of == serving {
		return
	}
	for _, close := range a.closes {
		_ = close() // nothing is left to be done
	}
	a.of, a.closes = serving, nil
}
