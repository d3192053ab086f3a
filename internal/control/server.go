// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/puntdns/puntdns/internal/control/api"
)

// Limits of what clients can take.
const (
	// maxConnections includes maxStreams.
	maxConnections, maxStreams = 32, 16
	// maxAnswers may have some megabytes each on a large node.
	maxAnswers = 2
	// maxHeader is in bytes. A body is not read.
	maxHeader = 8 << 10
)

type timeouts struct {
	// header is for the request, idle for the next request on its connection.
	header, idle time.Duration
	// answer is for making an answer, write for sending an answer or one line of a stream.
	answer, write time.Duration
}

// Tests have shorter ones.
var defaultTimeouts = timeouts{header: 5 * time.Second, idle: 30 * time.Second, answer: 10 * time.Second, write: 20 * time.Second}

// Process is the server of this process. Packages add their answers to it.
var Process = New()

// Logger logs changes of state. A clog.P of CoreDNS is one.
type Logger interface {
	Infof(format string, args ...any)
	Warningf(format string, args ...any)
}

// Server answers on one socket at a time. Routes are added before the first Use.
type Server struct {
	mux     *http.ServeMux
	status  []StatusFunc
	answers chan struct{} // an element for each being made
	streams chan struct{} // likewise
	started time.Time
	timeouts

	// mu guards the fields below.
	mu sync.Mutex
	// path is the argument of the last Use. Its socket is open unless waiting is set.
	path    string
	socket  *socket
	waiting *waiting
}

// New returns a server without a socket.
func New() *Server {
	s := &Server{
		mux: http.NewServeMux(), started: time.Now(), timeouts: defaultTimeouts,
		answers: make(chan struct{}, maxAnswers), streams: make(chan struct{}, maxStreams),
	}
	s.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		writeError(w, &Error{http.StatusNotFound, fmt.Errorf("%q: expected a path such as %s", r.URL.Path, api.PathStatus)})
	})
	s.Answer(api.PathStatus, s.makeStatus)
	return s
}

// Error is an error with its HTTP status; other errors are status 500.
type Error struct {
	Status int
	Err    error
}

// Error implements error.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap implements the interface of errors.Is.
func (e *Error) Unwrap() error { return e.Err }

// NotFound returns an Error for an unknown object.
func NotFound(format string, args ...any) error {
	return &Error{http.StatusNotFound, fmt.Errorf(format, args...)}
}

// AnswerFunc returns a value for JSON. ctx ends with the client, or after 10 s.
type AnswerFunc func(ctx context.Context, parameters url.Values) (any, error)

// Answer adds a path that answers to GET. At most two answers are made at once.
func (s *Server) Answer(path string, f AnswerFunc) {
	s.handle(path, func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), s.answer)
		defer cancel()
		text, err := s.makeAnswer(ctx, f, r.URL.Query())
		if err != nil {
			writeError(w, err)
			return
		}
		write(w, http.StatusOK, text)
	})
}

func (s *Server) makeAnswer(ctx context.Context, f AnswerFunc, parameters url.Values) ([]byte, error) {
	select {
	case s.answers <- struct{}{}:
		defer func() { <-s.answers }()
	case <-ctx.Done():
		return nil, &Error{http.StatusServiceUnavailable, fmt.Errorf("%d other answers are being made; expected fewer, try again", maxAnswers)}
	}
	v, err := f(ctx, parameters)
	if err != nil {
		return nil, err
	}
	return json.Marshal(v)
}

func (s *Server) handle(path string, f http.HandlerFunc) {
	s.mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", http.MethodGet)
			writeError(w, &Error{http.StatusMethodNotAllowed, fmt.Errorf("method %q: expected GET", r.Method)})
			return
		}
		f(w, r)
	})
}

func writeError(w http.ResponseWriter, err error) {
	status := http.StatusInternalServerError
	var known *Error
	if errors.As(err, &known) {
		status = known.Status
	}
	text, _ := json.Marshal(api.Error{Message: err.Error()}) // a string can always be encoded
	write(w, status, text)
}

func write(w http.ResponseWriter, status int, text []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n'))
}
