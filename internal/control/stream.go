// SPDX-License-Identifier: Apache-2.0

package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/puntdns/puntdns/internal/control/api"
)

// StreamFunc sends values, each of which becomes a line of JSON, until ctx ends: the client has gone, or the
// socket is closed. To send no value shows the client that the stream has begun. An error of send ends the
// stream. The error of the StreamFunc is the last line, or the answer if nothing was sent yet.
type StreamFunc func(ctx context.Context, parameters url.Values, send func(...any) error) error

// ErrClosed is the cause of the end of a stream whose socket is closed.
var ErrClosed = errors.New("the control socket was closed: puntdns ends, or its Corefile has another socket or none")

// Stream adds a path that answers to GET with lines of JSON as they come. A client that takes no
// line for 20 s is cut off.
func (s *Server) Stream(path string, f StreamFunc) {
	s.handle(path, func(w http.ResponseWriter, r *http.Request) {
		select {
		case s.streams <- struct{}{}:
			defer func() { <-s.streams }()
		default:
			writeError(w, &Error{http.StatusServiceUnavailable, fmt.Errorf("%d streams are open; expected fewer", maxStreams)})
			return
		}
		l := &lines{w: w, control: http.NewResponseController(w), timeout: s.write}
		// A stream lasts; the deadlines are of single lines. net/http waits for the end of the
		// connection meanwhile, which must not time out.
		if err := l.control.SetReadDeadline(time.Time{}); err != nil {
			writeError(w, err)
			return
		}
		err := f(r.Context(), r.URL.Query(), l.send)
		cause := context.Cause(r.Context())
		switch {
		case errors.Is(cause, ErrClosed):
			l.fail(cause)
		case cause != nil:
			// To return would end the stream as one that is complete.
			panic(http.ErrAbortHandler)
		case err != nil:
			l.fail(err)
		}
	})
}

// lines is a stream that is being written.
type lines struct {
	w       http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration // of each send
	begun   bool
}

func (l *lines) send(values ...any) error {
	var text bytes.Buffer
	to := json.NewEncoder(&text)
	to.SetEscapeHTML(false)
	for _, v := range values {
		if err := to.Encode(v); err != nil {
			return err
		}
	}
	if !l.begun {
		l.w.Header().Set("Content-Type", "application/x-ndjson")
		l.begun = true
	}
	if err := l.control.SetWriteDeadline(time.Now().Add(l.timeout)); err != nil {
		return err
	}
	if _, err := l.w.Write(text.Bytes()); err != nil {
		return err
	}
	return l.control.Flush()
}

// fail ends the stream with an error.
func (l *lines) fail(err error) {
	if !l.begun {
		writeError(l.w, err)
		return
	}
	_ = l.send(api.Error{Message: err.Error()}) // the client may be gone
}
