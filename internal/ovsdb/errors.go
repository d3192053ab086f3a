// SPDX-License-Identifier: Apache-2.0

package ovsdb

import (
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"syscall"
)

var errClosed = errors.New("the server closed the connection")

// The errors of a connection that the server has closed differ by whether a read or a write fails first.
func closeError(err error) error {
	for _, closed := range []error{io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE} {
		if errors.Is(err, closed) {
			return errClosed
		}
	}
	return err
}

type serverError struct{ method, text string }

func (e *serverError) Error() string {
	return e.method + ": the server answers " + e.text
}

// newServerError parses null, a string, or <error> (RFC 7047 section 3.1).
func newServerError(method string, text json.RawMessage) error {
	if len(text) == 0 || string(text) == "null" {
		return nil
	}
	var e struct{ Error, Details string }
	if json.Unmarshal(text, &e) != nil && json.Unmarshal(text, &e.Error) != nil {
		e.Error = string(text)
	}
	err := &serverError{method: method, text: strconv.Quote(e.Error)}
	if e.Details != "" {
		err.text += ": " + e.Details
	}
	if e.Error == "unknown method" {
		err.text += " (Open vSwitch 2.12 or later is needed)"
	}
	return err
}
