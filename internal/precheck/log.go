// SPDX-License-Identifier: Apache-2.0

package precheck

import (
	"bytes"
	"io"
	"sync/atomic"
)

// Log writes to W and counts warnings. It drops caddy's warning of an import without files, which has no
// line; Warn reports it.
type Log struct {
	W        io.Writer
	warnings atomic.Int64
}

// Warnings returns how many warnings were written.
func (l *Log) Warnings() int64 { return l.warnings.Load() }

// Write takes one message, as text or JSON (CoreDNS's log).
func (l *Log) Write(message []byte) (int, error) {
	if bytes.Contains(message, []byte("No files matching import glob pattern: ")) {
		return len(message), nil
	}
	if bytes.HasPrefix(message, []byte("[WARNING] ")) || bytes.Contains(message, []byte(`,"level":"WARN",`)) {
		l.warnings.Add(1)
	}
	return l.W.Write(message)
}
