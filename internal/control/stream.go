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

// StreamFunc sends values as lines of JSON until ctx ends or send fails. A send without values shows the
// client that the stream has begun. The error is the last line, or the answer if nothing was sent.
type StreamFunc func(ctx context.Context, parameters url.Values, send func(...any) error) error

// ErrClosed ends a stream whose socket is closed.
var ErrClosed = errors.New("the control socket was closed: puntdns ends, or its Corefile has another socket or none")

// Stream adds a path that answers to GET with lines of JSON. A client that takes no line for 20 s is cut off.
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
		// Only single lines have deadlines. net/http's read for the client's end must not time out.
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
			// A return would end the stream as complete.
			panic(http.ErrAbortHandler)
		case err != nil:
			l.fail(err)
		}
	})
}

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

func (l *lines) fail(err error) {
	if !l.begun {
		writeError(l.w, err)
		return
	}
	_ = l.send(api.Error{Message: err.Error()}) // the client may be gone
}
