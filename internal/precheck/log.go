// SPDX-License-Identifier: Apache-2.0

package precheck

import (
	"bytes"
	"io"
	"sync/atomic"
)

// Log writes the log of this process to W and counts its warnings. caddy warns of an import without files
// each time it parses a Corefile, and without a line: Log drops that, as Warn reports it once.
type Log struct {
	W        io.Writer
	warnings atomic.Int64
}

// Warnings returns how many warnings were written.
func (l *Log) Warnings() int64 { return l.warnings.Load() }

// Write implements io.Writer. Each call has one message, as text or JSON (CoreDNS's log).
func (l *Log) Write(message []byte) (int, error) {
	if bytes.Contains(message, []byte("No files matching import glob pattern: ")) {
		return len(message), nil
	}
	if bytes.HasPrefix(message, []byte("[WARNING] ")) || bytes.Contains(message, []byte(`,"level":"WARN",`)) {
		l.warnings.Add(1)
	}
	return l.W.Write(message)
}
