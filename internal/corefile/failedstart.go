// SPDX-License-Identifier: Apache-2.0

package corefile

import (
	"slices"
	"sync"

	"github.com/coredns/caddy"
)

// If a start fails after plugins have opened something, caddy calls none of the callbacks of these plugins.
// After a reload caddy calls OnRestartFailed of the Corefile before, which may not have these plugins; after
// a first start it calls nothing. So this file keeps what undoes a start until the start has succeeded.

// underWay is the start of a Corefile that has neither succeeded nor failed yet. caddy starts one
// at a time.
var underWay struct {
	mu    sync.Mutex // guards undos
	undos []func() error
}

func init() {
	caddy.RegisterEventHook("puntdns_failed_start", func(event caddy.EventName, info any) error {
		if i, ok := info.(*caddy.Instance); ok && event == caddy.InstanceStartupEvent {
			takeUndos()
			i.OnRestartFailed = append(i.OnRestartFailed, StartFailed)
		}
		return nil
	})
}

// OnFailedStart has undo called if the start of a Corefile fails after this call, from one of its
// callbacks of OnStartup. Its error is dropped: nothing is left to be done.
func OnFailedStart(undo func() error) {
	underWay.mu.Lock()
	defer underWay.mu.Unlock()
	underWay.undos = append(underWay.undos, undo)
}

// StartFailed undoes the start that is under way, the last step first. It is called for a reload
// that has failed; who calls caddy.Start calls it for an error of that. Its error is always nil.
func StartFailed() error {
	for _, undo := range slices.Backward(takeUndos()) {
		_ = undo()
	}
	return nil
}

// takeUndos returns what undoes the start that was under way, which is over.
func takeUndos() []func() error {
	underWay.mu.Lock()
	defer underWay.mu.Unlock()
	undos := underWay.undos
	underWay.undos = nil
	return undos
}
