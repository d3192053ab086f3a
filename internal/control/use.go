// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"sync"
	"time"
)

// Use moves the socket to a path; an empty path closes it. A path in use keeps its listener and connections.
// An error changes nothing.
//
// With wait, Use opens the socket once another process that listens there has gone: at a first start the
// predecessor may be handing over.
func (s *Server) Use(path string, wait bool, logger Logger) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if path == s.path && (path == "" || s.waiting != nil || s.socket.isThere()) {
		return nil
	}
	var next *socket
	var later *waiting
	if path != "" {
		l, err := listen(path)
		var held *HeldError
		switch {
		case err == nil:
			next = s.serve(l, path)
			logger.Infof("Control socket: %s", path)
		case wait && errors.As(err, &held):
			logger.Warningf("Control socket: %v; it is opened once that process is gone", err)
			later = s.await(path, logger)
		default:
			return err
		}
	}
	s.end()
	s.path, s.socket, s.waiting = path, next, later
	return nil
}

// Try returns the error that Use would return, and changes nothing.
func (s *Server) Try(path string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if path == "" || path == s.path && (s.waiting != nil || s.socket.isThere()) {
		return nil
	}
	if err := Check(path); err != nil {
		return err
	}
	if path == s.path {
		return nil // the file of this process's socket was removed
	}
	return holder(path)
}

// end closes the socket and its connections. mu is held.
func (s *Server) end() {
	if s.waiting != nil {
		s.waiting.cancel()
	}
	if s.socket != nil {
		s.socket.close()
	}
}

// retryTime is how long puntctl may find no socket after an upgrade.
const retryTime = 100 * time.Millisecond

// waiting is a goroutine that waits for a path of another process.
type waiting struct {
	cancel context.CancelFunc
	// problem is the last logged error, empty if another process listens there. Server.mu guards it.
	problem string
}

func (s *Server) await(path string, logger Logger) *waiting {
	ctx, cancel := context.WithCancel(context.Background())
	w := &waiting{cancel: cancel}
	go func() {
		defer cancel()
		t := time.NewTicker(retryTime)
		defer t.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-t.C:
			}
			if s.tryWaiting(w, path, logger) {
				return
			}
		}
	}()
	return w
}

// tryWaiting reports whether the waiting is over.
func (s *Server) tryWaiting(w *waiting, path string, logger Logger) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting != w {
		return true
	}
	l, err := listen(path)
	var held *HeldError
	if errors.As(err, &held) {
		return false
	}
	if err != nil {
		// Such as a folder that the other process removed: it may come back.
		if problem := err.Error(); problem != w.problem {
			w.problem = problem
			logger.Warningf("Control socket: it is tried again every %s: %v", retryTime, err)
		}
		return false
	}
	s.waiting = nil
	s.socket = s.serve(l, path)
	logger.Infof("Control socket: %s, the process before has gone", path)
	return true
}

type socket struct {
	path   string
	id     fileID
	server *http.Server
	// streams has an element for each open stream.
	streams <-chan struct{}
	cancel  context.CancelCauseFunc
	done    sync.WaitGroup
}

func (s *Server) serve(l *net.UnixListener, path string) *socket {
	ctx, cancel := context.WithCancelCause(context.Background())
	o := &socket{path: path, cancel: cancel, streams: s.streams}
	o.id, _ = fileIDOf(path) // without it the file is left to the next process
	o.server = &http.Server{
		Handler:           s.mux,
		ReadHeaderTimeout: s.header,
		// A shorter timeout would cancel the context of a request being answered.
		ReadTimeout:    s.header + s.answer + s.write,
		WriteTimeout:   s.answer + s.write,
		IdleTimeout:    s.idle,
		MaxHeaderBytes: maxHeader,
		ErrorLog:       log.New(io.Discard, "", 0), // mistakes of clients
		BaseContext:    func(net.Listener) context.Context { return ctx },
	}
	o.done.Go(func() { _ = o.server.Serve(newListener(l)) }) // it ends only by close
	return o
}

// isThere reports whether the file is still this socket's.
func (o *socket) isThere() bool {
	if o == nil {
		return false
	}
	id, err := fileIDOf(o.path)
	return err == nil && id == o.id
}

// close removes the file unless another process has replaced it.
func (o *socket) close() {
	if o.isThere() {
		_ = os.Remove(o.path) // the next process replaces it
	}
	o.cancel(ErrClosed)
	o.awaitStreams()
	_ = o.server.Close() // the listener may be closed already
	o.done.Wait()
}

// drainTimeout is the time that streams get for their last line.
const drainTimeout = time.Second

func (o *socket) awaitStreams() {
	t := time.NewTicker(drainTimeout / 200)
	defer t.Stop()
	for end := time.After(drainTimeout); len(o.streams) > 0; {
		select {
		case <-t.C:
		case <-end:
			return
		}
	}
}
