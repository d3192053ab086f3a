// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"bytes"
	"errors"
	"io"
)

// ending appends a blank line: else dns.ZoneParser accepts a last record without RDATA (RFC 2136).
type ending struct {
	file io.Reader
	// line counts from 1.
	line int
	// half is set while the last byte is not a newline.
	half bool
	over bool
	// err is the read error. The parser may report the half line before it.
	err error
}

func (e *ending) Read(p []byte) (int, error) {
	if e.over {
		return 0, io.EOF
	}
	if len(p) == 0 {
		return 0, nil
	}
	n, err := e.file.Read(p)
	if n > 0 {
		if !e.half {
			e.line++
		}
		e.half = p[n-1] != '\n'
		e.line += bytes.Count(p[:n-1], []byte("\n"))
		if errors.Is(err, io.EOF) {
			err = nil // the next call has it again
		}
		e.err = err
		return n, err
	}
	if errors.Is(err, io.EOF) {
		e.over = true
		p[0] = '\n'
		return 1, nil
	}
	e.err = err
	return n, err
}

// torn reports whether the file ends within a line.
func (e *ending) torn() bool { return e.over && e.half }
